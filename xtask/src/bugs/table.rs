//! Which test must find which planted bug.
//!
//! `docs/durability.md` shows this table; a test holds the two together, and this one with the bugs in `src/planted.rs`.

/// One bug and the test that must fail over it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Its name in `src/planted.rs`.
    pub(crate) bug: &'static str,
    /// The promise that it breaks.
    pub(crate) promise: &'static str,
    /// The file in `tests/` with the test; [`UNITS`] for one of the library's own.
    pub(crate) file: &'static str,
    pub(crate) test: &'static str,
}

/// In place of a file: the library's unit tests.
pub(crate) const UNITS: &str = "lib";

/// The file whose tests run under the scheduler that tries many orders.
pub(crate) const SHUTTLE: &str = "shuttle";

/// Bugs of what is not there yet.
#[rustfmt::skip]
pub(crate) const TABLE: &[Row] = &[
    row("SkipFileSync", "D1", "durable_before_ok", "d1_each_ok_of_one_thread_follows_a_sync_on_real_files"),
    row("SkipDirectorySync", "D1", "durable_before_ok", "d1_each_ok_of_one_thread_follows_a_sync_on_real_files"),
    row("SkipManifestDirectorySync", "D1", "manifest_faults", "f14_a_crash_at_each_step_of_a_generation_leaves_the_old_or_the_new"),
    row("NameManifestBeforeSync", "D1", "durable_before_ok", "a_replaced_manifest_is_whole_and_durable_before_its_name"),
    row("NoColumnCrc", "D4", "sealed_damage", "f07_a_flip_in_a_sealed_body_costs_that_column_alone"),
    row("NoColumnCrcInScan", "D6", "recovery", "f05_a_flip_in_an_acknowledged_frame_that_a_later_one_attests_is_named"),
    row("NoHeaderSeed", "D6", "recovery", "f04_zeros_or_garbage_or_old_frames_behind_the_tail_are_dropped"),
    row("PublishBeforeSync", "D1", SHUTTLE, "readers_see_only_what_a_sync_made_durable"),
    row("IndexBeforeLog", "D3", SHUTTLE, "readers_see_only_what_a_sync_made_durable"),
    row("IndexBeforeBufferedLog", "D3", "buffered", "d3_the_index_on_disk_is_never_ahead_of_a_buffered_log"),
    row("SyncReturnsEarly", "D1", "buffered", "sync_returns_once_everything_before_it_is_durable"),
    row("ReuseBufferedNumbers", "D9", "buffered", "d9_numbers_of_commits_that_the_power_took_are_not_given_again"),
    row("IgnoreQuota", "D12", "quota", "d12_a_batch_beyond_the_quota_is_refused_before_anything_is_written"),
    row("BelieveIndexAhead", "D3", UNITS, "index::on_disk::tests::f18_f19_an_index_of_another_state_is_rejected_with_the_reason"),
    row("BeginAnywhere", "D3", "index_rebuild", "f18_an_index_of_a_log_that_went_another_way_is_not_believed"),
    row("CoverActive", "D1", SHUTTLE, "an_index_flushed_beside_writers_is_the_log"),
    row("LoseWakeup", "D1", SHUTTLE, "every_writer_returns_and_its_batch_is_durable"),
    row("ForgetFailedSync", "D11", "disk_faults", "f09_a_sync_that_fails_once_poisons_the_writer_and_leaves_no_hole"),
    row("ReuseLsn", "D9", "restore", "d9_no_number_of_the_abandoned_future_is_used_again"),
    row("ReuseRefVersion", "D9", "restore", "d9_no_number_of_the_abandoned_future_is_used_again"),
    row("HandOutIdsEarly", "D9", "durable_before_ok", "no_id_is_handed_out_before_its_reservation_is_durable"),
    row("ListSegmentLate", "D1", "durable_before_ok", "d1_each_ok_of_one_thread_follows_a_sync_on_real_files"),
    row("AttestUnsynced", "D3", "concurrent_power_loss", "f03_a_power_cut_among_batches_of_eight_threads_leaves_a_prefix"),
    row("TruncateTornTail", "D1", "recovery", "f16_a_recovery_that_is_stopped_leaves_the_next_one_all_that_it_found"),
    row("TakeDamageForTornTail", "D6", "recovery", "f05_a_flip_in_an_acknowledged_frame_that_a_later_one_attests_is_named"),
    row("DropUnattested", "D1", "recovery", "f17_a_torn_tail_never_comes_before_new_frames"),
    row("TrustUnattested", "D1", "disk_faults", "f09_a_sync_that_fails_once_poisons_the_writer_and_leaves_no_hole"),
    row("HalfBatch", "D2", "recovery", "f02_a_batch_without_its_last_frame_is_dropped_whole"),
    row("ForgetRetirements", "D7", "index_rebuild", "f19_a_missing_index_changes_no_answer"),
    row("BelieveOlderManifest", "D6", "manifest_faults", "f15_a_rotted_newest_manifest_is_an_error_where_files_moved_on"),
    row("AnySealedLength", "D6", "sealed_damage", "f08_a_short_or_long_sealed_segment_is_named"),
    row("NoFooterCrc", "D6", "wrong_place", "f20_a_footer_of_another_checksum_than_the_manifests_is_not_believed"),
    row("IgnoreIncarnation", "D5", UNITS, "index::memory::tests::the_index_answers_as_the_model_does"),
    row("AnyFrame", "D5", "wrong_place", "f20_an_entry_that_points_to_another_frame_gives_no_other_array"),
    row("TakeLateResult", "D5", "silent_corruption", "a_late_result_never_reaches_a_rollout_that_took_the_place_of_its_own"),
    row("CursorNotInBatch", "D2", "power_loss", "d2_a_batch_of_512_inserts_and_its_cursor_is_all_or_nothing"),
    row("NameCheckpointBeforeSync", "D8", "restore", "f25_a_restore_that_loses_power_is_whole_or_can_be_repeated"),
    row("UnlinkBeforeManifest", "D9", "restore", "f25_a_restore_that_loses_power_is_whole_or_can_be_repeated"),
    row("IgnoreLostLock", "D10", "one_writer", "d10_a_deleted_lock_file_stops_the_writer_before_its_next_acknowledgement"),
    row("DropRetireFrameEarly", "D7", "compaction_crash", "f22_a_retirement_outlives_the_segment_that_it_was_written_in"),
    row("RelocateWithoutCompare", "D7", "compaction_crash", "f21_rollouts_that_are_changed_while_they_are_moved_are_neither_lost_nor_brought_back"),
    row("UnlinkInputsBeforeManifest", "D1", "compaction_crash", "f21_segments_that_are_dropped_whole_are_gone_and_nothing_else"),
    row("ForgetOpenPieces", "D7", "partials_crash", "d7_what_was_abandoned_stays_so_after_the_segment_of_its_end_is_gone"),
    row("IndexWithoutPieces", "D1", "partials", "what_was_appended_comes_back_with_the_store_with_its_index_or_without"),
    row("FinishWhatWasRead", "D1", "partials", "a_finish_does_not_lose_what_was_appended_meanwhile"),
    row("WriteInForkedChild", "D10", "forked_child", "p03_a_forked_child_cannot_write_and_takes_nothing_away"),
    row("ProgressBeforeResults", "D2", "sweep_crash", "results_and_progress_of_a_micro_batch_are_there_together_or_not_at_all"),
    row("BeginSweepAnew", "D1", "sweep_restart", "progress_outlives_the_index_compaction_and_a_restored_checkpoint"),
];

const fn row(bug: &'static str, promise: &'static str, file: &'static str, test: &'static str) -> Row {
    Row { bug, promise, file, test }
}
