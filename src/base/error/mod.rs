//! The crate's one error type: opaque, cheap to clone, asked by predicates.
//!
//! What must hold: X1. Every message says what happened, where, and what to do next. X2. A clone
//! answers every predicate as the original does, since one failed group fails all its events.

mod show;

use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What a handler may fail with: any error at all.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call did not do what it was asked.
///
/// An outcome such as a duplicate is never an error; see [`Outcome`](crate::Outcome). An error from
/// `process` means that nothing of this event was kept, unless
/// [`is_unknown_outcome`](Self::is_unknown_outcome) says that this cannot be known before the event
/// is delivered again.
#[derive(Clone)]
pub struct Error(Arc<Kind>);

enum Kind {
    Handler(BoxError),
    Reentrant,
    Timeout { waited: Duration },
    Full { doing: String, source: Option<io::Error> },
    Unknown { source: Option<Error> },
    Io { doing: String, source: io::Error },
    Corrupt { place: String, detail: String },
    Locked { dir: String },
    NotAStore { dir: String, found: String },
    Missing { dir: String },
    Newer { what: &'static str, found: u64, known: u64 },
    Future { ahead_ms: u64, limit_ms: u64 },
    TypeMismatch { name: String, stored: String, asked: String },
    Limit { what: &'static str, got: u64, limit: u64 },
    Invalid { what: String },
    Decode { what: String },
    ViewEnded,
    Closed,
    Superseded { what: String },
    StaleSource { source: String, newest: u64, got: u64 },
    LeaseLost { token: u64 },
    MessageClash { name: String },
}

impl Error {
    fn new(kind: Kind) -> Self {
        Self(Arc::new(kind))
    }

    pub(crate) fn handler_failed(source: BoxError) -> Self {
        // A storage or usage error that the handler merely passed on keeps its own kind.
        match source.downcast::<Self>() {
            Ok(own) => *own,
            Err(other) => Self::new(Kind::Handler(other)),
        }
    }

    pub(crate) fn reentrant() -> Self {
        Self::new(Kind::Reentrant)
    }

    pub(crate) fn timeout(waited: Duration) -> Self {
        Self::new(Kind::Timeout { waited })
    }

    pub(crate) fn full(doing: impl Into<String>) -> Self {
        Self::new(Kind::Full { doing: doing.into(), source: None })
    }

    pub(crate) fn unknown(source: Error) -> Self {
        Self::new(Kind::Unknown { source: Some(source) })
    }

    /// Sorts an I/O error by what the user can do about it.
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Self {
        let doing = doing.into();
        let full = matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        if full {
            Self::new(Kind::Full { doing, source: Some(source) })
        } else {
            Self::new(Kind::Io { doing, source })
        }
    }

    pub(crate) fn corrupt(place: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Kind::Corrupt { place: place.into(), detail: detail.into() })
    }

    pub(crate) fn locked(dir: impl Into<String>) -> Self {
        Self::new(Kind::Locked { dir: dir.into() })
    }

    pub(crate) fn not_a_store(dir: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(Kind::NotAStore { dir: dir.into(), found: found.into() })
    }

    pub(crate) fn missing(dir: impl Into<String>) -> Self {
        Self::new(Kind::Missing { dir: dir.into() })
    }

    pub(crate) fn newer(what: &'static str, found: u64, known: u64) -> Self {
        Self::new(Kind::Newer { what, found, known })
    }

    pub(crate) fn future(ahead_ms: u64, limit_ms: u64) -> Self {
        Self::new(Kind::Future { ahead_ms, limit_ms })
    }

    pub(crate) fn type_mismatch(
        name: impl Into<String>,
        stored: impl Into<String>,
        asked: impl Into<String>,
    ) -> Self {
        Self::new(Kind::TypeMismatch {
            name: name.into(),
            stored: stored.into(),
            asked: asked.into(),
        })
    }

    pub(crate) fn limit(what: &'static str, got: u64, limit: u64) -> Self {
        Self::new(Kind::Limit { what, got, limit })
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::new(Kind::Invalid { what: what.into() })
    }

    pub(crate) fn decode(what: impl Into<String>) -> Self {
        Self::new(Kind::Decode { what: what.into() })
    }

    pub(crate) fn view_ended() -> Self {
        Self::new(Kind::ViewEnded)
    }

    pub(crate) fn closed() -> Self {
        Self::new(Kind::Closed)
    }

    pub(crate) fn superseded(what: impl Into<String>) -> Self {
        Self::new(Kind::Superseded { what: what.into() })
    }

    pub(crate) fn stale_source(source: impl Into<String>, newest: u64, got: u64) -> Self {
        Self::new(Kind::StaleSource { source: source.into(), newest, got })
    }

    pub(crate) fn lease_lost(token: u64) -> Self {
        Self::new(Kind::LeaseLost { token })
    }

    pub(crate) fn message_clash(name: impl Into<String>) -> Self {
        Self::new(Kind::MessageClash { name: name.into() })
    }

    /// The handler itself returned an error; [`handler`](Self::handler) recovers it.
    #[must_use]
    pub fn is_handler(&self) -> bool {
        matches!(*self.0, Kind::Handler(_))
    }

    /// The handler's own error, if it was an `E`.
    ///
    /// ```
    /// # use txinbox::*;
    /// # use std::time::Duration;
    /// let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let consumer = inbox.consumer("billing")?;
    /// let event = Event::unchecked(EventId::text("order-1")?);
    /// let error = consumer
    ///     .process(&event, |_| Err::<(), _>(std::fmt::Error.into()))
    ///     .unwrap_err();
    /// assert!(error.is_handler());
    /// assert_eq!(error.handler::<std::fmt::Error>(), Some(&std::fmt::Error));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn handler<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match &*self.0 {
            Kind::Handler(source) => source.downcast_ref::<E>(),
            _ => None,
        }
    }

    /// A write call was made from inside a handler of the same store.
    #[must_use]
    pub fn is_reentrant(&self) -> bool {
        matches!(*self.0, Kind::Reentrant)
    }

    /// The writer was not free within [`Consumer::max_wait`](crate::Consumer::max_wait).
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(*self.0, Kind::Timeout { .. })
    }

    /// The disk is full: nothing was kept, duplicates and reads go on, deliver again later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match &*self.0 {
            Kind::Full { .. } => true,
            Kind::Unknown { source: Some(source) } => source.is_full(),
            _ => false,
        }
    }

    /// The commit failed in a way that leaves open whether it is durable. Deliver the event again:
    /// the answer will then be the truth.
    #[must_use]
    pub fn is_unknown_outcome(&self) -> bool {
        matches!(*self.0, Kind::Unknown { .. })
    }

    /// A file of the store is damaged; the message names the place.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        match &*self.0 {
            Kind::Corrupt { .. } => true,
            Kind::Unknown { source: Some(source) } => source.is_corrupt(),
            _ => false,
        }
    }

    /// The device failed a read, a write or a sync.
    #[must_use]
    pub fn is_io(&self) -> bool {
        match &*self.0 {
            Kind::Io { .. } => true,
            Kind::Unknown { source: Some(source) } => source.is_io(),
            _ => false,
        }
    }

    /// Another process, or another handle in this one, has the directory open.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        matches!(*self.0, Kind::Locked { .. })
    }

    /// The directory holds something that is not a store of this crate.
    #[must_use]
    pub fn is_not_a_store(&self) -> bool {
        matches!(*self.0, Kind::NotAStore { .. })
    }

    /// There is no store here, and `open_existing` does not create one.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(*self.0, Kind::Missing { .. })
    }

    /// The store, or the application state in it, was written by a newer version.
    #[must_use]
    pub fn is_newer_format(&self) -> bool {
        matches!(*self.0, Kind::Newer { .. })
    }

    /// The event's own time lies too far ahead to be believed; it was not claimed.
    #[must_use]
    pub fn is_future(&self) -> bool {
        matches!(*self.0, Kind::Future { .. })
    }

    /// A keyspace was asked for with other key or value types than it was created with.
    #[must_use]
    pub fn is_type_mismatch(&self) -> bool {
        matches!(*self.0, Kind::TypeMismatch { .. })
    }

    /// Something is larger than a documented limit.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        matches!(*self.0, Kind::Limit { .. })
    }

    /// An argument can never be accepted, such as an empty event id.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(*self.0, Kind::Invalid { .. })
    }

    /// Stored bytes do not decode as the type that was asked for.
    #[must_use]
    pub fn is_decode(&self) -> bool {
        matches!(*self.0, Kind::Decode { .. })
    }

    /// The view held back too much free space and was ended; open a new one.
    #[must_use]
    pub fn is_view_ended(&self) -> bool {
        matches!(*self.0, Kind::ViewEnded)
    }

    /// The inbox was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(*self.0, Kind::Closed)
    }

    /// A handle, of a consumer or a map, is of a generation that was replaced or given up; ask the inbox
    /// for a new one.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        matches!(*self.0, Kind::Superseded { .. })
    }

    /// The delivery is from an incarnation of its ordered source that a newer one has replaced.
    #[must_use]
    pub fn is_stale_source(&self) -> bool {
        matches!(*self.0, Kind::StaleSource { .. })
    }

    /// The lease is no longer this worker's: another took it over, or the event was settled.
    #[must_use]
    pub fn is_lease_lost(&self) -> bool {
        matches!(*self.0, Kind::LeaseLost { .. })
    }

    /// One event sent two messages of one name to one destination; they would have one id.
    #[must_use]
    pub fn is_message_clash(&self) -> bool {
        matches!(*self.0, Kind::MessageClash { .. })
    }

    /// Delivering the same event again later can succeed without anybody changing anything.
    ///
    /// True for a full disk, an unknown outcome, a device error and a writer that was busy. False
    /// for a handler's own error: only the application knows whether that can pass.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match &*self.0 {
            Kind::Unknown { source: Some(source) } => !source.is_corrupt(),
            Kind::Full { .. } | Kind::Io { .. } | Kind::Timeout { .. } | Kind::Unknown { .. } => {
                true
            }
            _ => false,
        }
    }

    /// How long to wait before the next delivery, where [`is_retryable`](Self::is_retryable).
    #[must_use]
    pub fn backoff(&self) -> Duration {
        match &*self.0 {
            Kind::Full { .. } => Duration::from_secs(5),
            Kind::Timeout { waited } => (*waited).max(Duration::from_millis(50)),
            _ => Duration::from_millis(200),
        }
    }
}
