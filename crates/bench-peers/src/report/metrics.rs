//! Which figures tables and plots show, and what it means where another is better.

/// A figure that peers are compared by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    /// Why rollstore may lose here.
    pub(super) why: &'static str,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
    /// It is told, not compared.
    Neither,
}

const fn more(name: &'static str, title: &'static str, unit: &'static str, why: &'static str) -> Metric {
    Metric { name, title, unit, better: Better::More, why }
}

const fn less(name: &'static str, title: &'static str, unit: &'static str, why: &'static str) -> Metric {
    Metric { name, title, unit, better: Better::Less, why }
}

const fn told(name: &'static str, title: &'static str, unit: &'static str) -> Metric {
    Metric { name, title, unit, better: Better::Neither, why: "" }
}

const FRAMES: &str = "a frame a rollout has a header, a directory of its columns and padding";
const SCANS: &str = "the lists of ids are as many as pairs of version and born step: here one for each match";
const LOADS: &str = "the index is loaded into memory; a B+ tree in a file has nothing to load";

/// In the order of a store's life.
pub(super) const METRICS: &[Metric] = &[
    more("ingest_mb_s", "ingest", "MB/s", FRAMES),
    less("commit_p50_ms", "commit, p50", "ms", FRAMES),
    less("commit_p99_ms", "commit, p99", "ms", "a new segment begins: header, footer and manifest are synced"),
    told("ingest_syncs_commit", "syncs a commit", ""),
    told("ingest_hints_commit", "early write-backs a commit", ""),
    less("ingest_write_amp", "bytes written", "×", FRAMES),
    less(
        "ingest_memory_mb",
        "memory after ingest",
        "MB",
        "the index is in memory, and what waits to be written behind",
    ),
    less(
        "get_sum_us",
        "get, whole array",
        "µs",
        "header and descriptor of a frame are looked at before its array: misses of the cache, one after the other",
    ),
    less(
        "get_first_us",
        "get, first value",
        "µs",
        "header and descriptor of a frame are looked at before its array: misses of the cache, one after the other",
    ),
    less("get_sum_4_threads_us", "get, whole array, 4 threads", "µs", "one lock is taken for each look-up"),
    less("get_sum_16_threads_us", "get, whole array, 16 threads", "µs", "one lock is taken for each look-up"),
    less("cold_get_p50_us", "cold get, p50", "µs", "read-ahead of the map reads more than was asked for"),
    less("cold_get_p99_us", "cold get, p99", "µs", "read-ahead of the map reads more than was asked for"),
    less("stale_1_fresh_us", "stale scan, 1 %", "µs", SCANS),
    less("stale_10_fresh_us", "stale scan, 10 %", "µs", SCANS),
    less("window_10_fresh_us", "window scan, 10 %", "µs", SCANS),
    more("recompute_mb_s", "recompute of a random 10 %", "MB/s", "plans are made, and results checked and copied"),
    told("recompute_syncs", "syncs of it", ""),
    less("stale_10_recomputed_us", "stale scan, 10 %, half recomputed", "µs", SCANS),
    less("window_10_recomputed_us", "window scan, 10 %, half recomputed", "µs", SCANS),
    less(
        "delete_oldest_us_record",
        "delete the oldest 25 % by their step",
        "µs/record",
        "the index in memory is changed",
    ),
    less("delete_us_record", "delete the next 25 % by id", "µs/record", "the index in memory is changed"),
    less(
        "reclaim_ms",
        "reclaim",
        "ms",
        "live frames are copied to new segments; where nothing is copied there is nothing to wait for",
    ),
    less(
        "reclaimed_space_ratio",
        "space after it",
        "×",
        "the first old logps stay as behaviour logps, segments that are little dead stay, 8 MiB are kept in reserve",
    ),
    less("close_ms", "close", "ms", "the index is written, the last segment sealed"),
    less("open_ms", "open after kill -9", "ms", LOADS),
    less("open_and_get_ms", "open and three gets", "ms", LOADS),
    less("opened_memory_bytes_record", "memory a record after it", "B", LOADS),
];
