//! An HTTP server that takes webhooks and payments, each once.
//!
//! - `POST /webhooks/github`: signed by `X-Hub-Signature-256`, named by `X-GitHub-Delivery`.
//! - `POST /webhooks/stripe`: signed with a time by `Stripe-Signature`, named by the event's `id`.
//! - `POST /payments`: for clients of our own, with an `Idempotency-Key`. It calls a bank that takes its time.
//!
//! What must hold: an event is applied once, however often and from however many connections it comes; a 2xx is
//! sent only once everything that it says is durable; nothing unsigned reaches the inbox. Calls of the inbox
//! block, so they are made where blocking is allowed.

mod payments;
mod signature;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use txinbox::http::Idempotency;
use txinbox::{Consumer, Error, Inbox, Map};

pub use signature::{github_signature, stripe_signature};

/// What the handlers share.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
}

struct Inner {
    github: Consumer,
    stripe: Consumer,
    payments: Idempotency,
    /// How many events of each kind were applied.
    seen: Map<str, u64>,
    /// Cents paid by each client.
    paid: Map<str, u64>,
    secret: Vec<u8>,
    bank_takes: Duration,
}

impl App {
    /// # Errors
    /// As the inbox's.
    pub fn new(inbox: &Inbox, secret: &[u8], bank_takes: Duration) -> Result<Self, Error> {
        let payments = Idempotency::new(inbox.consumer("payments")?)
            .lease_time(Duration::from_secs(30))
            .documentation("https://example.com/docs/idempotency");
        Ok(Self {
            inner: Arc::new(Inner {
                github: inbox.consumer("github")?,
                stripe: inbox.consumer("stripe")?,
                payments,
                seen: inbox.map("seen")?,
                paid: inbox.map("paid")?,
                secret: secret.to_vec(),
                bank_takes,
            }),
        })
    }

    pub fn router(self) -> Router {
        Router::new()
            .route("/webhooks/github", post(webhooks::github))
            .route("/webhooks/stripe", post(webhooks::stripe))
            .route("/payments", post(payments::pay))
            .with_state(self)
    }
}

/// A header's value, if it is there and is text.
fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Runs what blocks, and says what became of the request if it failed.
async fn blocking<T: IntoResponse + Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(answer)) => answer.into_response(),
        // The sender shall come again: nothing was kept, or the repeat will tell.
        Ok(Err(error)) if error.is_retryable() => {
            let secs = error.backoff().as_secs().max(1).to_string();
            (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", secs)]).into_response()
        }
        Ok(Err(error)) => {
            eprintln!("{error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        Err(panicked) => {
            eprintln!("{panicked}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The request's body, which is what was signed.
type Body = Bytes;
