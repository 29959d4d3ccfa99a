//! Which claims an id stands for.
//!
//! What must hold: a claim under the id itself outranks aliases; an alias counts only while its
//! primary's claim is stored.

use super::{Claim, Kind, Model, distinct_aliases, same};
use crate::api::event::Event;
use crate::api::event_id::EventId;

impl Model {
    fn own_claim(&self, consumer: &str, id: &EventId) -> Option<&Claim> {
        let rows = self.rows.get(&(consumer.to_owned(), id.clone()))?;
        rows.iter().find_map(|row| match &row.kind {
            Kind::Claim(claim) => Some(claim),
            Kind::Alias { .. } => None,
        })
    }

    /// The claims that an id stands for, with the ids they lie under.
    pub(super) fn claims_under(&self, consumer: &str, id: &EventId) -> Vec<(EventId, Claim)> {
        if let Some(claim) = self.own_claim(consumer, id) {
            return vec![(id.clone(), claim.clone())];
        }
        let mut found: Vec<(EventId, Claim)> = Vec::new();
        let rows = self.rows.get(&(consumer.to_owned(), id.clone()));
        for row in rows.into_iter().flatten() {
            let Kind::Alias { primary } = &row.kind else { continue };
            if let Some(claim) = self.own_claim(consumer, primary)
                && found.iter().all(|(id, _)| id != primary)
            {
                found.push((primary.clone(), claim.clone()));
            }
        }
        found
    }

    /// The claims that an event meets, in the order of its ids.
    pub(super) fn primaries_of(&self, consumer: &str, event: &Event<'_>) -> Vec<(EventId, Claim)> {
        let mut met: Vec<(EventId, Claim)> = self.claims_under(consumer, event.id());
        for alias in distinct_aliases(event) {
            for (primary, claim) in self.claims_under(consumer, &alias) {
                if met.iter().all(|(id, _)| *id != primary) {
                    met.push((primary, claim));
                }
            }
        }
        met
    }

    /// Whether several answers would be right: one id of the event stands for several claims, and it
    /// is not laid down which of them is told.
    #[must_use]
    pub fn is_ambiguous(&self, consumer: &str, event: &Event<'_>) -> bool {
        let mut ids = vec![event.id().clone()];
        ids.extend(distinct_aliases(event));
        ids.iter().any(|id| self.claims_under(consumer, id).len() > 1)
    }

    /// Whether an event with this fingerprint is a repeat of what the id stands for.
    #[must_use]
    pub fn is_repeat(&self, consumer: &str, id: &EventId, fingerprint: Option<u64>) -> bool {
        let claims = self.claims_under(consumer, id);
        claims.iter().any(|(_, claim)| same(claim.fingerprint, fingerprint))
    }
}
