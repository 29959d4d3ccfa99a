//! Payments: each `Idempotency-Key` is charged once, and its repeats get the stored response.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use txinbox::Error;
use txinbox::http::{Decision, Exchange, Response as Stored};

use crate::{App, Body, blocking, header};

pub(crate) async fn pay(State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    // Stands for your authentication.
    let Some(client) = header(&headers, "x-client").map(str::to_owned) else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let key = header(&headers, "idempotency-key").map(str::to_owned);
    let begun = {
        let (app, client, body) = (app.clone(), client.clone(), body.clone());
        move || {
            let request = [&b"POST"[..], b"/payments", &body];
            app.inner.payments.begin(&client, key.as_deref(), &request)
        }
    };
    let decision = match tokio::task::spawn_blocking(begun).await {
        Ok(Ok(decision)) => decision,
        Ok(Err(error)) => return blocking(move || Err::<Response, _>(error)).await,
        Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    let mut exchange = match decision {
        Decision::Answer(response) => return sent(&response),
        Decision::Reject(problem) => return sent(&problem.response()),
        Decision::Run(exchange) => exchange,
    };
    // The slow part: no transaction is open, other requests go on.
    let charged = charge(&app, &exchange, &body).await;
    blocking(move || match charged {
        Ok(cents) => {
            let paid = exchange.finish(|tx| {
                tx.update(&app.inner.paid, client.as_str(), |n| Some(n.unwrap_or(0) + cents))?;
                Ok(Stored::new(201, format!("charged {cents}")).header("location", "/payments/1"))
            });
            paid.map(|response| sent(&response))
        }
        Err(Refused::ForGood) => exchange.refuse(Stored::new(402, "no")).map(|r| sent(&r)),
        Err(Refused::ForNow) => abandon(&mut exchange),
    })
    .await
}

enum Refused {
    ForGood,
    ForNow,
}

/// The bank: takes its time, has no money for zero, and is shut to "later".
async fn charge(app: &App, exchange: &Exchange, body: &[u8]) -> Result<u64, Refused> {
    let _send_this_along = exchange.lease().idempotency_key("charge");
    tokio::time::sleep(app.inner.bank_takes).await;
    match std::str::from_utf8(body).unwrap_or_default() {
        "later" => Err(Refused::ForNow),
        text => text.parse().ok().filter(|cents| *cents > 0).ok_or(Refused::ForGood),
    }
}

fn abandon(exchange: &mut Exchange) -> Result<Response, Error> {
    exchange.abandon("the bank is shut", std::time::Duration::ZERO)?;
    Ok((StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")]).into_response())
}

fn sent(stored: &Stored) -> Response {
    let status = StatusCode::from_u16(stored.status()).unwrap_or(StatusCode::OK);
    let mut response = (status, stored.body().to_vec()).into_response();
    response.headers_mut().remove("content-type");
    for (name, value) in stored.headers() {
        if let (Ok(name), Ok(value)) = (name.parse::<axum::http::HeaderName>(), value.parse()) {
            response.headers_mut().append(name, value);
        }
    }
    response
}
