//! Case AC2: what a dead process leaves beside the store, and what a living one holds.

use std::fs;

use txinbox::{Inbox, Retention, hours};

use crate::child;
use crate::kit::{Lab, deliver};

/// A lock file that names a process that lives, as after its number was used again; files of a
/// creation that never ended; a directory that `fsck` made. All opens, and nothing is lost.
#[test]
fn ac2_left_over_files_do_not_keep_the_store_shut() {
    let dir = tempfile::tempdir().unwrap();
    let own_pid = std::process::id().to_string();
    for round in 0..3 {
        fs::write(dir.path().join("LOCK"), &own_pid).unwrap();
        fs::write(dir.path().join("txinbox.redb.new"), b"half a database").unwrap();
        fs::write(dir.path().join("txinbox.header.new"), b"half").unwrap();
        fs::create_dir_all(dir.path().join("lost+found")).unwrap();
        let inbox = child::open(dir.path());
        let consumer = inbox.consumer("c").unwrap();
        let expected = if round == 0 { (50, 0) } else { (0, 50) };
        assert_eq!(deliver(&consumer, 0..50), expected, "round {round}");
    }
}

/// A process that lives has the store for itself; its death by SIGKILL gives it back at once.
#[test]
fn ac2_a_dead_process_holds_no_lock_and_a_living_one_does() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let mut holder = child::start("hold", dir.path(), 0, &[]);
        assert_eq!(holder.line().as_deref(), Some("opened"));
        let open = || Inbox::builder(Retention::at_least(hours(24))).open(dir.path());
        let error = open().unwrap_err();
        assert!(error.is_locked(), "{error}");
        assert!(error.to_string().contains(dir.path().to_str().unwrap()), "{error}");
        assert!(!error.is_retryable() && !error.is_corrupt());
        holder.kill();
        drop(open().expect("the dead hold nothing"));
    }
    let (_, errors) = {
        let mut holder = child::start("hold", dir.path(), 0, &[]);
        assert_eq!(holder.line().as_deref(), Some("opened"));
        holder.end()
    };
    assert!(errors.is_empty(), "{errors}");
    drop(child::open(dir.path()));
}

/// Two handles in one process are told as well, by whatever path; a directory of somebody else is not
/// taken, nor is a missing one made where only an existing store will do.
#[test]
fn ac2_other_handles_and_other_peoples_directories_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let builder = || Inbox::builder(Retention::at_least(hours(24)));
    let store = dir.path().join("store");
    let inbox = builder().open(&store).unwrap();
    let elsewhere = dir.path().join(".").join("store");
    assert!(builder().open(&elsewhere).unwrap_err().is_locked());
    inbox.close().unwrap();
    drop(builder().open(&elsewhere).unwrap());

    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.txt"), b"years of work").unwrap();
    let error = builder().open(&foreign).unwrap_err();
    assert!(error.is_not_a_store() && error.to_string().contains("thesis.txt"), "{error}");
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1, "nothing was put there");
    let missing = dir.path().join("missing");
    assert!(builder().open_existing(&missing).unwrap_err().is_missing());
    assert!(!missing.exists());
}

/// AC2: a lock that the simulated machine kept through a kill is none.
#[test]
fn ac2_a_kill_frees_the_simulated_directory_too() {
    let lab = Lab::new(Retention::at_least(hours(24)));
    let inbox = lab.open();
    assert!(lab.builder().open_on(&lab.disk).unwrap_err().is_locked());
    drop(lab.builder().open_on(&lab.disk.kill()).unwrap());
    drop(inbox);
    lab.open();
}
