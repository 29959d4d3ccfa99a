//! Byte strings that need no allocation while they are short: most keys and counters are.
//!
//! What must hold: SB1. They are, compare and hash as the slices that they were made from.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Bytes kept in place; with the length and the enum's tag a string takes 24 bytes.
const INLINE_BYTES: usize = 22;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum SmallBytes {
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Heap(Box<[u8]>),
}

impl SmallBytes {
    pub(crate) fn new(from: &[u8]) -> Self {
        let mut bytes = [0; INLINE_BYTES];
        match (bytes.get_mut(..from.len()), u8::try_from(from.len())) {
            (Some(to), Ok(len)) => {
                to.copy_from_slice(from);
                Self::Inline { len, bytes }
            }
            _ => Self::Heap(from.into()),
        }
    }
}

impl Deref for SmallBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Self::Heap(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for SmallBytes {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for SmallBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SmallBytes {}

impl Hash for SmallBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialOrd for SmallBytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SmallBytes {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sb1_they_are_the_slices_they_were_made_from() {
        assert_eq!(size_of::<SmallBytes>(), 24);
        let all: Vec<Vec<u8>> = [0, 1, 21, 22, 23, 300].map(|len| vec![7; len]).into();
        for a in &all {
            assert_eq!(*SmallBytes::new(a), a[..]);
            for b in &all {
                assert_eq!(SmallBytes::new(a).cmp(&SmallBytes::new(b)), a.cmp(b));
            }
        }
    }
}
