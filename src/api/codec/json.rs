//! Values through serde, as JSON text.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Value, malformed};
use crate::base::error::Error;

/// A value that serde turns into JSON text, for state whose shape changes over time (feature
/// `serde`).
///
/// A keyspace checks only that it holds JSON, not of which type: added and missing fields are
/// serde's affair (`#[serde(default)]`). Costs more space and time than the other values; keep
/// counters and balances in plain ones. Maps whose keys are not text have no JSON, and `NaN` and
/// infinities become `null`, which does not read back as a number.
///
/// ```
/// use std::collections::BTreeMap;
/// use txinbox::codec::{Json, Value};
///
/// let stock = Json(BTreeMap::from([("apples".to_owned(), 3_u32)]));
/// let mut bytes = Vec::new();
/// stock.encode(&mut bytes)?;
/// assert_eq!(bytes, br#"{"apples":3}"#);
/// assert_eq!(Json::<BTreeMap<String, u32>>::decode(&bytes)?, stock);
/// assert!(Json::<Vec<u32>>::decode(&bytes).unwrap_err().is_decode());
/// # Ok::<(), txinbox::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

impl<T: Serialize + DeserializeOwned> Value for Json<T> {
    type Owned = Self;

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("json/1")
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        serde_json::to_writer(&mut *out, &self.0).map_err(|error| {
            out.truncate(start);
            Error::invalid(format!(
                "this value has no JSON ({error}); give it a shape that JSON can hold"
            ))
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        match serde_json::from_slice(bytes) {
            Ok(value) => Ok(Self(value)),
            Err(error) => Err(malformed("json/1", error.to_string())),
        }
    }
}
