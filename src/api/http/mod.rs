//! The `Idempotency-Key` header of HTTP requests: each request is run once, and its repeats get its answer.
//!
//! Follows draft-ietf-httpapi-idempotency-key-header-07. It knows no server and no socket: give it what a
//! request says, and do what it decides. On top of [leases](crate::lease), so the handler runs outside
//! any transaction and may take its time.
//!
//! | request | decision |
//! |---|---|
//! | without a key, or with one that is none | [`Reject`](Decision::Reject), 400 |
//! | the first with its key | [`Run`](Decision::Run) it, then [`finish`](Exchange::finish) |
//! | repeated while the first runs | `Reject`, 409 with `Retry-After` |
//! | repeated once that is finished | [`Answer`](Decision::Answer): the very same response |
//! | other, with a key that was used | `Reject`, 422 |
//!
//! ```
//! # use std::time::Duration;
//! # use txinbox::{Inbox, Map, Retention};
//! use txinbox::http::{Decision, Idempotency, Response};
//! # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(3600)))?;
//! let payments: Map<u64, u64> = inbox.map("payments")?;
//! let keys = Idempotency::new(inbox.consumer("http")?);
//!
//! let serve = |client: &str, key: Option<&str>, body: &str| -> Result<Response, txinbox::Error> {
//!     let request = [&b"POST"[..], b"/payments", body.as_bytes()];
//!     Ok(match keys.begin(client, key, &request)? {
//!         Decision::Answer(response) => response,
//!         Decision::Reject(problem) => problem.response(),
//!         Decision::Run(mut exchange) => {
//!             let charge = exchange.lease().idempotency_key("charge"); // for calls made meanwhile
//!             exchange.finish(|tx| {
//!                 tx.insert(&payments, &1, &10)?;
//!                 Ok(Response::new(201, format!("paid: {body}")).header("location", "/payments/1"))
//!             })?
//!         }
//!     })
//! };
//! let first = serve("client-7", Some("\"a key\""), "10 EUR")?;
//! assert_eq!((first.status(), first.body()), (201, &b"paid: 10 EUR"[..]));
//! assert_eq!(serve("client-7", Some("\"a key\""), "10 EUR")?, first);
//! assert_eq!(serve("client-7", Some("\"a key\""), "99 EUR")?.status(), 422);
//! assert_eq!(serve("client-7", None, "10 EUR")?.status(), 400);
//! // Another client's key is another key.
//! assert_eq!(serve("client-8", Some("\"a key\""), "99 EUR")?.body(), b"paid: 99 EUR");
//! # Ok::<(), txinbox::Error>(())
//! ```
//!
//! All calls block; from asynchronous code make them where blocking is allowed. `examples/webhook` is a whole
//! server on axum.
//!
//! # What remains
//!
//! A response is stored as the event's result: it is kept for as long as the consumer's
//! [results](crate::Consumer::result_retention) and may be as large as the builder's
//! [`result_max_bytes`](crate::Builder::result_max_bytes). If the process dies while a request runs, its
//! key is in progress until the lease has run out, and the next repeat runs the handler again: what it
//! did outside is told apart by the lease's [note](crate::lease::Lease::note) and
//! [keys](crate::lease::Lease::idempotency_key). A response that was made but never sent is what the repeat gets.

mod exchange;
mod key;
mod problem;
mod response;

use std::time::Duration;

pub use exchange::Exchange;
pub use problem::Problem;
pub use response::Response;

use super::consumer::{Consumer, Started};
use super::event::Event;
use super::event_id::EventId;
use super::outcome::Outcome;
use crate::base::error::Error;
use crate::base::sync::Arc;

/// How long a handler may take, unless told otherwise.
const LEASE_TIME: Duration = Duration::from_secs(60);

/// What to do with a request.
#[must_use = "the request waits for an answer"]
#[derive(Debug)]
pub enum Decision {
    /// Run it, and finish the exchange.
    Run(Exchange),
    /// It was run before: send this.
    Answer(Response),
    /// Turn it away.
    Reject(Problem),
}

