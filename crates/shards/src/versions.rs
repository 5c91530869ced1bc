//! One count of versions for shards that counted by themselves.
//!
//! May touch version lines. Knows nothing of rollouts or files.
//!
//! Always true:
//! - V1. A version is told by the same number in the common count only where it is the same weights: by the same count, or by
//!   the same label.
//! - V2. What cannot be told is refused, never guessed. A version of an abandoned future stays one.

use std::collections::{BTreeMap, BTreeSet};

use rollstore::VersionLine;

/// What one shard counted.
#[derive(Debug)]
pub(crate) struct Counted<'a> {
    pub(crate) line: &'a VersionLine,
    /// Versions that its rollouts stand on.
    pub(crate) used: BTreeSet<u64>,
}

/// The common count, and how each shard's numbers are told in it.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) line: VersionLine,
    pub(crate) maps: Vec<Map>,
}

/// A shard's numbers in the common count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Map {
    /// The same.
    Same,
    /// These, by the shard's.
    By(BTreeMap<u64, u64>),
}

/// A version that cannot be told: of which shard, in the count of which.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Untold {
    pub(crate) shard: usize,
    pub(crate) by: usize,
    pub(crate) version: u64,
}

impl Map {
    /// The number in the common count. Every version that was said to be used has one.
    pub(crate) fn of(&self, version: u64) -> u64 {
        match self {
            Self::Same => version,
            Self::By(map) => map.get(&version).copied().unwrap_or(version),
        }
    }
}

