//! What goes wrong, and at which call.

use std::io;

use super::call::Call;

/// One thing that goes wrong at one call, or from one call on.
///
/// A fault strikes the first call that has at least its ordinal and is of a kind it applies to, so
/// "the first sync from call 100 on fails" is one fault. It strikes once, unless it is
/// [`lasting`](Self::lasting).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    ordinal: u64,
    calls: u16,
    effect: Effect,
    lasting: bool,
}

/// What a failed sync did to the writes it was to make durable.
///
/// Whatever is lost stays readable, is not written by later syncs, and is gone after the power cut,
/// unless the same bytes were written again. That is what Linux does after a write-back error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Nothing reached the medium, and nothing will.
    All,
    /// Each unsynced write and length change reached the medium or was lost, as the seed says.
    Part(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The call runs its course, and then the power goes.
    Crash,
    /// Nothing is done.
    Error(io::ErrorKind),
    /// Only so many bytes are done.
    Short(usize),
    /// The sync fails, with this loss.
    LostSync(Loss),
}

impl Fault {
    fn new(ordinal: u64, calls: &[Call], effect: Effect) -> Self {
        Self {
            ordinal,
            calls: calls.iter().fold(0, |set, call| set | call.bit()),
            effect,
            lasting: false,
        }
    }

    /// The machine loses power during that call: a write or length change then is among the
    /// unsynced ones, a sync has not made anything durable yet. That call and every later one
    /// fail; [`power_cut`](super::SimDisk::power_cut) shows what is left.
    #[must_use]
    pub fn crash(ordinal: u64) -> Self {
        Self { calls: u16::MAX, ..Self::new(ordinal, &[], Effect::Crash) }
    }

    /// A call of one of these kinds fails with an I/O error and does nothing.
    ///
    /// A sync that fails like this loses nothing: the next one makes all of it durable. See
    /// [`lost_sync`](Self::lost_sync) for the other sort.
    #[must_use]
    pub fn error(ordinal: u64, calls: &[Call]) -> Self {
        Self::new(ordinal, calls, Effect::Error(io::ErrorKind::Other))
    }

    /// The disk is full for a call of one of these kinds; it does nothing. For a disk that is full
    /// by its capacity see [`set_capacity`](super::SimDisk::set_capacity).
    #[must_use]
    pub fn full(ordinal: u64, calls: &[Call]) -> Self {
        Self::new(ordinal, calls, Effect::Error(io::ErrorKind::StorageFull))
    }

    /// A read gets only its first `bytes` bytes and then meets the end of the file.
    #[must_use]
    pub fn short_read(ordinal: u64, bytes: usize) -> Self {
        Self::new(ordinal, &[Call::Read], Effect::Short(bytes))
    }

    /// A write puts only its first `bytes` bytes into the file and then fails.
    #[must_use]
    pub fn short_write(ordinal: u64, bytes: usize) -> Self {
        Self::new(ordinal, &[Call::Write], Effect::Short(bytes))
    }

    /// A sync of a file fails for good: see [`Loss`].
    #[must_use]
    pub fn lost_sync(ordinal: u64, loss: Loss) -> Self {
        Self::new(ordinal, &[Call::Sync], Effect::LostSync(loss))
    }

    /// The same fault at every fitting call from there on, until the faults are cleared.
    #[must_use]
    pub fn lasting(self) -> Self {
        Self { lasting: true, ..self }
    }

    fn strikes(&self, ordinal: u64, call: Call) -> bool {
        ordinal >= self.ordinal && self.calls & call.bit() != 0
    }
}

/// The effect of the first fault that strikes this call; one that strikes once is used up.
pub(super) fn strike(faults: &mut Vec<Fault>, ordinal: u64, call: Call) -> Option<Effect> {
    let at = faults.iter().position(|f| f.strikes(ordinal, call))?;
    let (effect, lasting) = faults.get(at).map(|f| (f.effect, f.lasting))?;
    if !lasting {
        faults.remove(at);
    }
    Some(effect)
}
