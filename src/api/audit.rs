//! What was done by hand, when and why: see [`Inbox::audit`](crate::Inbox::audit).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::event_id::EventId;
use crate::base::error::Error;
use crate::base::ids::{Place, Scope, Seq, WallMs};
use crate::base::limits::{NAME_MAX_BYTES, REASON_MAX_BYTES};
use crate::engine::{self, Engine, Note};

/// Why something is done by hand, and by whom: at most 1,024 bytes of reason and 255 of name.
///
/// Text alone makes one, too.
///
/// ```
/// use txinbox::audit::Reason;
///
/// let reason = Reason::new("poison, ticket 12").by("anna");
/// assert_ne!(reason, "poison, ticket 12".into());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    reason: String,
    who: String,
}

impl Reason {
    /// A reason by nobody in particular.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), who: String::new() }
    }

    /// Says who has it.
    #[must_use]
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.who = who.into();
        self
    }

    pub(crate) fn checked(self) -> Result<Self, Error> {
        for (what, text, limit) in [
            ("a reason, in bytes,", &self.reason, REASON_MAX_BYTES),
            ("the name of who does something by hand, in bytes,", &self.who, NAME_MAX_BYTES),
        ] {
            if text.len() > limit {
                return Err(Error::limit(what, text.len() as u64, limit as u64));
            }
        }
        Ok(self)
    }

    pub(crate) fn note(self, scope: Scope, action: engine::Action) -> Note {
        Note { scope, action, who: self.who, reason: self.reason }
    }
}

impl From<&str> for Reason {
    fn from(reason: &str) -> Self {
        Self::new(reason)
    }
}

impl From<String> for Reason {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// An event was forgotten, with its aliases.
    Forgot {
        /// The id that it was named by.
        id: EventId,
    },
    /// A position of an ordered source was given up.
    Skipped {
        /// The source's name.
        source: Vec<u8>,
        /// The source's incarnation.
        incarnation: u64,
        /// The position.
        position: u64,
    },
}

/// One record: what was done, when, by whom and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    place: (Seq, Place),
    consumer: String,
    generation: u32,
    wall: WallMs,
    action: Action,
    who: String,
    reason: String,
}

impl Record {
    pub(crate) fn page(
        engine: &Engine,
        after: Option<&Self>,
        limit: usize,
    ) -> Result<Vec<Self>, Error> {
        let entries = engine.audit(after.map(|record| record.place), limit)?;
        entries.into_iter().map(|(consumer, entry)| Self::of(consumer, entry)).collect()
    }

    fn of(consumer: String, entry: engine::Entry) -> Result<Self, Error> {
        let engine::Entry { place, wall, note, .. } = entry;
        let action = match note.action {
            engine::Action::Forgot { id } => {
                let id = EventId::from_encoded(&id)
                    .ok_or_else(|| Error::corrupt("an audit record", "its event id is none"))?;
                Action::Forgot { id }
            }
            engine::Action::Skipped { source, incarnation, position } => {
                Action::Skipped { source, incarnation, position }
            }
        };
        let generation = note.scope.generation.0;
        let (who, reason) = (note.who, note.reason);
        Ok(Self { place, consumer, generation, wall, action, who, reason })
    }

    /// The consumer whose event or source it was.
    #[must_use]
    pub fn consumer(&self) -> &str {
        &self.consumer
    }

    /// The consumer's generation; the first is 0.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// What was done.
    #[must_use]
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// When, by the wall clock of that moment.
    #[must_use]
    pub fn at(&self) -> SystemTime {
        let distance = Duration::from_millis(self.wall.0.unsigned_abs());
        let moment = if self.wall.0 < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        moment.unwrap_or(UNIX_EPOCH)
    }

    /// Who did it, as told by [`Reason::by`]; empty if nobody was named.
    #[must_use]
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Why; empty if no reason was given.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}