/// The count of the shard that has come furthest, and the others' numbers in it.
pub(crate) fn join(shards: &[Counted<'_>]) -> Result<Common, Untold> {
    let agree = |newest: &&Counted<'_>| shards.iter().all(|other| is_continued_by(other.line, newest.line));
    if let Some(newest) = shards.iter().find(agree) {
        return Ok(Common { line: newest.line.clone(), maps: vec![Map::Same; shards.len()] });
    }
    let top = |shard: &Counted<'_>| shard.line.labels.last().map(|(label, _)| *label);
    let highest = shards.iter().map(top).max().flatten();
    let mut first = None;
    for (by, base) in shards.iter().enumerate().filter(|(_, shard)| top(shard) == highest) {
        match by_labels(shards, by, base.line) {
            Ok(common) => return Ok(common),
            Err(untold) => first = first.or(Some(untold)),
        }
    }
    Err(first.unwrap_or(Untold { shard: 0, by: 0, version: 0 }))
}

/// Every shard's numbers in the count of one of them.
fn by_labels(shards: &[Counted<'_>], by: usize, base: &VersionLine) -> Result<Common, Untold> {
    let mut line = base.clone();
    let mut maps = Vec::with_capacity(shards.len());
    for (shard, Counted { line: theirs, used }) in shards.iter().enumerate() {
        if shard == by {
            maps.push(Map::Same);
            continue;
        }
        let mut map = BTreeMap::new();
        // The current one too: else the shard may have come further than the count that it is told in.
        for version in used.iter().copied().chain([theirs.current()]) {
            let told = if theirs.lag(version).is_some() {
                tell(theirs, base, version).ok_or(Untold { shard, by, version })?
            } else {
                // All of them mean the same: of no lineage. The number is above all that were issued, and never will be.
                line.next = base.next + 1;
                base.next
            };
            map.insert(version, told);
        }
        maps.push(Map::By(map));
    }
    Ok(Common { line, maps })
}

/// A version of one lineage in another: by its label, or so many advances before the first label that both know.
fn tell(theirs: &VersionLine, base: &VersionLine, version: u64) -> Option<u64> {
    let labelled =
        |line: &VersionLine, label| line.labels.iter().rfind(|(known, _)| *known == label).map(|(_, at)| *at);
    if let Some((label, _)) = theirs.labels.iter().rfind(|(_, at)| *at == version) {
        return labelled(base, *label);
    }
    let (first, at) = theirs.labels.first()?;
    let (base_first, base_at) = base.labels.first()?;
    if first != base_first || version > *at {
        return None;
    }
    let before = theirs.lag(version)?.checked_sub(theirs.lag(*at)?)?;
    behind(base, base.lag(*base_at)?.checked_add(before)?)
}

/// Whether the other goes on from the line, and no label says otherwise.
fn is_continued_by(line: &VersionLine, other: &VersionLine) -> bool {
    let labels: BTreeMap<u64, u64> = other.labels.iter().copied().collect();
    line.is_continued_by(other)
        && line.labels.iter().all(|(label, version)| labels.get(label).is_none_or(|known| known == version))
}

/// The version so many advances behind the current one.
fn behind(line: &VersionLine, mut lag: u64) -> Option<u64> {
    for range in line.lineage.iter().rev() {
        let behind = range.end() - range.start();
        if lag <= behind {
            return Some(range.end() - lag);
        }
        lag -= behind + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of these ranges, whose labelled versions are `(label, version)`.
    fn line(lineage: &[(u64, u64)], labels: &[(u64, u64)]) -> VersionLine {
        let lineage: Vec<_> = lineage.iter().map(|(first, last)| *first..=*last).collect();
        VersionLine { next: lineage.last().unwrap().end() + 1, lineage, labels: labels.to_vec() }
    }

    fn joined(shards: &[(&VersionLine, &[u64])]) -> Result<Common, Untold> {
        let counted = shards.iter().map(|&(line, used)| Counted { line, used: used.iter().copied().collect() });
        join(&counted.collect::<Vec<_>>())
    }

    #[test]
    fn one_that_went_on_from_the_other_keeps_all_numbers() {
        let (behind, ahead) = (line(&[(0, 3)], &[(10, 1)]), line(&[(0, 3), (7, 9)], &[(10, 1), (13, 9)]));
        let common = joined(&[(&behind, &[2]), (&ahead, &[8])]).unwrap();
        assert_eq!((common.line, common.maps), (ahead, vec![Map::Same; 2]));
    }

    #[test]
    fn v1_numbers_that_differ_are_told_by_labels_and_by_what_lies_before_the_first_one() {
        // The second was restored after version 2, and went on above its ceiling; it has not heard of label 13.
        let straight = line(&[(0, 5)], &[(11, 2), (12, 3), (13, 4), (14, 5)]);
        let restored = line(&[(0, 2), (1000, 1001)], &[(11, 2), (12, 1000), (14, 1001)]);
        let common = joined(&[(&restored, &[0, 1, 2, 1000]), (&straight, &[3])]).unwrap();
        let Map::By(map) = &common.maps[1] else { panic!("{common:?}") };
        assert_eq!(common.line, restored, "the first of those that have come furthest");
        assert_eq!(map, &BTreeMap::from([(3, 1000), (5, 1001)]));
        let common = joined(&[(&straight, &[]), (&restored, &[0, 1, 2, 1000])]).unwrap();
        assert_eq!(common.maps[1], Map::By(BTreeMap::from([(0, 0), (1, 1), (2, 2), (1000, 3), (1001, 5)])));
    }

    #[test]
    fn a_count_that_lacks_a_label_in_use_gives_way_to_one_that_has_it() {
        let lacks = line(&[(0, 2)], &[(11, 1), (13, 2)]);
        let knows = line(&[(0, 0), (5, 7)], &[(11, 5), (12, 6), (13, 7)]);
        assert_eq!(joined(&[(&lacks, &[1]), (&knows, &[6])]).unwrap().line, knows);
    }

    #[test]
    fn v2_what_cannot_be_told_is_refused() {
        let labelled = line(&[(0, 2)], &[(11, 1), (12, 2)]);
        for (other, used, version) in [
            (line(&[(0, 1), (9, 9)], &[(11, 1)]), vec![], 9),
            (line(&[(7, 8)], &[(12, 8)]), vec![7], 7),
            (line(&[(4, 4)], &[]), vec![], 4),
        ] {
            let untold = joined(&[(&labelled, &[0]), (&other, &used)]).unwrap_err();
            assert_eq!(untold, Untold { shard: 1, by: 0, version }, "{other:?}");
        }
    }

    #[test]
    fn v2_a_label_on_another_version_is_another_count() {
        let (a, b) = (line(&[(0, 2)], &[(11, 1), (12, 2)]), line(&[(0, 2)], &[(11, 2)]));
        let common = joined(&[(&a, &[1]), (&b, &[2])]).unwrap();
        assert_eq!(common.maps, [Map::Same, Map::By(BTreeMap::from([(2, 1)]))]);
    }

    #[test]
    fn v2_an_abandoned_version_stays_one() {
        let (a, b) = (line(&[(0, 2)], &[(11, 1), (12, 2)]), line(&[(5, 6)], &[(11, 5), (12, 6)]));
        let common = joined(&[(&a, &[]), (&b, &[1, 5])]).unwrap();
        assert_eq!(common.maps[1], Map::By(BTreeMap::from([(1, 3), (5, 1), (6, 2)])));
        assert_eq!((common.line.lag(3), common.line.next), (None, 4));
    }
}
