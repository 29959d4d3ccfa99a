//! Canaries: bugs planted on purpose, each of which the scenario named beside it must see.
//!
//! A scenario is an ordinary test that passes; with its bug planted it must fail. The bugs lie in the
//! crate behind the internal feature `__canaries` and are switched on for the whole process, so the
//! tests here take turns. Run one alone with `cargo test --all-features --test canaries merge`.
#![cfg(feature = "__canaries")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // these are tests, not the crate
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests, helpers included

mod crashes;
mod faults;
mod findings;
mod forgetting;
mod groups;
mod journal;
mod leases;
mod ordered;
mod outbox;
mod store;

use std::io::Write;
use std::panic::catch_unwind;
use std::sync::Mutex;

use txinbox::testkit::canary::{NAMES, plant};

/// What was caught so far, and how it showed; locked while a bug may be planted.
static CAUGHT: Mutex<Vec<(&str, String)>> = Mutex::new(Vec::new());

fn catches(name: &'static str, scenario: fn()) {
    let mut caught = CAUGHT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    plant(None);
    scenario();
    plant(Some(name));
    let outcome = catch_unwind(scenario);
    plant(None);
    let panic = outcome.expect_err("the bug is planted, and the scenario does not see it");
    let how = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_default();
    caught.push((name, how.lines().next().unwrap_or_default().to_owned()));
    if caught.len() == NAMES.len() {
        caught.sort();
        // Past the capturing of the test harness, so that every run shows the list.
        let mut out = std::io::stderr().lock();
        for (name, how) in caught.iter() {
            let _ = writeln!(out, "canary {name}: {how}");
        }
        let _ = writeln!(out, "{} canaries, all caught", caught.len());
    }
}

macro_rules! canaries {
    ($($test:ident: $name:literal => $scenario:path;)*) => {
        $(#[test]
        fn $test() {
            catches($name, $scenario);
        })*

        #[test]
        fn every_canary_has_a_test() {
            assert_eq!([$($name),*].as_slice(), NAMES);
        }
    };
}

