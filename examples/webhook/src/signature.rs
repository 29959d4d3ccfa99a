//! Who sent it: signatures over the body, compared in constant time by the crate that makes them.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A signature older or newer than this is a replay, or a wrong clock.
const TOLERANCE: Duration = Duration::from_secs(5 * 60);

fn mac(secret: &[u8], parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    parts.iter().for_each(|part| mac.update(part));
    Some(mac)
}

fn is_right(secret: &[u8], parts: &[&[u8]], given: &str) -> bool {
    let Ok(given) = hex::decode(given) else { return false };
    mac(secret, parts).is_some_and(|mac| mac.verify_slice(&given).is_ok())
}

/// Whether a header such as `sha256=…` signs the body.
pub(crate) fn github_signed(secret: &[u8], header: &str, body: &[u8]) -> bool {
    header.strip_prefix("sha256=").is_some_and(|given| is_right(secret, &[body], given))
}

/// Whether a header such as `t=1700000000,v1=…` signs the body at a time near `now_secs`. While a secret
/// is being replaced there are several signatures.
pub(crate) fn stripe_signed(secret: &[u8], header: &str, body: &[u8], now_secs: u64) -> bool {
    let fields = || header.split(',').filter_map(|field| field.trim().split_once('='));
    let Some((_, time)) = fields().find(|(name, _)| *name == "t") else { return false };
    let Ok(secs) = time.parse::<u64>() else { return false };
    if secs.abs_diff(now_secs) > TOLERANCE.as_secs() {
        return false;
    }
    let signed = [time.as_bytes(), b".", body];
    fields().any(|(name, given)| name == "v1" && is_right(secret, &signed, given))
}

/// What GitHub would put into `X-Hub-Signature-256`.
pub fn github_signature(secret: &[u8], body: &[u8]) -> String {
    let code = mac(secret, &[body]).map(|mac| mac.finalize().into_bytes());
    format!("sha256={}", hex::encode(code.unwrap_or_default()))
}

/// What Stripe would put into `Stripe-Signature`.
pub fn stripe_signature(secret: &[u8], body: &[u8], secs: u64) -> String {
    let time = secs.to_string();
    let code = mac(secret, &[time.as_bytes(), b".", body]).map(|mac| mac.finalize().into_bytes());
    format!("t={time},v1={}", hex::encode(code.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of GitHub's documentation, so that we do not only agree with ourselves.
    #[test]
    fn a_published_signature_is_right() {
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let secret = b"It's a Secret to Everybody";
        assert_eq!(github_signature(secret, b"Hello, World!"), signature);
        assert!(github_signed(secret, signature, b"Hello, World!"));
        assert!(!github_signed(secret, signature, b"Hello, World?"));
        assert!(!github_signed(b"another", signature, b"Hello, World!"));
        for broken in ["", "sha256=", "sha256=zz", &signature[7..], &signature[..70]] {
            assert!(!github_signed(secret, broken, b"Hello, World!"), "{broken}");
        }
    }

    #[test]
    fn a_signature_with_a_time_holds_for_five_minutes() {
        let signature = stripe_signature(b"s", b"body", 1_000);
        for (now, holds) in [(700, true), (699, false), (1_300, true), (1_301, false)] {
            assert_eq!(stripe_signed(b"s", &signature, b"body", now), holds, "{now}");
        }
        let moved = signature.replace("t=1000", "t=1001");
        assert!(!stripe_signed(b"s", &moved, b"body", 1_000), "the time is signed too");
        let rolled = signature.replace(",v1=", ",v1=00,v1=");
        assert!(stripe_signed(b"s", &rolled, b"body", 1_000));
        assert!(!stripe_signed(b"s", "v1=00", b"body", 1_000));
    }
}
