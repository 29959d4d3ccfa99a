//! Every limit of the crate, in one place and checked against the others at compile time.
//!
//! Each is tested at n-1, n and n+1 (tests/limits.rs).

/// Bytes of an event id as the application gives it.
pub(crate) const EVENT_ID_MAX_BYTES: usize = 65_535;
/// Ids of one event besides its first.
pub(crate) const ALIASES_MAX: usize = 64;
/// Bytes of a name of a consumer or keyspace (UTF-8).
pub(crate) const NAME_MAX_BYTES: usize = 255;
/// Bytes of an ordered source's name.
pub(crate) const SOURCE_NAME_MAX_BYTES: usize = 1_024;
/// Failed positions of one source that wait to be settled.
pub(crate) const FAILED_POSITIONS_MAX: usize = 16;
/// Bytes of the reason, and of the name, that something is done by hand with.
pub(crate) const REASON_MAX_BYTES: usize = 1_024;
/// Bytes of a key of application state.
pub(crate) const KEY_MAX_BYTES: usize = 64 << 10;
/// Bytes of a value of application state.
pub(crate) const VALUE_MAX_BYTES: usize = 64 << 20;
/// Bytes of a stored result, unless the builder lowers it.
pub(crate) const RESULT_MAX_BYTES: usize = 16 << 20;
/// Bytes that one event may stage: keys, values, result.
pub(crate) const EVENT_STAGED_MAX_BYTES: usize = 256 << 20;
/// Consumers of one store, over its whole life.
pub(crate) const CONSUMERS_MAX: u32 = 1 << 20;
/// Keyspaces of one store, over its whole life.
pub(crate) const KEYSPACES_MAX: u32 = 1 << 16;
/// Retention classes of one store.
pub(crate) const CLASSES_MAX: u16 = 64;
/// Events in one group; past it the group is full and closes.
pub(crate) const GROUP_MAX_EVENTS: usize = 4_096;
/// Staged bytes in one group; past it the group is full and closes.
pub(crate) const GROUP_MAX_BYTES: usize = 8 << 20;
/// Length of each of the journal's segments, unless the builder says otherwise.
pub(crate) const SEGMENT_BYTES: u64 = 8 << 20;
/// The same for a store that lives in memory.
pub(crate) const MEMORY_SEGMENT_BYTES: u64 = 1 << 20;
/// Shortest segment: room for some small groups.
pub(crate) const SEGMENT_MIN_BYTES: u64 = 16 << 10;
/// Longest segment.
pub(crate) const SEGMENT_MAX_BYTES: u64 = 1 << 30;
/// Shortest time of a lease.
pub(crate) const LEASE_MIN_MS: u64 = 1;
/// Longest time of a lease; one that needs longer is renewed.
pub(crate) const LEASE_MAX_MS: u64 = 24 * 3_600_000;
/// Bytes of a lease's note.
pub(crate) const LEASE_NOTE_MAX_BYTES: usize = 64 << 10;
/// Bytes kept of what a failed attempt said; the rest is cut off.
pub(crate) const LEASE_ERROR_MAX_BYTES: usize = 1 << 10;
/// Events under a lease, waiting for their next attempt, or dead, in one store.
pub(crate) const LEASES_MAX: usize = 1 << 20;
/// Attempts of one event, unless the consumer says otherwise.
pub(crate) const LEASE_MAX_ATTEMPTS: u32 = 16;
/// Destinations of one store, over its whole life.
pub(crate) const DESTINATIONS_MAX: u32 = 1 << 16;
/// Bytes of an outgoing message's payload.
pub(crate) const MESSAGE_MAX_BYTES: usize = 16 << 20;
/// Bytes of an outgoing message's key.
pub(crate) const MESSAGE_KEY_MAX_BYTES: usize = 1_024;
/// Bytes of the name that tells an event's messages apart.
pub(crate) const MESSAGE_NAME_MAX_BYTES: usize = 1_024;
/// Headers of an outgoing message.
pub(crate) const HEADERS_MAX: usize = 64;
/// Bytes of all its headers' names and values.
pub(crate) const HEADERS_MAX_BYTES: usize = 64 << 10;
/// Messages that one event may send.
pub(crate) const EVENT_MESSAGES_MAX: usize = 4_096;
/// Messages handed out, or settled, by one call.
pub(crate) const DELIVERIES_MAX: usize = 4_096;
/// Bytes kept of why a delivery failed; the rest is cut off.
pub(crate) const DELIVERY_ERROR_MAX_BYTES: usize = 1 << 10;
/// Messages of one destination that are handed out, or wait for their time or their next attempt: what is
/// looked at no further than that.
pub(crate) const UNSETTLED_MAX: usize = 1 << 20;
/// Buckets of claims per retention class.
pub(crate) const BUCKETS_MAX: usize = 9;
/// Live runs per retention class.
pub(crate) const RUNS_MAX: usize = 16;
/// Claims in one partition of a run; bounds what sealing and merging hold in memory.
pub(crate) const PARTITION_MAX_CLAIMS: usize = 1 << 17;
/// Claims kept in memory before they must be sealed, unless the builder says otherwise.
pub(crate) const RECENT_MAX_CLAIMS: usize = 1 << 20;
/// Shortest retention window; anything shorter is a mistake in units.
pub(crate) const RETENTION_MIN_MS: u64 = 1_000;
/// Longest retention window short of for ever: a thousand years.
pub(crate) const RETENTION_MAX_MS: u64 = 1_000 * 365 * 24 * 3_600_000;
/// This crate's release: an earlier wall clock is not to be believed (2026-12-01).
pub(crate) const RELEASE_WALL_MS: i64 = 1_796_083_200_000;

const _: () = assert!(EVENT_ID_MAX_BYTES == u16::MAX as usize);
const _: () = assert!(EVENT_STAGED_MAX_BYTES >= VALUE_MAX_BYTES + KEY_MAX_BYTES);
const _: () = assert!(RUNS_MAX > BUCKETS_MAX);
const _: () = assert!(RETENTION_MIN_MS < RETENTION_MAX_MS);
const _: () = assert!(SEGMENT_MIN_BYTES.is_multiple_of(512) && SEGMENT_MIN_BYTES < SEGMENT_BYTES);
const _: () = assert!(GROUP_MAX_EVENTS * (1 + ALIASES_MAX) < RECENT_MAX_CLAIMS);
