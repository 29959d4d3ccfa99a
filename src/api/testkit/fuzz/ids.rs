//! Two ids from one input: equal only if they were made alike.

use super::Input;
use crate::api::event_id::EventId;

/// The parts an id was made of, and which constructor made it.
#[derive(Debug, PartialEq, Eq)]
struct Made(u8, Vec<Vec<u8>>);

/// Any two ids are the same id only if constructor and parts are the same.
pub fn ids(data: &[u8]) {
    let mut input = Input(data);
    let (first, second) = (id(&mut input), id(&mut input));
    let (Some((a, id_a)), Some((b, id_b))) = (first, second) else { return };
    assert_eq!(a == b, id_a == id_b, "{id_a} and {id_b}");
    assert_eq!(a == b, id_a.cmp(&id_b).is_eq());
    assert_eq!(id_a, id_a.clone());
    assert!(!id_a.to_string().is_empty() && !id_b.to_string().is_empty());
}

fn id(input: &mut Input<'_>) -> Option<(Made, EventId)> {
    let kind = input.u8() % 6;
    let count = match kind {
        0 | 1 => 1,
        2 => usize::from(input.u8() % 5),
        _ => 2,
    };
    let parts: Vec<Vec<u8>> = (0..count).map(|_| input.bytes(200).to_vec()).collect();
    let empty = parts.is_empty() || parts.iter().any(Vec::is_empty);
    let text = |n: usize| parts.get(n).and_then(|part| std::str::from_utf8(part).ok());
    let made = match kind {
        0 => EventId::bytes(parts.first()?),
        1 => EventId::text(text(0)?),
        2 => EventId::parts(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        3 => EventId::cloud_event(text(0)?, text(1)?),
        4 => EventId::standard_webhook(text(0)?, text(1)?),
        _ => EventId::pubsub_record(text(0)?, text(1)?),
    };
    assert_eq!(made.is_err(), empty, "an id is refused if a part is missing");
    Some((Made(kind, parts), made.ok()?))
}
