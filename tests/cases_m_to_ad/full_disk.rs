//! Cases R1 and R4: the disk fills up while claims come in, and has space again.

use std::path::Path;
use std::process::Command;

use txinbox::testkit::Capacity;
use txinbox::{Builder, Inbox, Map, Retention, hours};

use crate::kit::{Lab, event, is_typed_disk_error};

/// State of one event.
const VALUE_BYTES: usize = 4 << 10;

/// Feeds events from `*next` on until one is refused; acknowledged ones go to `acked`.
fn fill(inbox: &Inbox, next: &mut u64, acked: &mut Vec<u64>) {
    let state: Map<u64, [u8]> = inbox.map("state").unwrap();
    let consumer = inbox.consumer("c").unwrap();
    loop {
        let n = *next;
        *next += 1;
        assert!(n < 100_000, "the disk never fills up");
        match consumer
            .process(&event(n), |tx| Ok(tx.insert(&state, &n, &[n as u8; VALUE_BYTES])?))
        {
            Ok(outcome) => {
                assert!(outcome.is_applied());
                acked.push(n);
            }
            Err(error) => {
                assert!(is_typed_disk_error(&error), "{error}");
                assert!(error.is_full() && error.is_retryable(), "{error}");
                break;
            }
        }
    }
}

/// Repeats are answered, new events refused; then space, reopening, and the truth about all.
fn fill_and_recover(open: &dyn Fn() -> Inbox, wait: &dyn Fn(), make_room: &dyn Fn()) {
    let (mut next, mut acked) = (0, Vec::new());
    let inbox = open();
    fill(&inbox, &mut next, &mut acked);
    assert!(acked.len() > 20, "only {} events before the disk was full", acked.len());
    let consumer = inbox.consumer("c").unwrap();
    for n in &acked {
        assert!(consumer.process(&event(*n), |_| Ok(())).unwrap().is_duplicate(), "{n} while full");
    }
    for n in next..next + 5 {
        match consumer.process(&event(n), |tx| {
            tx.set_result(vec![7; 1 << 20])?;
            Ok(())
        }) {
            Ok(outcome) => panic!("a megabyte found room: {outcome:?}"),
            Err(error) => assert!(error.is_full(), "{error}"),
        }
    }
    make_room();
    wait(); // new events are tried again only after a pause
    fill_within(&consumer, &mut acked, &mut next, 5);
    drop((consumer, inbox));

    let inbox = open();
    let consumer = inbox.consumer("c").unwrap();
    let state: Map<u64, [u8]> = inbox.map("state").unwrap();
    inbox.verify().unwrap();
    for n in 0..next {
        let outcome = consumer.process(&event(n), |tx| {
            assert_eq!(tx.get(&state, &n)?, None, "{n} had left state without a claim");
            Ok(())
        });
        let outcome = outcome.unwrap();
        assert_eq!(outcome.is_duplicate(), acked.contains(&n), "{n}: {outcome:?}");
    }
    for n in &acked {
        let value: Result<_, txinbox::Error> = inbox.read(|view| view.get(&state, n));
        assert!(value.unwrap().is_some() || *n >= next - 5, "state of {n}");
    }
}

/// With room again, the store goes on in the same process.
fn fill_within(consumer: &txinbox::Consumer, acked: &mut Vec<u64>, next: &mut u64, events: u64) {
    *next += 5;
    for n in *next..*next + events {
        assert!(
            consumer.process(&event(n), |_| Ok(())).unwrap().is_applied(),
            "{n} with room again"
        );
        acked.push(n);
    }
    *next += events;
}

/// R1: on the simulated disk, full by the lengths of files or by written pages, with and without space
/// kept back.
#[test]
fn r1_a_full_disk_refuses_with_typed_errors_and_loses_nothing() {
    for (bytes, limit) in
        [(6 << 20, Capacity::Lengths as fn(u64) -> _), (3 << 20, Capacity::Written)]
    {
        for ballast in [0, 4 << 20] {
            let lab = Lab::new(Retention::at_least(hours(31)));
            let open = || lab.builder().ballast_bytes(ballast).open_on(&lab.disk).unwrap();
            let kept_back = || lab.disk.contents("txinbox.ballast").map(|c| c.len() as u64);
            drop(open());
            assert_eq!(kept_back(), (ballast > 0).then_some(ballast));
            lab.disk.set_capacity(limit(bytes + ballast));
            fill_and_recover(
                &open,
                &|| lab.clock.advance(std::time::Duration::from_secs(1)),
                &|| {
                    assert_eq!(kept_back(), (ballast > 0).then_some(0), "it was used up");
                    lab.disk.set_capacity(Capacity::Unlimited);
                },
            );
            assert_eq!(kept_back(), (ballast > 0).then_some(ballast), "opening laid it again");
        }
    }
}

