//! Each fault on its own, on bare files.

use std::io::ErrorKind;
use std::time::Duration;

use super::{Call, Capacity, Fault, Keep, Loss, SimDisk, Unsynced};
use crate::base::clock::Clock;
use crate::base::sim_clock::SimClock;
use crate::storage::disk::{Disk, DiskFile};

/// A disk with a durable file "f" of that content.
fn disk_with(content: &[u8]) -> (SimDisk, Box<dyn DiskFile>) {
    let disk = SimDisk::new();
    let file = disk.open("f", true).unwrap();
    file.write_at(0, content).unwrap();
    file.sync().unwrap();
    disk.sync_dir().unwrap();
    disk.reset_calls();
    (disk, file)
}

fn cut(disk: &SimDisk, keep: Keep) -> Vec<u8> {
    disk.power_cut(keep).contents("f").unwrap()
}

#[test]
fn a_power_cut_keeps_what_was_synced_and_what_the_plan_says() {
    let (disk, file) = disk_with(b"aaaa");
    file.write_at(0, b"b").unwrap();
    file.write_at(1, b"c").unwrap();
    file.write_at(2, b"d").unwrap();
    assert_eq!(cut(&disk, Keep::Nothing), b"aaaa");
    assert_eq!(cut(&disk, Keep::Everything), b"bcda");
    assert_eq!(cut(&disk, Keep::Only(1)), b"acaa");
    assert_eq!(cut(&disk, Keep::AllBut(1)), b"bada");
    let subsets: std::collections::BTreeSet<_> =
        (0..100).map(|seed| cut(&disk, Keep::Subset(seed))).collect();
    assert_eq!(subsets.len(), 8);
    file.sync().unwrap();
    assert_eq!(cut(&disk, Keep::Nothing), b"bcda");
    assert!(disk.unsynced().is_empty());
}

#[test]
fn writes_tear_by_bytes_and_by_sectors() {
    let (disk, file) = disk_with(&[0; 2_048]);
    file.write_at(0, &[1; 1_024]).unwrap();
    file.write_at(2_047, &[2]).unwrap();
    let torn = |at, prefix, rest| {
        let image = cut(&disk, Keep::Torn { op: 0, at, prefix, rest });
        let ones = image.iter().filter(|b| **b == 1).count();
        (ones, image[0], image[1_023], image[2_047])
    };
    assert_eq!(torn(512, true, true), (512, 1, 0, 2));
    assert_eq!(torn(7, true, false), (7, 1, 0, 0));
    assert_eq!(torn(7, false, true), (1_017, 0, 1, 2));
    let halves: std::collections::BTreeSet<_> = (0..100)
        .map(|seed| cut(&disk, Keep::Sectors(seed)))
        .map(|image| (image[0], image[511], image[512], image[1_023]))
        .collect();
    assert_eq!(
        halves.into_iter().collect::<Vec<_>>(),
        [(0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 0, 0), (1, 1, 1, 1),]
    );
}

#[test]
fn lengths_are_kept_or_lost_on_their_own() {
    let (disk, file) = disk_with(b"aaaa");
    file.set_len(2).unwrap();
    file.write_at(0, b"b").unwrap();
    file.write_at(4, b"cc").unwrap(); // grows the file: a length change and a write
    assert_eq!(disk.unsynced()[2], Unsynced::Length { len: 6 });
    assert_eq!(cut(&disk, Keep::Lengths), b"aa\0\0\0\0");
    assert_eq!(cut(&disk, Keep::Writes), b"baaacc");
    assert_eq!(cut(&disk, Keep::Only(0)), b"aa");
    assert_eq!(cut(&disk, Keep::Everything), b"ba\0\0cc");

    let (disk, file) = disk_with(b"a");
    file.set_len(4).unwrap();
    file.write_at(0, b"bbbb").unwrap();
    assert_eq!(cut(&disk, Keep::Writes), b"b", "bytes past a lost length are nobody's");
}

