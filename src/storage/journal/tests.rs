//! The journal on a simulated disk: what was synced is replayed, and nothing else, over any crash.

use super::*;
use crate::storage::disk::Disk;
use crate::storage::disk::sim::{Call, Fault, Keep, Loss, SimDisk};

const STORE: u128 = 77;
const SEGMENT_BYTES: u64 = 16 << 10;

fn open(disk: &SimDisk, from: End) -> Result<(Journal, Vec<Replayed>), Error> {
    Journal::open(disk, STORE, SEGMENT_BYTES, from)
}

fn payload(seq: u64) -> Vec<u8> {
    vec![seq as u8; 100 + (seq as usize * 331) % 1_500]
}

/// Writes the next record; true if it is durable.
fn append(journal: &mut Journal) -> bool {
    let last = journal.end().seq;
    let bytes = payload(last.next().0);
    journal.prepare(last.next(), last, &bytes).write_and_sync().is_ok()
}

fn seqs(records: &[Replayed]) -> Vec<u64> {
    for record in records {
        assert_eq!(record.payload, payload(record.seq.0), "record {}", record.seq);
    }
    records.iter().map(|record| record.seq.0).collect()
}

#[test]
fn jn1_records_come_back_over_both_segments() {
    let disk = SimDisk::new();
    let (mut journal, records) = open(&disk, End::default()).unwrap();
    assert!(records.is_empty());
    let mut from = End::default();
    let mut first = 1;
    for seq in 1..=100_u64 {
        if !journal.fits(payload(seq).len()) {
            // A checkpoint: everything so far lies elsewhere, so the other segment is free.
            from = journal.end();
            first = seq;
            journal.switch();
        }
        assert!(append(&mut journal));
        let image = disk.power_cut(Keep::Nothing);
        let (again, records) = open(&image, from).unwrap();
        assert_eq!(seqs(&records), (first..=seq).collect::<Vec<_>>());
        assert_eq!(again.end(), journal.end());
    }
}

#[test]
fn groups_without_a_record_do_not_break_the_chain() {
    let disk = SimDisk::new();
    let (mut journal, _) = open(&disk, End::default()).unwrap();
    assert!(append(&mut journal));
    let from = journal.skip_to(Seq(5));
    assert!(append(&mut journal));
    let (_, records) = open(&disk.kill(), from).unwrap();
    assert_eq!(seqs(&records), [6]);
}

/// At every call of opening, writing and switching, with every way of losing what was not synced.
#[test]
fn jn1_jn2_a_power_cut_at_every_call() {
    let keeps = |ops: usize| {
        let singly = (0..ops).flat_map(|op| {
            let torn = |at| Keep::Torn { op, at, prefix: true, rest: true };
            [Keep::Only(op), Keep::AllBut(op), torn(1), torn(512), torn(1_024)]
        });
        let drawn = (0..4).flat_map(|seed| [Keep::Subset(seed), Keep::Sectors(seed)]);
        [Keep::Nothing, Keep::Everything, Keep::Lengths, Keep::Writes]
            .into_iter()
            .chain(singly.take(200))
            .chain(drawn)
            .collect::<Vec<_>>()
    };
    let mut images = 0;
    for ordinal in 1.. {
        let disk = SimDisk::new();
        disk.inject(Fault::crash(ordinal));
        let mut durable = 0;
        if let Ok((mut journal, _)) = open(&disk, End::default()) {
            for seq in 1..=14_u64 {
                if !journal.fits(payload(seq).len()) {
                    journal.switch();
                }
                if !append(&mut journal) {
                    break;
                }
                durable = seq;
            }
        }
        for keep in keeps(disk.unsynced().len()) {
            let (mut journal, records) = open(&disk.power_cut(keep), End::default()).unwrap();
            let got = seqs(&records);
            let last = got.len() as u64;
            assert_eq!(got, (1..=last).collect::<Vec<_>>(), "call {ordinal}, {keep:?}");
            assert!(last == durable || last == durable + 1, "call {ordinal}, {keep:?}: {last}");
            assert!(!journal.fits(payload(last + 1).len()) || append(&mut journal));
            images += 1;
        }
        if !disk.has_crashed() {
            break;
        }
    }
    assert!(images > 500, "{images}");
}

/// What an opening returned is durable, whatever the failed syncs before it had lost.
#[test]
fn jn3_what_was_read_from_the_page_cache_is_durable_afterwards() {
    for loss in [Loss::All, Loss::Part(3)] {
        let disk = SimDisk::new();
        let (mut journal, _) = open(&disk, End::default()).unwrap();
        assert!(append(&mut journal));
        disk.reset_calls();
        disk.inject(Fault::lost_sync(2, loss)); // write, then sync
        assert!(!append(&mut journal));
        drop(journal);
        let (_, records) = open(&disk, End::default()).unwrap();
        assert_eq!(seqs(&records), [1, 2]);
        let (_, records) = open(&disk.power_cut(Keep::Nothing), End::default()).unwrap();
        assert_eq!(seqs(&records), [1, 2]);
    }
}

