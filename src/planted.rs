//! Bugs that tests plant, to see that the suites would find them: the check of the checker.
//!
//! Each stands in one line where the code decides. `cargo xtask bugs` builds with `--cfg rollstore_planted_bugs`, sets one
//! of them by `ROLLSTORE_PLANTED_BUG` and runs the test that must fail.
//!
//! Always true:
//! - P1. In any other build there are none: [`planted`] is a constant `false`, which no feature and no variable changes.

/// A bug that a test must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A commit returns without the sync of its file.
    SkipFileSync,
    /// A new segment's name is not made durable.
    SkipDirectorySync,
    /// A manifest's name is not made durable.
    SkipManifestDirectorySync,
    /// A manifest gets its name before its bytes are durable.
    NameManifestBeforeSync,
    /// Readers are served columns of any checksum.
    NoColumnCrc,
    /// Recovery takes in columns of any checksum.
    NoColumnCrcInScan,
    /// The checksum of a frame's header does not know the frame's place.
    NoHeaderSeed,
    /// Readers see a batch before it is durable.
    PublishBeforeSync,
    /// The index on disk is ahead of the log.
    IndexBeforeLog,
    /// The index is written before the commits of a Buffered store that it reflects are durable.
    IndexBeforeBufferedLog,
    /// `sync` returns before the sync.
    SyncReturnsEarly,
    /// A Buffered store that lost its last commits gives their numbers again.
    ReuseBufferedNumbers,
    /// A batch beyond the quota is written.
    IgnoreQuota,
    /// An index on disk that is ahead of the log is believed.
    BelieveIndexAhead,
    /// Recovery begins where an index says, whatever lies there.
    BeginAnywhere,
    /// The index on disk claims to cover the segment that is being written to.
    CoverActive,
    /// Threads that wait for another one's sync are not woken.
    LoseWakeup,
    /// A failed sync does not stop the writer.
    ForgetFailedSync,
    /// A new epoch uses LSNs of the one before.
    ReuseLsn,
    /// A new epoch uses ref versions of the one before.
    ReuseRefVersion,
    /// Ids are handed out before their reservation is durable.
    HandOutIdsEarly,
    /// A segment is listed after frames in it were acknowledged.
    ListSegmentLate,
    /// Frames attest frames that are written and not yet durable.
    AttestUnsynced,
    /// Recovery cuts the torn tail off the file before the manifest tells of the cut.
    TruncateTornTail,
    /// Acknowledged frames that are gone are taken for a torn tail.
    TakeDamageForTornTail,
    /// Recovery does not write again what no frame attests.
    DropUnattested,
    /// Recovery serves what no frame attests from where it lies.
    TrustUnattested,
    /// Half a batch counts.
    HalfBatch,
    /// Recovery does not collect the retirements.
    ForgetRetirements,
    /// An older manifest is believed, whatever the files are.
    BelieveOlderManifest,
    /// A sealed segment may have any length.
    AnySealedLength,
    /// A footer is believed whatever its checksum is.
    NoFooterCrc,
    /// Frames of an earlier incarnation count for the present one.
    IgnoreIncarnation,
    /// A frame is taken for whichever one was asked for.
    AnyFrame,
    /// A late result takes the place of a newer one.
    TakeLateResult,
    /// The cursor of a batch is not written with it.
    CursorNotInBatch,
    /// A checkpoint gets its name before its copied files are durable.
    NameCheckpointBeforeSync,
    /// A restore removes the old segments before its manifest stands.
    UnlinkBeforeManifest,
    /// A writer whose lock file was taken away goes on.
    IgnoreLostLock,
    /// A forked child writes.
    WriteInForkedChild,
    /// Compaction drops a retirement before its victim.
    DropRetireFrameEarly,
    /// Compaction moves an entry that changed meanwhile.
    RelocateWithoutCompare,
    /// Compaction removes its inputs before its manifest stands.
    UnlinkInputsBeforeManifest,
    /// A sweep's progress is committed before the results that it counts.
    ProgressBeforeResults,
    /// A sweep that goes on takes what was computed before for what is to be computed.
    BeginSweepAnew,
    /// Compaction drops the end of pieces before them.
    ForgetOpenPieces,
    /// The index on disk does not tell of partial rollouts.
    IndexWithoutPieces,
    /// A finish takes what it read, whatever was appended since.
    FinishWhatWasRead,
}

/// Whether this bug is there.
#[cfg(not(rollstore_planted_bugs))]
pub(crate) const fn planted(bug: Bug) -> bool {
    let _ = bug;
    false
}

/// Whether this bug is the one that the environment names.
#[cfg(rollstore_planted_bugs)]
pub(crate) fn planted(bug: Bug) -> bool {
    static NAMED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("ROLLSTORE_PLANTED_BUG").ok());
    NAMED.as_ref().is_some_and(|named| *named == format!("{bug:?}"))
}
