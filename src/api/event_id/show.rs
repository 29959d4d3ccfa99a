//! Ids as people read them in logs: the call that makes the id, long parts shortened.

use std::fmt;

use super::EventId;
use super::spelling::{Shape, read};

/// Bytes of a part shown before the rest is only counted.
const SHOWN_BYTES: usize = 96;

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((kind, parts)) = read(self.as_encoded()) else {
            return hex(f, self.as_encoded());
        };
        write!(f, "{}(", kind.name())?;
        let mut shape = Shape::Bytes;
        let mut shapes = kind.shapes().iter();
        for (n, part) in parts.into_iter().enumerate() {
            if n > 0 {
                f.write_str(", ")?;
            }
            shape = shapes.next().copied().unwrap_or(shape);
            show(f, shape, part)?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn show(f: &mut fmt::Formatter<'_>, shape: Shape, part: &[u8]) -> fmt::Result {
    let shown = shortened(shape, part);
    match (shape, std::str::from_utf8(shown)) {
        (Shape::Text, Ok(text)) => write!(f, "\"{}\"", text.escape_debug())?,
        (Shape::Unsigned, _) => {
            let number = part.iter().fold(0_u64, |value, byte| (value << 8) | u64::from(*byte));
            write!(f, "{number}")?;
        }
        _ if shown.iter().all(|byte| matches!(byte, b' '..=b'~')) => {
            write!(f, "b\"{}\"", shown.escape_ascii())?;
        }
        _ => hex(f, shown)?,
    }
    if shown.len() < part.len() {
        write!(f, "… ({} bytes)", part.len())?;
    }
    Ok(())
}

/// The front of a part, cut between characters where it is text.
fn shortened(shape: Shape, part: &[u8]) -> &[u8] {
    let front = part.get(..SHOWN_BYTES).unwrap_or(part);
    match std::str::from_utf8(front) {
        Err(cut) if shape == Shape::Text => part.get(..cut.valid_up_to()).unwrap_or(front),
        _ => front,
    }
}

fn hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("0x")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}
