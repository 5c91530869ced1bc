//! How a transfer is made: how much at once, how long it tries, who hears of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a part by default: small enough that many fit into memory, large enough that requests cost little beside them.
pub const PART_BYTES: u64 = 8 << 20;

/// Smallest part: services refuse smaller ones.
pub const PART_BYTES_MIN: u64 = 5 << 20;

/// Parts of an object at most: the services' limit. Parts of a larger object are larger.
pub const PARTS_MAX: u64 = 10_000;

/// Bytes of an annotation at most.
pub const ANNOTATION_BYTES_MAX: usize = 64 << 10;

/// What a transfer tells while it goes on: bytes that are done, of how many.
type Listener = dyn Fn(Progress) + Send + Sync;

/// How far a transfer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that need no more work: sent or fetched, or there already.
    pub done_bytes: u64,
    /// Bytes of all segments.
    pub total_bytes: u64,
}

/// How a transfer is made. Every call takes the same ones; what it has no use for is passed over.
#[derive(Clone)]
pub struct Options {
    pub(crate) part_bytes: u64,
    pub(crate) requests: usize,
    pub(crate) retry_for: Duration,
    pub(crate) lease: Duration,
    pub(crate) annotation: String,
    pub(crate) listener: Option<Arc<Listener>>,
    pub(crate) environment: Environment,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            part_bytes: PART_BYTES,
            requests: 8,
            retry_for: Duration::from_mins(2),
            lease: Duration::from_mins(10),
            annotation: String::new(),
            listener: None,
            environment: Environment::default(),
        }
    }
}

impl Options {
    /// Bytes of a part of an upload, 8 MiB unless given, and no less than [`PART_BYTES_MIN`]. A smaller segment goes up in one
    /// request.
    #[must_use]
    pub fn part_bytes(mut self, bytes: u64) -> Self {
        self.part_bytes = bytes.max(PART_BYTES_MIN);
        self
    }

    /// Requests under way at once, 8 unless given. An upload holds so many parts in memory.
    #[must_use]
    pub fn requests(mut self, requests: usize) -> Self {
        self.requests = requests.max(1);
        self
    }

    /// How long a request is tried again that failed by no fault of the caller, 2 minutes unless given.
    #[must_use]
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// A text of the caller's own that is kept with a checkpoint, of at most [`ANNOTATION_BYTES_MAX`] bytes: no secret, since
    /// everyone may read it who may read the checkpoint.
    #[must_use]
    pub fn annotation(mut self, text: impl Into<String>) -> Self {
        self.annotation = text.into();
        self
    }

    /// Called from threads of the transfer as it goes on.
    #[must_use]
    pub fn on_progress(mut self, listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// How long an upload counts as under way that gives no sign of life. For tests, which do not wait ten minutes.
    #[doc(hidden)]
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Variables in place of the process's own. For tests, whose threads share one environment.
    #[doc(hidden)]
    #[must_use]
    pub fn environment(mut self, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.environment = Environment { given: Some(variables.collect()) };
        self
    }

    pub(crate) fn tell(&self, done_bytes: u64, total_bytes: u64) {
        if let Some(listener) = &self.listener {
            listener(Progress { done_bytes, total_bytes });
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Options");
        shown.field("part_bytes", &self.part_bytes).field("requests", &self.requests);
        shown.field("retry_for", &self.retry_for).finish_non_exhaustive()
    }
}

/// The variables that credentials come from. Never shown.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    given: Option<Vec<(String, String)>>,
}

impl Environment {
    /// Variables of object storage, by name.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let of_process = || {
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        };
        let all = self.given.clone().unwrap_or_else(|| of_process().collect());
        let is_ours = |name: &str| ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|start| name.starts_with(start));
        all.into_iter().filter(|(name, _)| is_ours(name)).collect()
    }

    /// Values that may be secrets, also as they stand in a URL.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        const MARKS: [&str; 6] = ["KEY", "SECRET", "TOKEN", "SAS", "PASSWORD", "CREDENTIAL"];
        /// A shorter one cannot be told from a word.
        const SECRET_CHARS_MIN: usize = 6;
        let is_secret = |(name, value): &(String, String)| {
            value.len() >= SECRET_CHARS_MIN && MARKS.iter().any(|mark| name.contains(mark))
        };
        self.variables().into_iter().filter(is_secret).flat_map(|(_, value)| {
            let encoded = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
            [value, encoded]
        })
    }
}