#[test]
fn names_are_durable_by_a_sync_of_the_directory() {
    let (disk, _) = disk_with(b"old");
    let new = disk.open("g", true).unwrap();
    new.write_at(0, b"new").unwrap();
    new.sync().unwrap();
    disk.rename("g", "f").unwrap();
    assert_eq!(disk.list().unwrap(), ["f"]);
    assert_eq!(disk.contents("f").unwrap(), b"new");
    assert_eq!(cut(&disk, Keep::Nothing), b"old");
    assert_eq!(cut(&disk, Keep::Everything), b"new");
    assert_eq!(disk.power_cut(Keep::Only(0)).list().unwrap(), ["f", "g"]);
    disk.sync_dir().unwrap();
    assert_eq!(cut(&disk, Keep::Nothing), b"new");
    disk.remove("f").unwrap();
    disk.remove("f").unwrap();
    assert_eq!(cut(&disk, Keep::Nothing), b"new");
    assert!(disk.power_cut(Keep::Everything).list().unwrap().is_empty());
    assert_eq!(new.len().unwrap(), 3, "an open file outlives its name");

    let bare = SimDisk::without_directory();
    assert_eq!(bare.list().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(bare.open("f", true).is_err());
    bare.create_dir().unwrap();
    assert!(bare.power_cut(Keep::Nothing).list().unwrap().is_empty());
}

#[test]
fn a_crash_includes_its_call_and_fails_all_later_ones() {
    let (disk, file) = disk_with(b"aa");
    disk.inject(Fault::crash(2));
    file.write_at(0, b"b").unwrap();
    assert!(file.write_at(1, b"c").is_err());
    assert!(disk.has_crashed());
    assert!(file.sync().is_err() && file.len().is_err() && disk.list().is_err());
    assert_eq!(cut(&disk, Keep::Everything), b"bc");
    assert_eq!(cut(&disk, Keep::Nothing), b"aa");

    let again = disk.power_cut(Keep::Only(1)); // nested: the image crashes in turn
    let file = again.open("f", false).unwrap();
    again.inject(Fault::crash(3));
    file.write_at(0, b"x").unwrap();
    assert!(file.sync().is_err(), "a sync that the power leaves has made nothing durable");
    assert_eq!(cut(&again, Keep::Nothing), b"ac");
    assert_eq!(cut(&again, Keep::Everything), b"xc");
}

#[test]
fn a_kill_keeps_the_page_cache_unsynced_and_frees_the_lock() {
    let (disk, file) = disk_with(b"a");
    let lock = disk.lock("lock").unwrap().unwrap();
    assert!(disk.lock("lock").unwrap().is_none());
    file.write_at(0, b"b").unwrap();
    let after = disk.kill();
    assert!(after.lock("lock").unwrap().is_some());
    assert_eq!(after.contents("f").unwrap(), b"b");
    assert_eq!(cut(&after, Keep::Nothing), b"a");
    after.open("f", false).unwrap().sync().unwrap();
    assert_eq!(cut(&after, Keep::Nothing), b"b");
    assert_eq!(cut(&disk, Keep::Nothing), b"a", "the killed one is another machine");
    drop(lock);
    assert!(disk.lock("lock").unwrap().is_some());
}

#[test]
fn errors_strike_once_or_lasting_and_only_their_kind() {
    let (disk, file) = disk_with(b"aaaa");
    let mut out = [0; 4];
    disk.inject(Fault::error(1, &[Call::Read]));
    disk.inject(Fault::error(3, &[Call::Write, Call::SetLen]).lasting());
    disk.inject(Fault::error(1, &[Call::Rename]));
    file.write_at(0, b"b").unwrap();
    assert!(file.read_at(0, &mut out).is_err());
    file.read_at(0, &mut out).unwrap();
    assert!(file.write_at(0, b"c").is_err() && file.set_len(0).is_err());
    assert!(disk.rename("f", "g").is_err());
    assert_eq!(disk.list().unwrap(), ["f"]);
    disk.inject(Fault::error(1, &[Call::Sync]));
    assert!(file.sync().is_err());
    file.sync().unwrap();
    assert_eq!(cut(&disk, Keep::Nothing), b"baaa", "this sort of failing sync loses nothing");
    disk.clear_faults();
    file.write_at(0, b"c").unwrap();
    disk.inject(Fault::full(1, &[Call::Write]));
    assert_eq!(file.write_at(0, b"d").unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(disk.contents("f").unwrap(), b"caaa");
}

#[test]
fn reads_and_writes_fall_short() {
    let (disk, file) = disk_with(b"abcd");
    let mut out = [0; 4];
    disk.inject(Fault::short_read(1, 2));
    assert_eq!(file.read_at(0, &mut out).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(&out, b"ab\0\0");
    assert_eq!(file.read_at(1, &mut out).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    disk.inject(Fault::short_write(1, 3));
    assert!(file.write_at(0, b"xxxx").is_err());
    assert_eq!(disk.contents("f").unwrap(), b"xxxd");
    assert_eq!(cut(&disk, Keep::Everything), b"xxxd");
}

#[test]
fn a_lost_sync_is_readable_until_the_power_cut_and_never_persisted_later() {
    let (disk, file) = disk_with(b"aaaa");
    file.write_at(0, b"bbb").unwrap();
    disk.inject(Fault::lost_sync(1, Loss::All));
    assert!(file.sync().is_err());
    file.write_at(3, b"c").unwrap();
    file.sync().unwrap();
    assert_eq!(disk.contents("f").unwrap(), b"bbbc");
    assert_eq!(disk.kill().contents("f").unwrap(), b"bbbc");
    assert_eq!(cut(&disk, Keep::Everything), b"aaac");
    file.write_at(1, b"b").unwrap(); // written again, so it counts again
    file.sync().unwrap();
    assert_eq!(cut(&disk, Keep::Nothing), b"abac");

    let outcomes: std::collections::BTreeSet<_> = (0..100)
        .map(|seed| {
            let (disk, file) = disk_with(b"aa");
            file.write_at(0, b"b").unwrap();
            file.write_at(1, b"c").unwrap();
            disk.inject(Fault::lost_sync(1, Loss::Part(seed)));
            assert!(file.sync().is_err());
            cut(&disk, Keep::Everything)
        })
        .collect();
    assert_eq!(outcomes.len(), 4);
}

#[test]
fn a_full_disk_fails_growth_or_writes_into_holes_until_there_is_space() {
    let (disk, file) = disk_with(&[1; 4_096]);
    disk.set_capacity(Capacity::Lengths(5_000));
    assert_eq!(file.set_len(5_001).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.write_at(4_000, &[2; 2_000]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 5_000, "what fitted was written");
    file.write_at(0, &[3; 5_000]).unwrap();
    disk.set_capacity(Capacity::Lengths(6_000));
    file.write_at(4_000, &[2; 2_000]).unwrap();

    disk.set_capacity(Capacity::Written(12_288));
    file.set_len(1 << 20).unwrap();
    file.write_at(500_000, &[4]).unwrap();
    assert_eq!(file.write_at(900_000, &[4]).unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_at(0, &[5; 8_192]).unwrap();
    disk.set_capacity(Capacity::Unlimited);
    file.write_at(900_000, &[4]).unwrap();
}

#[test]
fn a_closed_store_is_damaged_by_bits_pages_and_truncation() {
    let mut content = vec![1; 4_096];
    content.extend([2; 4_096]);
    let (disk, _) = disk_with(&content);
    disk.flip_bit("f", 8 * 4_096 + 2).unwrap();
    disk.swap_pages("f", 0, 1).unwrap();
    let image = disk.power_cut(Keep::Nothing);
    assert_eq!(image.contents("f"), disk.contents("f"));
    let found = image.contents("f").unwrap();
    assert_eq!((found[0], found[1], found[4_096]), (6, 2, 1));
    image.zero_page("f", 1).unwrap();
    image.overwrite("f", 1, b"xy").unwrap();
    image.truncate("f", 5_000).unwrap();
    let found = image.contents("f").unwrap();
    assert_eq!((found.len(), found[1], found[4_096]), (5_000, b'x', 0));
    assert!(image.flip_bit("f", 8 * 5_000).is_err());
    assert!(image.swap_pages("f", 0, 1).is_err(), "the second is no whole page");
    assert!(image.zero_page("g", 0).is_err());
}

#[test]
fn calls_are_counted_traced_and_take_simulated_time() {
    let (disk, file) = disk_with(b"a");
    let clock = SimClock::new(0);
    disk.set_latency(&clock, Call::Sync, Duration::from_millis(20));
    disk.record(true);
    file.write_at(3, b"bc").unwrap();
    file.sync().unwrap();
    disk.kill().open("f", false).unwrap().sync().unwrap();
    assert_eq!((clock.wall_ms(), clock.stopwatch_us()), (40, 40_000));
    assert_eq!(disk.calls(), 2);
    let lines: Vec<String> = disk.trace().iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["1 Write f at 3 of 2 bytes", "2 Sync f at 0 of 0 bytes"]);
}

/// A measure, not a limit: `cargo test --release images_are_cheap -- --nocapture`.
#[test]
fn images_are_cheap() {
    let (disk, file) = disk_with(&vec![7; 1 << 20]);
    (0..20).for_each(|n| file.write_at(n * 8_192, &[8; 4_096]).unwrap());
    let count = 2_000;
    let start = crate::base::clock::SystemClock::new();
    let from = start.stopwatch_us();
    let lens = (0..count).map(|seed| disk.power_cut(Keep::Subset(seed)).calls());
    assert_eq!(lens.sum::<u64>(), 0);
    let us = (start.stopwatch_us() - from).max(1);
    eprintln!("{} images of 1 MiB a second", count * 1_000_000 / us);
}
