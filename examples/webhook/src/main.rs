//! `cargo run -- DIR SECRET`: serves on port 8080, with the store in DIR.

use std::time::Duration;

use txinbox::{Inbox, Retention, days};
use txinbox_webhook::App;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(dir), Some(secret)) = (args.next(), args.next()) else {
        return Err("usage: txinbox-webhook DIR SECRET".into());
    };
    // Stripe repeats for three days, GitHub's by hand for three; a month of being down by our own fault.
    let retention = Retention::covering().broker(days(3)).recovery(days(30));
    let inbox = Inbox::builder(retention).open(dir)?;
    let app = App::new(&inbox, secret.as_bytes(), Duration::from_millis(200))?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.router()).await?;
    Ok(())
}
