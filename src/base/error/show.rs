//! What an error says.
//!
//! Owns the messages: what happened, where, and what to do next (X1).

use std::fmt;

use super::{Error, Kind};

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Handler(source) => write!(f, "the handler failed, nothing was kept: {source}"),
            Kind::Reentrant => f.write_str(
                "a write call was made from inside a handler of the same inbox; use the handler's \
                 own transaction, or make the call after it has returned",
            ),
            Kind::Timeout { waited } => write!(
                f,
                "the writer was not free within {} ms; deliver the event again later",
                waited.as_millis()
            ),
            Kind::Full { doing, source } => {
                write!(f, "the disk is full while {doing}")?;
                if let Some(source) = source {
                    write!(f, " ({source})")?;
                }
                f.write_str("; nothing was kept: make room and deliver the event again")
            }
            Kind::Unknown { source } => {
                f.write_str("whether this commit is durable is unknown")?;
                if let Some(source) = source {
                    write!(f, " ({source})")?;
                }
                f.write_str("; deliver the event again: the answer will be the truth")
            }
            Kind::Io { doing, source } => write!(
                f,
                "the device failed while {doing}: {source}; the store recovers by itself when the \
                 device allows, so deliver the event again"
            ),
            Kind::Corrupt { place, detail } => {
                write!(f, "damaged: {place}: {detail}; stop using this store and restore a backup")
            }
            Kind::Locked { dir } => write!(
                f,
                "{dir} is open in another process or another handle; one process at a time may \
                 open a store, so share the handle or stop the other process"
            ),
            Kind::NotAStore { dir, found } => write!(
                f,
                "{dir} is not a txinbox store and not empty (it holds {found}); choose an empty \
                 or new directory"
            ),
            Kind::Missing { dir } => {
                write!(f, "there is no store at {dir}; check the path, or create one with open()")
            }
            Kind::Newer { what, found, known } => write!(
                f,
                "{what} has version {found}, this program knows {known}; nothing was changed: \
                 open it with a newer program"
            ),
            Kind::Future { ahead_ms, limit_ms } => write!(
                f,
                "the event's time is {ahead_ms} ms ahead of now, more than the limit of \
                 {limit_ms} ms; it was not claimed: check the producer's clock and this machine's"
            ),
            Kind::TypeMismatch { name, stored, asked } => write!(
                f,
                "keyspace {name:?} holds {stored}, not {asked}; open it with its own types, or \
                 migrate it with Builder::state_version"
            ),
            Kind::Limit { what, got, limit } => {
                write!(f, "{what} is {got}, the limit is {limit}; nothing was kept")
            }
            Kind::Invalid { what } => f.write_str(what),
            Kind::Decode { what } => write!(f, "stored bytes do not decode: {what}"),
            Kind::ViewEnded => f.write_str(
                "this view was ended because it held back too much free space; open a new one",
            ),
            Kind::LeaseLost { token } => write!(
                f,
                "the lease with token {token} has run out and was taken over, or its event was \
                 settled; nothing was changed: stop this attempt"
            ),
            Kind::MessageClash { name } => write!(
                f,
                "the event has sent a message named {name:?} to this destination already; nothing was \
                 kept: give each message of an event a name of its own"
            ),
            Kind::Closed => f.write_str("the inbox was closed; open it again"),
            Kind::Superseded { what } => write!(
                f,
                "{what} belongs to a generation that was replaced or given up; nothing was kept: ask \
                 the inbox for it again"
            ),
            Kind::StaleSource { source, newest, got } => write!(
                f,
                "source {source} is in incarnation {newest} by now, this is of {got}; nothing was \
                 kept: read from the source as it is now, or ask for it with its newest incarnation"
            ),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &*self.0 {
            Kind::Handler(_) => "Handler",
            Kind::Reentrant => "Reentrant",
            Kind::Timeout { .. } => "Timeout",
            Kind::Full { .. } => "Full",
            Kind::Unknown { .. } => "UnknownOutcome",
            Kind::Io { .. } => "Io",
            Kind::Corrupt { .. } => "Corrupt",
            Kind::Locked { .. } => "Locked",
            Kind::NotAStore { .. } => "NotAStore",
            Kind::Missing { .. } => "Missing",
            Kind::Newer { .. } => "NewerFormat",
            Kind::Future { .. } => "Future",
            Kind::TypeMismatch { .. } => "TypeMismatch",
            Kind::Limit { .. } => "Limit",
            Kind::Invalid { .. } => "Invalid",
            Kind::Decode { .. } => "Decode",
            Kind::ViewEnded => "ViewEnded",
            Kind::Closed => "Closed",
            Kind::Superseded { .. } => "Superseded",
            Kind::StaleSource { .. } => "StaleSource",
            Kind::LeaseLost { .. } => "LeaseLost",
            Kind::MessageClash { .. } => "MessageClash",
        };
        f.debug_tuple(kind).field(&self.to_string()).finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Kind::Handler(source) => Some(&**source),
            Kind::Io { source, .. } | Kind::Full { source: Some(source), .. } => Some(source),
            Kind::Unknown { source: Some(source) } => Some(source),
            _ => None,
        }
    }
}
