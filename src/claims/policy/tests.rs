//! Retention policies at their edges, and how many buckets they keep alive.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::base::ids::WallMs;
use crate::base::limits::{RETENTION_MAX_MS, RETENTION_MIN_MS};
use crate::claims::store_time::StoreClock;

const DAY_MS: u64 = 24 * 3_600_000;

fn retention_ms(retention: &Retention) -> Option<u64> {
    retention.policy().unwrap().retention_ms
}

#[test]
fn the_window_covers_all_sources_of_duplicates() {
    let all = Retention::covering()
        .broker(hours(7 * 24))
        .retries(hours(24))
        .recovery(hours(48))
        .replay(hours(14 * 24));
    assert_eq!(all.window(), Some(days(16)));
    assert_eq!(all.clone().broker(days(30)).window(), Some(days(33)));
    assert_eq!(retention_ms(&all), Some((16 * DAY_MS * 32).div_ceil(31)));
    assert_eq!(Retention::at_least(days(3)).broker(days(5)).window(), Some(days(5)));
    assert_eq!(Retention::at_least(days(3)).broker(days(2)).window(), Some(days(3)));
    assert_eq!(retention_ms(&Retention::forever().broker(days(2))), None);
    assert!(!all.allows_shorter() && all.allow_shorter().allows_shorter());
}

/// Case E2: 0, 1 ns and the largest of each time setting. Zero counts as zero, what is too short or
/// too long is refused with the reason, and nothing becomes "for ever" by accident.
#[test]
fn e2_zero_tiny_and_huge_settings_are_refused_or_mean_what_they_say() {
    type Set = fn(Duration) -> Retention;
    let settings: [Set; 5] = [
        |d| Retention::covering().broker(d),
        |d| Retention::covering().retries(d),
        |d| Retention::covering().recovery(d),
        |d| Retention::covering().replay(d),
        Retention::at_least,
    ];
    let refusal = |r: Retention| r.policy().unwrap_err();
    for set in settings {
        let zero = refusal(set(Duration::ZERO));
        assert!(zero.is_invalid() && zero.to_string().contains("window is zero"));
        let tiny = refusal(set(Duration::from_nanos(1)));
        assert!(tiny.is_invalid() && tiny.to_string().contains("check its unit"));
        let huge = refusal(set(Duration::MAX));
        assert!(huge.is_limit() && huge.to_string().contains("forever()"));
        let other = set(Duration::ZERO).broker(days(1)).replay(days(1));
        assert_eq!(other.window(), Some(days(1)));
        for (ms, ok) in [
            (RETENTION_MIN_MS - 1, false),
            (RETENTION_MIN_MS, true),
            (RETENTION_MIN_MS + 1, true),
            (RETENTION_MAX_MS - 1, true),
            (RETENTION_MAX_MS, true),
            (RETENTION_MAX_MS + 1, false),
        ] {
            assert_eq!(set(Duration::from_millis(ms)).policy().is_ok(), ok, "{ms} ms");
        }
        // Part of a millisecond counts as a whole one, on both sides of the limit.
        let limit = Duration::from_millis(RETENTION_MAX_MS);
        assert!(refusal(set(limit + Duration::from_nanos(1))).is_limit());
    }
    assert!(refusal(Retention::covering()).is_invalid());
    assert!(refusal(Retention::covering().allow_shorter()).is_invalid());
    let all = Retention::covering().broker(Duration::MAX).retries(Duration::MAX);
    assert!(refusal(all.recovery(Duration::MAX).replay(Duration::MAX)).is_limit());
    assert_eq!(minutes(u64::MAX), days(u64::MAX));
}

