//! smoke
use std::time::Duration;
use txinbox::*;

#[test]
fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let r = || Retention::at_least(Duration::from_secs(3600));
    let inbox = Inbox::builder(r()).open(dir.path()).unwrap();
    let billing = inbox.consumer("billing").unwrap();
    let counts: Map<u64, u64> = inbox.map("counts").unwrap();
    for round in 0..2 {
        let ids: Vec<u64> = (0..5000).collect();
        let batch = billing.process_batch(
            &ids,
            |i| Event::unchecked(EventId::bytes(&i.to_be_bytes()).unwrap()),
            |tx, i| {
                tx.update(&counts, &(i % 10), |n| Some(n.unwrap_or(0) + 1))?;
                Ok(())
            },
        );
        assert_eq!(batch.len(), 5000);
        for a in batch {
            let a = a.unwrap();
            assert_eq!(a.is_applied(), round == 0, "{a:?}");
        }
        assert_eq!(inbox.read(|v| v.get(&counts, &3)).unwrap(), Some(500));
    }
    inbox.close().unwrap();
    let inbox = Inbox::builder(r()).open(dir.path()).unwrap();
    let billing2 = inbox.consumer("billing").unwrap();
    let e = Event::unchecked(EventId::bytes(&7u64.to_be_bytes()).unwrap());
    assert!(billing2.process(&e, |_| Ok(())).unwrap().is_duplicate());
    assert!(billing.process(&e, |_| Ok(())).unwrap_err().is_closed());
    println!("{:?}", inbox.stats().unwrap());
}

#[test]
fn threads() {
    let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(3600))).unwrap();
    let c = inbox.consumer("c").unwrap();
    let n: Map<u64, u64> = inbox.map("n").unwrap();
    std::thread::scope(|s| {
        for t in 0..8u64 {
            let (c, n) = (c.clone(), n.clone());
            s.spawn(move || {
                for i in 0..500u64 {
                    let e = Event::unchecked(EventId::bytes(&i.to_be_bytes()).unwrap());
                    let _ = c
                        .process(&e, |tx| {
                            tx.update(&n, &0, |v| Some(v.unwrap_or(0) + 1))?;
                            Ok(t)
                        })
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(inbox.read(|v| v.get(&n, &0)).unwrap(), Some(500));
}
