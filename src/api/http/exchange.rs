//! A request that is being run.

use std::time::Duration;

use super::super::lease::Lease;
use super::super::outcome::Outcome;
use super::super::tx::Tx;
use super::{Response, settled};
use crate::base::error::{BoxError, Error};
use crate::base::sync::Arc;

/// A request that is this worker's to run and to answer.
///
/// Dropping it answers nobody, and the key stays in progress until the lease has run out.
#[must_use = "until it is finished or abandoned, repeats of the request are turned away"]
#[derive(Debug)]
pub struct Exchange {
    lease: Lease,
    documentation: Option<Arc<str>>,
}

impl Exchange {
    pub(super) fn new(lease: Lease, documentation: Option<Arc<str>>) -> Self {
        Self { lease, documentation }
    }

    /// The lease that the request is run under.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The lease, to renew it or to leave a note.
    #[must_use]
    pub fn lease_mut(&mut self) -> &mut Lease {
        &mut self.lease
    }

    /// Commits what the handler writes and its response together, and returns the response to send.
    ///
    /// The response is stored whatever its status: finish with one that is final, and
    /// [`abandon`](Self::abandon) where a repeat should try again. If the lease was lost meanwhile, the
    /// handler does not run, and what is returned is the response of the one who took it over, or, while
    /// that still runs, that of a 409 problem.
    ///
    /// # Errors
    /// As [`Lease::complete`]; a response above
    /// [`result_max_bytes`](crate::Builder::result_max_bytes) ([`is_limit`](Error::is_limit)). After an error the lease
    /// is as it was: finish again, or abandon it.
    pub fn finish(
        &mut self,
        handler: impl FnOnce(&mut Tx<'_>) -> Result<Response, BoxError>,
    ) -> Result<Response, Error> {
        let outcome = self.lease.complete(|tx| {
            let response = handler(tx)?;
            tx.set_result(response.encode())?;
            Ok(response)
        })?;
        self.response(outcome)
    }

    /// Answers without any change of state, for good: repeats get the same response.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn refuse(&mut self, response: Response) -> Result<Response, Error> {
        let outcome = self.lease.complete(|tx| {
            tx.refuse(response.encode())?;
            Ok(response)
        })?;
        self.response(outcome)
    }

    /// Gives the request up: the next repeat of it is run anew, after `backoff`. Send what you like; it is not
    /// stored.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use txinbox::{Inbox, Retention};
    /// use txinbox::http::{Decision, Idempotency};
    /// # let inbox = Inbox::in_memory(Retention::at_least(Duration::from_secs(60)))?;
    /// let keys = Idempotency::new(inbox.consumer("http")?);
    /// let Decision::Run(mut exchange) = keys.begin("client-7", Some("k"), &[b"POST"])? else { panic!() };
    /// exchange.abandon("the bank does not answer", Duration::ZERO)?; // and send 503
    /// let Decision::Run(again) = keys.begin("client-7", Some("k"), &[b"POST"])? else { panic!() };
    /// assert_eq!(again.lease().attempt(), 2);
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Lease::fail`].
    pub fn abandon(&mut self, why: &str, backoff: Duration) -> Result<(), Error> {
        let _told_to_the_next_repeat = self.lease.fail(why, backoff)?;
        Ok(())
    }

    fn response(&self, outcome: Outcome<Response>) -> Result<Response, Error> {
        match outcome {
            Outcome::Applied(response, _) | Outcome::Refused(response, _) => Ok(response),
            Outcome::Skipped(response) => Ok(response),
            other => Ok(match settled(other)? {
                Ok(response) => response,
                Err(problem) => problem.documented(self.documentation.clone()).response(),
            }),
        }
    }
}
