//! A plain reference of one destination: what may be handed out, and what becomes of it.

use std::time::Duration;

use txinbox::outbox::{Exhausted, Failed};

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum At {
    /// Not before this time, in milliseconds of the machine.
    Waits(u64),
    Out {
        token: u64,
        until_ms: u64,
    },
    Dead,
    Blocks,
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) struct Msg {
    pub(crate) name: String,
    pub(crate) key: Option<u8>,
    pub(crate) at: At,
    pub(crate) failed: u32,
    /// How much later it may go than its time, since a kill may lose some of the store's uptime.
    pub(crate) vague_ms: u64,
}

/// Times and attempts of the destination under test.
pub(crate) const ANSWER_MS: u64 = 60_000;
pub(crate) const ATTEMPTS: u32 = 3;
pub(crate) const BACKOFF: Duration = Duration::from_secs(4);

#[derive(Clone, Debug, Default)]
pub(crate) struct Reference {
    pub(crate) all: Vec<Msg>,
    pub(crate) tokens: u64,
}

impl Reference {
    /// Whether a message must go now.
    pub(crate) fn must_go(&self, index: usize, now_ms: u64) -> bool {
        self.may_go(index, now_ms.saturating_sub(self.all[index].vague_ms))
    }

    /// Whether a message may go now: of its key none is out, and none before it is unsettled.
    pub(crate) fn may_go(&self, index: usize, now_ms: u64) -> bool {
        let msg = &self.all[index];
        let At::Waits(from) = msg.at else { return false };
        let of_key = |m: &&Msg| msg.key.is_some() && m.key == msg.key;
        let holds = |m: &Msg| matches!(m.at, At::Waits(_) | At::Out { .. } | At::Blocks);
        from <= now_ms
            && !self.all[..index].iter().filter(of_key).any(holds)
            && !self.all.iter().filter(of_key).any(|m| matches!(m.at, At::Out { .. }))
    }

    /// What the next hand-out of up to `most` takes back first.
    pub(crate) fn take_back(&mut self, most: usize, now_ms: u64, policy: Exhausted) {
        let mut over: Vec<(u64, usize)> = Vec::new();
        for (index, msg) in self.all.iter().enumerate() {
            if let At::Out { until_ms, .. } = msg.at
                && until_ms <= now_ms
            {
                over.push((until_ms, index));
            }
        }
        over.sort_unstable();
        for (_, index) in over.into_iter().take(most) {
            self.fail(index, now_ms, policy, Duration::ZERO);
        }
    }

    /// An attempt has failed; the wait is what the store said.
    pub(crate) fn fail(&mut self, index: usize, now_ms: u64, policy: Exhausted, wait: Duration) {
        let msg = &mut self.all[index];
        msg.failed += 1;
        msg.vague_ms = 0;
        msg.at = match policy {
            _ if msg.failed < ATTEMPTS => At::Waits(now_ms + wait.as_millis() as u64),
            Exhausted::Park => At::Dead,
            Exhausted::Skip => At::Gone,
            Exhausted::Block => At::Blocks,
        };
    }

    /// Whether the answer to a failed attempt is the right one.
    pub(crate) fn explains(&self, index: usize, policy: Exhausted, answer: Failed) -> bool {
        let last = self.all[index].failed + 1 >= ATTEMPTS;
        match answer {
            Failed::Again(wait) => !last && wait <= BACKOFF * 2 && wait >= BACKOFF / 2,
            Failed::Dead => last && policy != Exhausted::Skip,
            Failed::Dropped => last && policy == Exhausted::Skip,
            Failed::Late => false,
        }
    }

    /// The process has ended: nobody has anything.
    pub(crate) fn reopen(&mut self) {
        for msg in &mut self.all {
            if let At::Out { .. } = msg.at {
                msg.at = At::Waits(0);
            } else if msg.failed > 0 {
                msg.vague_ms += 2 * BACKOFF.as_millis() as u64;
            }
        }
    }

    pub(crate) fn find(&self, name: &str) -> usize {
        self.all.iter().position(|msg| msg.name == name).unwrap()
    }

    pub(crate) fn names(&self, which: impl Fn(At) -> bool) -> Vec<String> {
        self.all.iter().filter(|msg| which(msg.at)).map(|msg| msg.name.clone()).collect()
    }
}
