//! The value of the header.
//!
//! The draft wants an item of structured fields (RFC 9651) that is a string: printable ASCII in double
//! quotes, with `\"` and `\\` for those two. Many clients send the string without quotes, which is
//! taken for the same key.

/// Bytes of a key without its quotes.
pub(super) const KEY_MAX_BYTES: usize = 255;

/// The key in a header's value; `None` if there is none in it.
pub(super) fn parse(value: &str) -> Option<String> {
    let value = value.trim_matches([' ', '\t']);
    let key = match value.strip_prefix('"') {
        Some(rest) => quoted(rest)?,
        None => value.bytes().all(is_bare).then(|| value.to_owned())?,
    };
    (!key.is_empty() && key.len() <= KEY_MAX_BYTES).then_some(key)
}

/// A byte that a key without quotes may have: what structured fields give no meaning to.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b',' | b';')
}

/// A string behind its opening quote. Parameters may follow it; they mean nothing to us.
fn quoted(rest: &str) -> Option<String> {
    let mut key = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => break,
            '\\' => match chars.next()? {
                escaped @ ('"' | '\\') => key.push(escaped),
                _ => return None,
            },
            plain @ ' '..='~' => key.push(plain),
            _ => return None,
        }
    }
    let after = chars.as_str();
    (after.is_empty() || after.starts_with(';')).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_and_bare_keys_are_read() {
        let uuid = "8e03978e-40d5-43dd-bc93-6894a57f9324";
        for value in [
            uuid.to_owned(),
            format!("\"{uuid}\""),
            format!("  \"{uuid}\"\t"),
            format!("\"{uuid}\";v=1"),
        ] {
            assert_eq!(parse(&value).as_deref(), Some(uuid), "{value}");
        }
        assert_eq!(parse(r#""a \"b\" \\ c""#).as_deref(), Some(r#"a "b" \ c"#));
        assert_eq!(parse("\" \"").as_deref(), Some(" "), "a blank in quotes is a key");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for value in [
            "",
            " ",
            "\"\"",
            "\"",
            "\"open",
            "a\"b",
            "a b",
            "a,b",
            "\"a\", \"b\"",
            "\"a\"b",
            "a;b",
            r#""\n""#,
            r#""a\"#,
            "\"gr\u{fc}n\"",
            "gr\u{fc}n",
            "\"a\nb\"",
            "\u{0}",
        ] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }

    #[test]
    fn a_key_has_its_limit() {
        for (len, fits) in [(254, true), (255, true), (256, false)] {
            let key = "k".repeat(len);
            assert_eq!(parse(&key).is_some(), fits, "{len}");
            assert_eq!(parse(&format!("\"{key}\"")).is_some(), fits, "{len} quoted");
        }
    }
}