/// Case P4: no sum of store time and retention overflows into forgetting a live claim.
#[test]
fn p4_extreme_policies_never_expire_what_is_alive() {
    for retention_ms in [Some(1), Some(2), Some(DAY_MS), Some(u64::MAX), None] {
        let policy = Policy { retention_ms };
        assert!(policy.bucket_span_ms() > 0, "a bucket takes claims for some time");
        for start in [0, 1, DAY_MS, u64::MAX - 1, u64::MAX] {
            let end = policy.bucket_end(StoreMs(start));
            assert!(end.0 >= start && (end.0 > start || start == u64::MAX));
            let whole = start.checked_add(retention_ms.unwrap_or(u64::MAX));
            let last_alive = StoreMs(whole.unwrap_or(u64::MAX));
            assert!(!policy.is_expired(end, last_alive), "{policy:?} from {start}");
        }
    }
    assert_eq!(Policy::of_window(u64::MAX).retention_ms, Some(u64::MAX));
    let forever = Policy { retention_ms: None };
    assert_eq!(forever.expires_at(StoreMs(0)), None);
    assert_eq!(forever.bucket_end(StoreMs(0)), StoreMs(u64::MAX), "one bucket for ever");
}

/// Buckets as the catalogue makes them: the next begins with the first claim past the last's end.
fn most_buckets_alive(policy: Policy, commits: impl Iterator<Item = u64>) -> usize {
    let mut starts: Vec<StoreMs> = Vec::new();
    let mut most = 0;
    for now in commits.map(StoreMs) {
        if starts.last().is_none_or(|s| policy.bucket_end(*s) <= now) {
            starts.push(now);
        }
        starts.retain(|s| !policy.is_expired(policy.bucket_end(*s), now));
        most = most.max(starts.len());
    }
    most
}

/// P2, exhaustively around every edge for small retentions.
#[test]
fn at_most_nine_buckets_are_alive_at_any_store_time() {
    for r in 1..200 {
        let policy = Policy { retention_ms: Some(r) };
        let span = policy.bucket_span_ms();
        let most = most_buckets_alive(policy, 0..r * 4);
        assert!(most <= BUCKETS_MAX, "R = {r}: {most}");
        for pause in [span - 1, span, span + 1] {
            let commits = (0..100).map(|n| n * pause);
            assert!(most_buckets_alive(policy, commits) <= BUCKETS_MAX, "R = {r}");
        }
    }
    let day = Policy { retention_ms: Some(DAY_MS) };
    let commits = (0..200).map(|n| n * DAY_MS / 8);
    assert_eq!(most_buckets_alive(day, commits), BUCKETS_MAX, "the bound is reached");
}

proptest! {
    #[test]
    fn buckets_of_any_retention_are_at_most_nine(
        r in RETENTION_MIN_MS..=2 * RETENTION_MAX_MS,
        pauses in prop::collection::vec(0..40_u64, 1..300),
    ) {
        let policy = Policy { retention_ms: Some(r) };
        let mut now = 0;
        let commits = pauses.into_iter().map(|pause| {
            now += pause * (r / 160);
            now
        });
        prop_assert!(most_buckets_alive(policy, commits) <= BUCKETS_MAX);
    }

    /// P1: a claim made at any time of its bucket outlives its window, one lying opening included.
    #[test]
    fn a_whole_window_passes_before_a_bucket_expires(
        window in RETENTION_MIN_MS..=RETENTION_MAX_MS,
        into_bucket in any::<u64>(),
    ) {
        let policy = Policy::of_window(window);
        prop_assert_eq!(policy.window_ms(), Some(window));
        let at = StoreMs(into_bucket % policy.bucket_span_ms());
        let end = policy.bucket_end(StoreMs(0));
        let leap = policy.retention_ms.unwrap() / LEAP_DIVISOR;
        prop_assert!(!policy.is_expired(end, StoreMs(at.0 + window + leap)));
        let longest = policy.retention_ms.unwrap() + policy.bucket_span_ms();
        prop_assert!(policy.is_expired(end, StoreMs(at.0 + longest)));
    }
}