/// R1: on a real file system of 8 MiB. Needs the right to mount.
#[test]
fn r1_a_small_real_file_system_fills_up_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::tmpfs(dir.path(), "8m") else {
        eprintln!("SKIPPED r1 on a real file system: mounting a tmpfs needs root");
        return;
    };
    for ballast in [0, 1 << 20] {
        let filler = mount.path.join("filler");
        std::fs::write(&filler, vec![1; 4 << 20]).unwrap();
        let store = mount.path.join("store");
        let kept_back = || std::fs::metadata(store.join("txinbox.ballast")).map_or(0, |m| m.len());
        fill_and_recover(
            &|| {
                let inbox = builder().ballast_bytes(ballast).open(&store).unwrap();
                assert_eq!(kept_back(), ballast);
                inbox
            },
            &|| std::thread::sleep(std::time::Duration::from_millis(700)),
            &|| {
                assert_eq!(kept_back(), 0, "it was used up");
                std::fs::remove_file(&filler).unwrap();
            },
        );
        std::fs::remove_dir_all(&store).unwrap();
    }
}

fn builder() -> Builder {
    Inbox::builder(Retention::at_least(hours(31)))
        .no_threads()
        .journal_segment_bytes(64 << 10)
        .cache_bytes(4 << 20)
}

/// A file system of its own, unmounted when dropped.
struct Mount {
    path: std::path::PathBuf,
}

impl Mount {
    fn tmpfs(path: &Path, size: &str) -> Option<Self> {
        let option = format!("size={size}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &option, "tmpfs"])
            .arg(path)
            .stderr(std::process::Stdio::null())
            .status()
            .ok()?;
        status.success().then(|| Self { path: path.to_owned() })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// R4: a disk that is full, and then a sweep with much to forget. It makes progress or ends with a typed
/// error, at once; with the documented head-room it gets through, and what it frees takes new events.
#[test]
fn r4_sweeping_a_full_disk_makes_progress_or_says_why_not() {
    let lab = Lab::new(Retention::at_least(hours(31)));
    let inbox = lab.open();
    let consumer = inbox.consumer("c").unwrap();
    for n in 0..600 {
        let applied = consumer.process(&event(n), |tx| Ok(tx.set_result(vec![n as u8; 3_000])?));
        assert!(applied.unwrap().is_applied());
    }
    let len = lab.disk.contents("txinbox.redb").unwrap().len() as u64;
    lab.disk.set_capacity(Capacity::Lengths(len + 4_096));
    let (mut next, mut acked) = (1_000, Vec::new());
    fill(&inbox, &mut next, &mut acked);

    lab.clock.advance(hours(40));
    let mut forgotten = 0;
    for _ in 0..20 {
        match inbox.sweep() {
            Ok(swept) => forgotten += swept.claims_forgotten,
            Err(error) => assert!(is_typed_disk_error(&error), "{error}"),
        }
        lab.clock.advance(std::time::Duration::from_secs(1));
    }
    let stats = inbox.stats().unwrap();
    println!("{forgotten} of {} forgotten on a full disk", 600 + acked.len());
    assert_eq!(stats.claims_expired, forgotten);
    if forgotten == 0 {
        // Forgetting writes before it frees, and redb grows a file by doubling it: the head-room that a
        // full disk needs is the file's own length, once.
        lab.disk.set_capacity(Capacity::Lengths(2 * len + (64 << 10)));
        lab.clock.advance(std::time::Duration::from_secs(1));
        forgotten = inbox.sweep().unwrap().claims_forgotten;
    }
    assert_eq!(forgotten, 600 + acked.len() as u64);
    for n in 5_000..5_200 {
        let outcome = consumer.process(&event(n), |tx| Ok(tx.set_result(vec![1; 3_000])?));
        assert!(outcome.unwrap().is_applied(), "the space of what was forgotten takes {n}");
    }
}
