//! I: ids that are missing or empty.

use txinbox::{Error, EventId};

use crate::support::{event, everywhere, id, never};

/// Every constructor refuses an empty id, each time, with a typed error that says what to do; so
/// no two events without an id ever meet under one claim.
#[test]
fn i1_an_empty_id_is_refused_each_time_and_never_claimed() {
    type Make = fn() -> Result<EventId, Error>;
    let missing: [Make; 22] = [
        || EventId::text(""),
        || EventId::bytes(b""),
        || EventId::parts(&[]),
        || EventId::parts(&[b""]),
        || EventId::parts(&[b"tenant", b""]),
        || EventId::parts(&[b"", b"order"]),
        || EventId::kafka_record("", 0, 0),
        || EventId::jetstream_message_id("", "id"),
        || EventId::jetstream_message_id("stream", ""),
        || EventId::jetstream_record("", 1),
        || EventId::mqtt_publisher_id("", "id"),
        || EventId::mqtt_publisher_id("topic", ""),
        || EventId::amqp_message_id(""),
        || EventId::sqs_record(""),
        || EventId::pubsub_record("", "1"),
        || EventId::pubsub_record("topic", ""),
        || EventId::stripe_event(""),
        || EventId::github_delivery(""),
        || EventId::standard_webhook("", "id"),
        || EventId::standard_webhook("sender", ""),
        || EventId::cloud_event("", "1"),
        || EventId::cloud_event("/source", ""),
    ];
    everywhere(|place, set| {
        let inbox = place.open_with(set);
        let consumer = inbox.consumer("c").unwrap();
        for (i, make) in missing.iter().enumerate() {
            for payload in ["one", "another"] {
                // As a program does it: the id first, the event only with it.
                let answer = make().and_then(|id| {
                    consumer.process(&txinbox::Event::new(id, payload), never::<()>)
                });
                let error = answer.unwrap_err();
                assert!(error.is_invalid() && !error.is_retryable(), "{i}: {error}");
                assert!(error.to_string().contains("refuse the event"), "{i}: {error}");
            }
        }
        assert_eq!(inbox.stats().unwrap().recent_claims, 0);
    });
}

/// What looks empty and is not is an id like any other.
#[test]
fn i1_blanks_and_zeros_are_ids() {
    everywhere(|place, set| {
        let consumer = place.open_with(set).consumer("c").unwrap();
        let blanks = [" ", "\t", "\n", "\0", "0", "null", "undefined", "\u{200b}", "\u{feff}"];
        for name in blanks {
            assert!(consumer.process(&event(name), |_| Ok(())).unwrap().is_applied(), "{name:?}");
        }
        for name in blanks {
            assert!(consumer.process(&event(name), never::<()>).unwrap().is_duplicate());
        }
        assert!(consumer.lookup(&id("nil")).unwrap().is_none());
    });
}