/// The edge of a bucket to the millisecond.
#[test]
fn a_bucket_expires_at_its_end_plus_the_retention_and_not_before() {
    let policy = Policy { retention_ms: Some(80) };
    let end = policy.bucket_end(StoreMs(5));
    assert_eq!(end, StoreMs(15));
    for (now, expired) in [(94, false), (95, true), (96, true)] {
        assert_eq!(policy.is_expired(end, StoreMs(now)), expired);
    }
}

/// Case M3: two classes in one store, 15 minutes and 7 days, each by its own clock.
#[test]
fn m3_each_retention_class_keeps_its_own_time() {
    let short = Retention::at_least(minutes(15)).policy().unwrap();
    let long = Retention::at_least(days(7)).policy().unwrap();
    let mut clocks = [short, long].map(|p| StoreClock::resume(None, p.retention_ms, WallMs(0), 0));
    let ends = [short, long].map(|p| p.bucket_end(StoreMs(0)));
    let mut expired_at = |boot_ms| {
        let [a, b] = &mut clocks;
        let (a, b) = (a.now(boot_ms), b.now(boot_ms));
        (short.is_expired(ends[0], a), long.is_expired(ends[1], b))
    };
    assert_eq!(expired_at(15 * 60_000), (false, false));
    assert_eq!(expired_at(18 * 60_000), (true, false));
    assert_eq!(expired_at(7 * DAY_MS), (true, false));
    assert_eq!(expired_at(9 * DAY_MS), (true, true));
    // Closed for a month: each ages by its own 1/32.
    let aged = [short, long].map(|p| {
        let saved = StoreClock::resume(None, p.retention_ms, WallMs(0), 0).save(WallMs(0), 0);
        let month = WallMs(30 * DAY_MS as i64);
        StoreClock::resume(Some(saved), p.retention_ms, month, 0).now(0).0
    });
    assert_eq!(aged, [short, long].map(|p| p.retention_ms.unwrap() / 32));
    assert!(aged[0] < 60_000 && aged[1] > 5 * 3_600_000);
}

/// P4: nobody shortens a stored policy by accident.
#[test]
fn a_shorter_policy_keeps_the_longer_and_reports_it() {
    let policy = |ms| Policy { retention_ms: ms };
    let (day, week, ever) = (policy(Some(DAY_MS)), policy(Some(7 * DAY_MS)), policy(None));
    let settled = |policy, refused, changed| Settled { policy, refused, changed };
    for allow in [false, true] {
        assert_eq!(day.settle(day, allow), settled(day, None, false));
        assert_eq!(day.settle(week, allow), settled(week, None, true));
        assert_eq!(week.settle(ever, allow), settled(ever, None, true));
        assert_eq!(ever.settle(ever, allow), settled(ever, None, false));
    }
    assert_eq!(week.settle(day, false), settled(week, Some(day), false));
    assert_eq!(ever.settle(week, false), settled(ever, Some(week), false));
    assert_eq!(week.settle(day, true), settled(day, None, true));
    assert_eq!(ever.settle(week, true), settled(week, None, true));
}

#[test]
fn policies_have_golden_bytes_and_refuse_damage() {
    let some = Policy { retention_ms: Some(258) };
    let none = Policy { retention_ms: None };
    assert_eq!(unseal(&some.encode()), Ok(&[1, 1, 2, 1, 0, 0, 0, 0, 0, 0][..]));
    assert_eq!(unseal(&none.encode()), Ok(&[1, 0][..]));
    for policy in [some, none] {
        let bytes = policy.encode();
        assert_eq!(Policy::decode(&bytes), Ok(policy));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Policy::decode(&bad).is_err());
        }
        for len in 0..bytes.len() {
            assert!(Policy::decode(&bytes[..len]).is_err());
        }
    }
    for body in [&[2, 0][..], &[1, 2], &[1, 0, 0], &[1, 1, 0], &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0]] {
        let mut w = Writer::new();
        w.raw(body);
        assert!(Policy::decode(&w.seal()).is_err());
    }
}
