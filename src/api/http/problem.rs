//! Requests that are turned away, in the words of RFC 9457.

use std::fmt::Write as _;
use std::time::Duration;

use super::Response;
use super::key::KEY_MAX_BYTES;
use crate::base::sync::Arc;

/// How soon a client may ask again while its request runs.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request is turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: u16,
    title: &'static str,
    detail: String,
    retry_after: Option<Duration>,
    documentation: Option<Arc<str>>,
}

impl Problem {
    fn new(status: u16, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, title, detail: detail.into(), retry_after: None, documentation: None }
    }

    pub(super) fn missing() -> Self {
        let detail = "This operation needs the header Idempotency-Key: a string that is new for each \
                      request, and the same when that request is sent again.";
        Self::new(400, "Idempotency-Key is missing", detail)
    }

    pub(super) fn malformed() -> Self {
        let detail = format!(
            "The header must hold one string of 1 to {KEY_MAX_BYTES} printable ASCII characters, in \
             double quotes."
        );
        Self::new(400, "Idempotency-Key is malformed", detail)
    }

    pub(super) fn in_progress() -> Self {
        let detail =
            "A request with this key is being worked on. Send it again later for its response.";
        let problem = Self::new(409, "A request with this Idempotency-Key is in progress", detail);
        Self { retry_after: Some(RETRY_AFTER), ..problem }
    }

    pub(super) fn given_up() -> Self {
        let detail = "The request with this key failed too often. Find out what became of it before \
                      sending it with another key.";
        Self::new(409, "The request with this Idempotency-Key was given up", detail)
    }

    pub(super) fn gone() -> Self {
        let detail = "The request with this key was answered, but its response is kept no longer.";
        Self::new(409, "The response to this Idempotency-Key is gone", detail)
    }

    pub(super) fn reused() -> Self {
        let detail = "This key was used for another request. Use a new key for each request, and the \
                      same only to repeat it unchanged.";
        Self::new(422, "Idempotency-Key is already used", detail)
    }

    pub(super) fn documented(self, url: Option<Arc<str>>) -> Self {
        Self { documentation: url, ..self }
    }

    /// The status to answer with: 400, 409 or 422.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// What is the matter, in one line.
    #[must_use]
    pub fn title(&self) -> &str {
        self.title
    }

    /// What to do about it.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// When to send the request again, where that helps.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The response that says so, as `application/problem+json`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Inbox, Retention};
    /// use txinbox::http::{Decision, Idempotency};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let keys = Idempotency::new(inbox.consumer("http")?).documentation("https://example.com/keys");
    /// let Decision::Reject(problem) = keys.begin("client-7", None, &[b"POST"])? else { panic!() };
    /// let response = problem.response();
    /// assert_eq!(response.status(), 400);
    /// assert_eq!(response.headers()[0], ("content-type".into(), "application/problem+json".into()));
    /// let body = std::str::from_utf8(response.body()).unwrap();
    /// assert!(body.starts_with(r#"{"type":"https://example.com/keys","title":"Idempotency-Key is"#));
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    #[must_use]
    pub fn response(&self) -> Response {
        let kind = self.documentation.as_deref().unwrap_or("about:blank");
        let body = format!(
            r#"{{"type":{},"title":{},"status":{},"detail":{}}}"#,
            json(kind),
            json(self.title),
            self.status,
            json(&self.detail)
        );
        let response =
            Response::new(self.status, body).header("content-type", "application/problem+json");
        match self.retry_after {
            Some(time) => {
                let secs = time.as_millis().div_ceil(1_000);
                response.header("retry-after", secs.to_string())
            }
            None => response,
        }
    }
}

/// A text as JSON has it.
fn json(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c)); // a String takes all
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_json_with_its_status() {
        let all = [
            Problem::missing(),
            Problem::malformed(),
            Problem::in_progress(),
            Problem::given_up(),
            Problem::gone(),
            Problem::reused(),
        ];
        for problem in all {
            let url = "https://example.com/\"\\\n\u{1}";
            let response = problem.clone().documented(Some(url.into())).response();
            let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(body["type"], url);
            assert_eq!(body["title"], problem.title());
            assert_eq!(body["detail"], problem.detail());
            assert_eq!(body["status"], response.status());
            let retry = response.headers().iter().find(|(name, _)| name == "retry-after");
            assert_eq!(retry.map(|(_, value)| value.as_str()), problem.retry_after().map(|_| "1"));
        }
    }
}
