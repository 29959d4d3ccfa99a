//! Webhooks: signed, named by their sender, handled inside the inbox's transaction.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use txinbox::{Advice, Consumer, Error, Event, EventId, Map};

use crate::signature::{github_signed, stripe_signed};
use crate::{App, Body, blocking, header};

pub(crate) async fn github(State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    let signature = header(&headers, "x-hub-signature-256").unwrap_or_default();
    if !github_signed(&app.inner.secret, signature, &body) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    // A missing id is refused, never made up: a repeat would get another.
    let Some(Ok(id)) = header(&headers, "x-github-delivery").map(EventId::github_delivery) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    blocking(move || take(&app.inner.github, &app.inner.seen, "github", id, &body)).await
}

pub(crate) async fn stripe(State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    let signature = header(&headers, "stripe-signature").unwrap_or_default();
    let now_secs = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    if !stripe_signed(&app.inner.secret, signature, &body, now_secs) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let id = serde_json::from_slice::<serde_json::Value>(&body)
        .ok()
        .and_then(|event| EventId::stripe_event(event.get("id")?.as_str()?).ok());
    let Some(id) = id else { return StatusCode::BAD_REQUEST.into_response() };
    blocking(move || take(&app.inner.stripe, &app.inner.seen, "stripe", id, &body)).await
}

/// Counts the event, once.
fn take(
    consumer: &Consumer,
    seen: &Map<str, u64>,
    kind: &str,
    id: EventId,
    body: &[u8],
) -> Result<Response, Error> {
    let outcome = consumer.process(&Event::new(id, body), |tx| {
        tx.update(seen, kind, |n| Some(n.unwrap_or(0) + 1))?;
        Ok(())
    })?;
    Ok(match outcome.advice() {
        Advice::Ack => StatusCode::NO_CONTENT.into_response(),
        Advice::RetryAfter(time) => {
            let secs = time.as_secs().max(1).to_string();
            (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", secs)]).into_response()
        }
        Advice::Quarantine => {
            eprintln!("put aside: {outcome:?}"); // a repeat would not help the sender
            StatusCode::ACCEPTED.into_response()
        }
    })
}
