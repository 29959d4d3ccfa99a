//! The stream of events. Every id follows from (seed, index), so that a duplicate of any retained claim can be made
//! again without keeping a list of ids.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::workload::{self, Age, Kind, NARROW, Workload};

/// One delivery, as every engine gets it.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub id: [u8; 16],
    pub fingerprint: u64,
    /// The counter that this event adds one to, if it is new.
    pub counter: Option<u64>,
}

/// What every engine keeps for a claim beside its id: when it was made, and its payload's fingerprint.
pub fn claim_value(at_ms: u64, fingerprint: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&at_ms.to_le_bytes());
    value[8..].copy_from_slice(&fingerprint.to_le_bytes());
    value
}

/// The wall clock in milliseconds, read once per group.
pub fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// The finalizer of SplitMix64: a bijection that spreads its input over all bits.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The logical events of one run: index `i` always has the same id and fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    key: u64,
}

impl Stream {
    pub fn new(seed: u64) -> Self {
        Self { key: mix(seed) }
    }

    pub fn event(self, index: u64, counter: Option<u64>) -> Event {
        let high = mix(self.key ^ index);
        let low = mix(high ^ self.key.rotate_left(32));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high.to_le_bytes());
        id[8..].copy_from_slice(&low.to_le_bytes());
        Event { id, fingerprint: mix(low), counter }
    }
}

/// Makes the deliveries of one caller in one window.
pub struct Generator<'a> {
    stream: Stream,
    kind: Kind,
    /// Index of the next new event, shared by all callers.
    next: &'a AtomicU64,
    /// Duplicates are drawn from the newest so many claims; of those, the newest so many may not be sealed.
    retained: u64,
    maybe_unsealed: u64,
    state: u64,
}

impl<'a> Generator<'a> {
    pub fn new(
        stream: Stream,
        workload: &Workload,
        next: &'a AtomicU64,
        claims: u64,
        salt: u64,
    ) -> Self {
        let state = mix(salt ^ next.load(Ordering::Relaxed).rotate_left(20));
        let (retained, maybe_unsealed) =
            (workload::drawn_from(claims), workload::maybe_unsealed(claims));
        Self { stream, kind: workload.kind, next, retained, maybe_unsealed, state }
    }

    pub fn fill(&mut self, group: &mut Vec<Event>, len: usize) {
        group.clear();
        group.extend(std::iter::repeat_with(|| self.delivery()).take(len));
    }

    pub fn delivery(&mut self) -> Event {
        let counter = match self.kind {
            Kind::Mixed { first_counter, counters } => Some(first_counter + self.below(counters)),
            Kind::ClaimsOnly => None,
            Kind::Duplicates(age) => return self.duplicate(age),
            Kind::New(_) => {
                let counter = self.below(NARROW);
                let index = self.next.fetch_add(1, Ordering::Relaxed);
                return self.stream.event(index, Some(counter));
            }
        };
        let index = match self.below(20) {
            0 => self.any_retained(),
            _ => self.next.fetch_add(1, Ordering::Relaxed),
        };
        self.stream.event(index, counter)
    }

    fn any_retained(&mut self) -> u64 {
        let end = self.next.load(Ordering::Relaxed);
        end - 1 - self.below(end.min(self.retained))
    }

    fn duplicate(&mut self, age: Age) -> Event {
        let end = self.next.load(Ordering::Relaxed);
        let retained = end.min(self.retained);
        let index = match age {
            Age::Recent => end - 1 - self.below(retained.min(10_000)),
            Age::Sealed => {
                let sealed = retained.saturating_sub(self.maybe_unsealed).max(1);
                end - retained + self.below(sealed)
            }
        };
        self.stream.event(index, Some(0))
    }

    /// A number below `n`, by multiplication; the bias is below n / 2^64.
    fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let high = (u128::from(mix(self.state)) * u128::from(n)) >> 64;
        u64::try_from(high).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_distinct_and_follow_from_the_index() {
        let stream = Stream::new(7);
        let ids: HashSet<_> = (0..100_000).map(|i| stream.event(i, None).id).collect();
        assert_eq!(ids.len(), 100_000);
        assert_eq!(stream.event(5, None).id, Stream::new(7).event(5, Some(1)).id);
        assert_ne!(stream.event(5, None).id, Stream::new(8).event(5, None).id);
    }

    #[test]
    fn one_delivery_in_twenty_is_a_duplicate() -> anyhow::Result<()> {
        let next = AtomicU64::new(1000);
        let mut generator =
            Generator::new(Stream::new(1), &crate::workload::by_name("g1")?, &next, 1000, 3);
        let mut group = Vec::new();
        generator.fill(&mut group, 100_000);
        let fresh = next.load(Ordering::Relaxed) - 1000;
        assert!((94_000..96_000).contains(&fresh), "{fresh}");
        Ok(())
    }
}