#[test]
fn jn3_a_crash_in_a_recovery_in_a_recovery() {
    let disk = SimDisk::new();
    let (mut journal, _) = open(&disk, End::default()).unwrap();
    (0..5).for_each(|_| assert!(append(&mut journal)));
    let unsynced = disk.kill();
    for first in 1..12 {
        let once = unsynced.kill();
        once.inject(Fault::crash(first));
        let _ = open(&once, End::default());
        for second in 1..12 {
            let twice = once.power_cut(Keep::Subset(first * 31 + second));
            twice.inject(Fault::crash(second));
            let _ = open(&twice, End::default());
            let (_, records) = open(&twice.power_cut(Keep::Nothing), End::default()).unwrap();
            assert_eq!(seqs(&records), [1, 2, 3, 4, 5]);
        }
    }
}

#[test]
fn jn4_a_durable_record_that_is_gone_is_damage_and_the_last_one_is_not() {
    let disk = SimDisk::new();
    let (mut journal, _) = open(&disk, End::default()).unwrap();
    let mut starts = Vec::new();
    for _ in 0..6 {
        starts.push(journal.end().offset);
        assert!(append(&mut journal));
    }
    for (n, start) in starts.iter().enumerate() {
        for at in [0, 5, 9, 13, 30, 45, 90] {
            let image = disk.kill();
            let file = image.open(NAMES[0], false).unwrap();
            let mut byte = [0];
            file.read_at(start + at, &mut byte).unwrap();
            file.write_at(start + at, &[byte[0] ^ 4]).unwrap();
            match open(&image, End::default()) {
                Ok((_, records)) if n == 5 => assert_eq!(seqs(&records), [1, 2, 3, 4, 5]),
                Err(error) if n < 5 => {
                    assert!(error.is_corrupt());
                    let place = format!("{}, byte {start}", NAMES[0]);
                    assert!(error.to_string().contains(&place), "{error}");
                    erase(&image).unwrap();
                    let (_, records) = open(&image, End::default()).unwrap();
                    assert!(records.is_empty());
                }
                other => panic!("record {n}, byte {at}: {:?}", other.map(|(_, r)| r)),
            }
        }
    }
}

#[test]
fn jn5_a_record_changes_no_length() {
    let disk = SimDisk::new();
    let (mut journal, _) = open(&disk, End::default()).unwrap();
    disk.record(true);
    (0..5).for_each(|_| assert!(append(&mut journal)));
    let calls: Vec<Call> = disk.trace().iter().map(|traced| traced.call).collect();
    assert_eq!(calls, [Call::Write, Call::Sync].repeat(5));
    assert!(disk.unsynced().is_empty());
    let longer = Journal::open(&disk, STORE, 2 * SEGMENT_BYTES, End::default()).unwrap();
    assert_eq!(seqs(&longer.1), [1, 2, 3, 4, 5], "a longer journal keeps its records");
    assert_eq!(longer.0.segment_bytes(), 2 * SEGMENT_BYTES);
    let (kept, _) = open(&disk, End::default()).unwrap();
    assert_eq!(kept.segment_bytes(), 2 * SEGMENT_BYTES, "it never shrinks");
}

#[test]
fn records_fit_up_to_the_last_byte() {
    let disk = SimDisk::new();
    let (mut journal, _) = open(&disk, End::default()).unwrap();
    let most = SEGMENT_BYTES as usize - record::HEADER_BYTES;
    assert!(journal.fits_empty(most) && journal.fits(most));
    assert!(!journal.fits_empty(most + 1) && !journal.fits(most + 1));
    let full = vec![9; most];
    journal.prepare(Seq(1), Seq(0), &full).write_and_sync().unwrap();
    assert!(!journal.fits(0) && journal.fits_empty(0));
    let (_, records) = open(&disk.kill(), End::default()).unwrap();
    assert_eq!(records, [Replayed { seq: Seq(1), payload: full }]);
}

#[test]
fn golden_bytes_of_the_row_in_redb() {
    let end = End { seq: Seq(3), crc: 4, segment: 1, offset: 512 };
    let row = end.encode();
    let golden = [1, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0];
    assert_eq!(row[..row.len() - 4], golden);
    assert_eq!(End::decode(&row), Ok(end));
    for bit in 0..row.len() * 8 {
        let mut bad = row.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(End::decode(&bad).is_err());
    }
    assert!(End::decode(&End { segment: 2, ..end }.encode()).is_err());
}
