//! Damaged places, told by `verify` and by `repair`.
//!
//! May touch nothing. Knows nothing of how damage is found.
//!
//! Always true:
//! - F1. A file is named as it is within its store, wherever that lies.

use std::path::Path;

use rollstore::RolloutId;
use rollstore::inspect::Finding;
use serde::Serialize;

use crate::text;

/// One damaged place as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct FindingJson<'a> {
    file: String,
    offset: u64,
    expected: &'a str,
    found: &'a str,
    rollouts: Vec<String>,
}

/// A damaged place among lines of another kind.
#[derive(Debug, Serialize)]
pub(crate) struct Damaged<'a> {
    kind: &'static str,
    #[serde(flatten)]
    finding: FindingJson<'a>,
}

impl<'a> Damaged<'a> {
    pub(crate) fn new(store: &Path, finding: &'a Finding) -> Self {
        Self { kind: "damaged", finding: FindingJson::new(store, finding) }
    }
}

impl<'a> FindingJson<'a> {
    fn new(store: &Path, Finding { damage, rollouts }: &'a Finding) -> Self {
        Self {
            file: within(store, &damage.file),
            offset: damage.offset,
            expected: &damage.expected,
            found: &damage.found,
            rollouts: ids(rollouts),
        }
    }
}

/// The findings of a store as JSON.
pub(crate) fn as_json<'a>(store: &Path, findings: &'a [Finding]) -> Vec<FindingJson<'a>> {
    findings.iter().map(|finding| FindingJson::new(store, finding)).collect()
}

/// The findings of a store for people: a block of lines for each place, an empty line before each.
pub(crate) fn lines(store: &Path, findings: &[Finding]) -> Vec<String> {
    let mut lines = Vec::new();
    for Finding { damage, rollouts } in findings {
        let affects =
            if rollouts.is_empty() { "no rollout that these bytes still name".into() } else { listed(rollouts) };
        lines.extend([
            String::new(),
            format!(" {} at byte {}", within(store, &damage.file), damage.offset),
            format!("   expected  {}", text::escape(&damage.expected)),
            format!("   found     {}", text::escape(&damage.found)),
            format!("   affects   {affects}"),
        ]);
    }
    lines
}

/// A file by its name within its store.
pub(crate) fn within(store: &Path, file: &Path) -> String {
    text::path(file.strip_prefix(store).unwrap_or(file))
}

/// Ids as JSON has them.
pub(crate) fn ids(rollouts: &[RolloutId]) -> Vec<String> {
    rollouts.iter().map(ToString::to_string).collect()
}

/// `rollout 3`, `rollouts 3, 8`: every one of them.
pub(crate) fn listed(rollouts: &[RolloutId]) -> String {
    let plural = if rollouts.len() == 1 { "" } else { "s" };
    format!("rollout{plural} {}", ids(rollouts).join(", "))
}
