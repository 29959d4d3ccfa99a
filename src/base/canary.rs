//! Planted bugs: one line each, where a real one could be, so that the tests prove that they see it.
//!
//! Without the internal feature `__canaries` every question here is a constant no, and the compiler
//! takes the bug away. With it, one process-wide switch plants one bug at a time, so that a single
//! build holds all of them. Asked from every layer; only tests/canaries sets the switch.
//!
//! What must hold: N1. A name asked for in the code is in [`NAMES`], and every name of [`NAMES`] has a
//! test that catches it.

#![cfg_attr(feature = "__canaries", allow(unreachable_pub))] // shown to the tests behind the feature

/// Every bug that can be planted.
#[cfg(feature = "__canaries")]
pub const NAMES: &[&str] = &[
    "acknowledged-before-durable",
    "no-sync-at-all",
    "state-in-a-second-transaction",
    "floor-only-in-memory",
    "bucket-dropped-before-the-floor-is-durable",
    "floor-not-raised-with-its-bucket",
    "duplicate-check-in-the-newest-run-only",
    "duplicates-inside-one-batch-missed",
    "failed-event-leaks-into-its-group",
    "memory-index-kept-after-a-failed-commit",
    "checksum-not-verified-on-read",
    "missed-wake-up-in-the-queue",
    "backward-clock-accepted",
    "ids-joined-without-length-prefix",
    "failed-commit-does-not-refuse",
    "handler-error-before-what-it-read-is-durable",
    "duplicate-released-before-its-group-is-durable",
    "view-on-a-group-that-is-not-durable",
    "recovery-trusts-the-names-it-finds",
    "merge-brings-a-forgotten-claim-back",
    "group-published-in-two-steps",
    "old-handle-misses-an-added-class",
    "retention-shortened-by-accident",
    "application-state-taken-for-garbage",
    "view-that-pins-too-much-goes-on",
    "claim-seen-before-it-is-durable",
    "journal-replay-trusts-the-page-cache",
    "journal-tail-of-an-older-cycle-taken-as-new",
    "journal-record-checksum-not-verified",
    "journal-segment-reused-too-early",
    "half-built-run-published",
    "alias-with-a-time-to-come",
    "forget-answers-before-it-is-durable",
    "lost-database-taken-for-a-new-store",
    "open-bucket-kept-for-a-shorter-policy",
    "failed-position-not-marked-durably",
    "position-committed-apart-from-its-state",
    "blocked-not-seen-inside-one-batch",
    "generation-promoted-in-two-commits",
    "lease-token-not-checked",
    "lease-given-out-before-durable",
    "lease-dropped-by-an-opening",
    "outbox-in-a-second-transaction",
    "delivery-of-a-group-that-is-not-durable",
    "acknowledged-only-in-memory",
    "outbox-keys-out-of-order",
    "message-id-by-attempt",
    "rebuild-sends-again",
];

#[cfg(not(feature = "__canaries"))]
mod imp {
    /// Whether the bug of that name is planted.
    #[inline]
    pub(crate) const fn planted(_name: &str) -> bool {
        false
    }
}

#[cfg(feature = "__canaries")]
mod imp {
    use super::NAMES;
    use crate::base::sync::{AtomicU64, Ordering};

    /// One more than the planted bug's place in the list; zero is none.
    static PLANTED: AtomicU64 = AtomicU64::new(0);

    /// Plants the bug of that name, and no other; `None` takes it out again.
    ///
    /// # Panics
    /// If there is no such bug.
    #[allow(clippy::panic)] // a typing error in a test
    pub fn plant(name: Option<&str>) {
        let place = name.map(|name| match NAMES.iter().position(|known| *known == name) {
            Some(place) => place as u64 + 1,
            None => panic!("there is no canary {name:?}"),
        });
        PLANTED.store(place.unwrap_or(0), Ordering::SeqCst);
    }

    pub(crate) fn planted(name: &str) -> bool {
        debug_assert!(NAMES.contains(&name), "canary {name:?} is not in the list");
        match PLANTED.load(Ordering::SeqCst) {
            0 => false,
            place => NAMES.get(place as usize - 1) == Some(&name),
        }
    }
}

#[cfg(feature = "__canaries")]
pub use imp::plant;
pub(crate) use imp::planted;