/// The keys of one kind of requests, over one consumer of an inbox.
#[derive(Clone, Debug)]
pub struct Idempotency {
    consumer: Consumer,
    lease_time: Duration,
    documentation: Option<Arc<str>>,
}

impl Idempotency {
    /// Keys are kept for the consumer's retention. Use the consumer for nothing else.
    #[must_use]
    pub fn new(consumer: Consumer) -> Self {
        Self { consumer, lease_time: LEASE_TIME, documentation: None }
    }

    /// How long a handler may take before its key is free for the next repeat; without it a minute. An
    /// exchange whose lease is [renewed](crate::lease::Lease::renew) may take longer.
    #[must_use]
    pub fn lease_time(mut self, time: Duration) -> Self {
        self.lease_time = time;
        self
    }

    /// The page that explains the use of keys, to be named by every [`Problem`].
    #[must_use]
    pub fn documentation(mut self, url: impl AsRef<str>) -> Self {
        self.documentation = Some(url.as_ref().into());
        self
    }

    /// Decides what to do with a request.
    ///
    /// `client` is who sent it, as your authentication knows: keys of two clients never meet. `key` is
    /// the header's value as it came, a quoted string as the draft has it or a bare one as many
    /// clients send, both for the same key. `request` is all that makes it this request, such as method,
    /// path and body: a repeat must have the same parts.
    ///
    /// # Errors
    /// An empty `client` ([`is_invalid`](Error::is_invalid)); a lease time out of range; as
    /// [`Consumer::begin`]. None of them is the client's fault.
    pub fn begin(
        &self,
        client: &str,
        key: Option<&str>,
        request: &[&[u8]],
    ) -> Result<Decision, Error> {
        let key = match key.map(key::parse) {
            None => return Ok(self.reject(Problem::missing())),
            Some(None) => return Ok(self.reject(Problem::malformed())),
            Some(Some(key)) => key,
        };
        let id = EventId::parts(&[b"idempotency-key", client.as_bytes(), key.as_bytes()])?;
        let payload = joined(request);
        let event = Event::new(id, &payload);
        Ok(match self.consumer.start(&event, self.lease_time)? {
            Started::Lease(lease) => {
                Decision::Run(Exchange::new(lease, self.documentation.clone()))
            }
            Started::Settled { is_other: true, .. } => self.reject(Problem::reused()),
            Started::Settled { outcome, .. } => match settled(outcome)? {
                Ok(response) => Decision::Answer(response),
                Err(problem) => self.reject(problem),
            },
        })
    }

    fn reject(&self, problem: Problem) -> Decision {
        Decision::Reject(problem.documented(self.documentation.clone()))
    }
}

/// The answer to a request that is not to be run.
fn settled<T>(outcome: Outcome<T>) -> Result<Result<Response, Problem>, Error> {
    let claim = match outcome {
        Outcome::Duplicate(claim) | Outcome::Applied(_, claim) | Outcome::Refused(_, claim) => {
            claim
        }
        Outcome::Mismatch(_) => return Ok(Err(Problem::reused())),
        Outcome::InProgress { .. } | Outcome::Fenced { .. } => {
            return Ok(Err(Problem::in_progress()));
        }
        Outcome::Dead { .. } => return Ok(Err(Problem::given_up())),
        Outcome::Skipped(_) | Outcome::TooLate { .. } | Outcome::Blocked { .. } => {
            return Ok(Err(Problem::gone()));
        }
    };
    match claim.result() {
        Some(bytes) => Response::decode(bytes).map(Ok),
        None => Ok(Err(Problem::gone())),
    }
}

/// The parts of a request, each behind its length.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut w = crate::base::codec::Writer::new();
    for part in parts {
        w.bytes(part);
    }
    w.finish()
}
