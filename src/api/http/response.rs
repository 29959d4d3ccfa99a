//! Responses, and how they are stored.
//!
//! What must hold: RS1. A stored response is sent again byte for byte, headers in their order. RS2. The
//! layout has a version; one that is not known is an error, and no second run.

use crate::base::codec::{Malformed, Reader, Writer};
use crate::base::error::Error;

const VERSION: u8 = 1;

/// A response as it is stored and sent again: status, headers in their order, body.
///
/// Headers that the transport adds to each response anew, such as `date`, are better left out.
///
/// ```
/// use txinbox::http::Response;
///
/// let response = Response::new(201, "created").header("location", "/orders/1");
/// assert_eq!(response.status(), 201);
/// assert_eq!(response.headers(), [("location".to_owned(), "/orders/1".to_owned())]);
/// assert_eq!(response.body(), b"created");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    /// A response without headers.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Its headers, in the order in which they were added.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(self.body.len() + 64);
        w.u8(VERSION);
        w.u16(self.status);
        w.varint(self.headers.len() as u64);
        for (name, value) in &self.headers {
            w.bytes(name.as_bytes());
            w.bytes(value.as_bytes());
        }
        w.raw(&self.body);
        w.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let decoded = Self::read(Reader::new(bytes));
        decoded.map_err(|m| Error::decode(format!("a stored HTTP response: {}", m.0)))
    }

    fn read(mut r: Reader<'_>) -> Result<Self, Malformed> {
        if r.u8()? != VERSION {
            return Err(Malformed("unknown version"));
        }
        let status = r.u16()?;
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a header is not UTF-8"))
        };
        let mut headers = Vec::new();
        for _ in 0..r.varint()? {
            headers.push((text(r.bytes()?)?, text(r.bytes()?)?));
        }
        Ok(Self { status, headers, body: r.raw(r.remaining())?.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_a_response() {
        let response = Response::new(201, "body").header("a", "b").header("a", "");
        let golden = [&[1, 201, 0, 2, 1, b'a', 1, b'b', 1, b'a', 0][..], b"body"].concat();
        assert_eq!(response.encode(), golden);
        assert_eq!(Response::decode(&golden).unwrap(), response);
        for len in 0..golden.len() - 4 {
            assert!(Response::decode(&golden[..len]).unwrap_err().is_decode(), "{len}");
        }
        assert!(Response::decode(&[2, 0, 0, 0]).unwrap_err().is_decode());
        assert_eq!(Response::decode(&Response::new(204, "").encode()).unwrap().body(), b"");
    }
}