canaries! {
    acknowledged_before_durable: "acknowledged-before-durable"
        => crashes::an_answer_survives_a_power_cut;
    no_sync_at_all: "no-sync-at-all" => crashes::every_power_cut_leaves_claims_and_state_together;
    state_in_a_second_transaction: "state-in-a-second-transaction"
        => crashes::every_power_cut_leaves_claims_and_state_together;
    floor_only_in_memory: "floor-only-in-memory"
        => forgetting::a_floor_is_there_after_reopening;
    bucket_dropped_early: "bucket-dropped-before-the-floor-is-durable"
        => forgetting::no_power_cut_separates_a_bucket_from_its_floor;
    floor_not_raised: "floor-not-raised-with-its-bucket"
        => forgetting::what_was_forgotten_is_too_late;
    newest_run_only: "duplicate-check-in-the-newest-run-only"
        => forgetting::old_runs_are_asked_too;
    batch_duplicates_missed: "duplicates-inside-one-batch-missed"
        => groups::a_repeat_inside_a_batch_is_a_duplicate;
    failed_event_leaks: "failed-event-leaks-into-its-group"
        => groups::a_failed_event_leaves_nothing_in_its_group;
    index_kept: "memory-index-kept-after-a-failed-commit"
        => faults::a1_after_a_failed_commit_the_event_is_fresh;
    checksum_not_verified: "checksum-not-verified-on-read"
        => faults::a_flipped_bit_is_never_an_answer;
    missed_wake_up: "missed-wake-up-in-the-queue" => groups::every_caller_gets_its_turn;
    backward_clock: "backward-clock-accepted"
        => forgetting::a_clock_set_back_does_not_stall_forgetting;
    ids_joined: "ids-joined-without-length-prefix" => groups::j5_parts_are_not_joined;
    does_not_refuse: "failed-commit-does-not-refuse"
        => faults::r2_one_io_error_then_a_healthy_device;
    handler_error_early: "handler-error-before-what-it-read-is-durable"
        => crashes::a_handlers_error_rests_on_durable_reads;
    duplicate_released: "duplicate-released-before-its-group-is-durable"
        => crashes::a_duplicate_of_an_open_group_waits_for_it;
    view_too_early: "view-on-a-group-that-is-not-durable"
        => crashes::a_view_shows_only_what_a_power_cut_leaves;
    recovery_trusts_names: "recovery-trusts-the-names-it-finds"
        => crashes::a_name_found_after_a_kill_is_made_durable;
    merge_forgotten: "merge-brings-a-forgotten-claim-back"
        => forgetting::a_forgotten_claim_stays_gone_through_a_merge;
    published_in_two_steps: "group-published-in-two-steps"
        => groups::claim_and_state_become_visible_in_one_step;
    old_handle: "old-handle-misses-an-added-class"
        => forgetting::an_old_handle_knows_classes_added_since;
    retention_shortened: "retention-shortened-by-accident"
        => forgetting::a_shorter_policy_does_not_shorten_by_itself;
    state_garbage: "application-state-taken-for-garbage"
        => forgetting::maintenance_frees_no_application_state;
    view_goes_on: "view-that-pins-too-much-goes-on" => groups::a_view_that_pins_too_much_ends;
    claim_seen_early: "claim-seen-before-it-is-durable"
        => journal::a_repeat_of_a_group_in_flight_is_not_told_early;
    page_cache_trusted: "journal-replay-trusts-the-page-cache"
        => journal::what_a_recovery_found_survives_a_power_cut;
    older_cycle: "journal-tail-of-an-older-cycle-taken-as-new"
        => journal::what_lies_behind_the_end_is_not_replayed;
    record_checksum: "journal-record-checksum-not-verified" => journal::a_torn_record_is_the_end;
    segment_reused: "journal-segment-reused-too-early"
        => journal::no_record_is_overwritten_before_a_checkpoint_has_it;
    half_built: "half-built-run-published" => findings::a_merge_that_failed_is_not_published;
    alias_time: "alias-with-a-time-to-come" => findings::an_alias_does_not_bring_a_time_to_come;
    forget_early: "forget-answers-before-it-is-durable"
        => findings::nothing_to_forget_is_said_once_that_is_durable;
    lost_database: "lost-database-taken-for-a-new-store"
        => findings::a_lost_database_file_is_no_new_store;
    open_bucket: "open-bucket-kept-for-a-shorter-policy"
        => findings::a_shorter_policy_holds_from_now_on;
    failed_position: "failed-position-not-marked-durably"
        => ordered::a_failed_position_blocks_after_a_power_cut;
    position_apart: "position-committed-apart-from-its-state"
        => ordered::every_power_cut_leaves_position_and_state_together;
    blocked_in_batch: "blocked-not-seen-inside-one-batch"
        => ordered::a_failure_blocks_the_rest_of_its_batch;
    promoted_in_two: "generation-promoted-in-two-commits"
        => ordered::no_power_cut_separates_a_generation_from_its_maps;
    lease_token: "lease-token-not-checked" => leases::f2_a_late_finisher_changes_nothing;
    lease_early: "lease-given-out-before-durable"
        => leases::a_token_that_was_given_out_survives_a_power_cut;
    lease_dropped: "lease-dropped-by-an-opening"
        => leases::an_opening_leaves_a_live_lease;
    outbox_apart: "outbox-in-a-second-transaction"
        => outbox::a_message_is_there_with_its_event_or_not_at_all;
    delivery_early: "delivery-of-a-group-that-is-not-durable"
        => outbox::only_durable_messages_are_handed_out;
    acknowledged_again: "acknowledged-only-in-memory"
        => outbox::what_was_acknowledged_is_gone;
    keys_out_of_order: "outbox-keys-out-of-order" => outbox::u1_messages_of_a_key_go_in_order;
    id_by_attempt: "message-id-by-attempt" => outbox::w2_a_message_has_one_id_for_ever;
    rebuild_sends: "rebuild-sends-again" => outbox::a_rebuild_sends_nothing_until_it_is_promoted;
}
