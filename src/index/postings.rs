//! Which rollouts have which version and born step: one list for each pair of the two.
//!
//! May touch `ids`. Knows ids, versions and steps alone; the entry of a rollout remembers the rollout's place here.
//!
//! Always true:
//! - P1. A rollout stands in exactly one list, at the place that its entry remembers.
//! - P2. No list is empty, and each is found by (version, born step) and by (born step, version).
//! - P3. A selection takes or skips whole lists: it looks at no rollout that it does not return.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use crate::ids::RolloutId;

/// Below this capacity a list keeps its memory whatever its length.
const SHRINK_CAPACITY_MIN: usize = 64;

/// Where a rollout stands: which list, and which position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) list: u32,
    pub(super) position: u32,
}

/// The rollouts of one version and one born step.
#[derive(Debug)]
pub(super) struct PostingList {
    pub(super) ref_version: u64,
    pub(super) born_step: u64,
    pub(super) ids: Vec<RolloutId>,
    /// No id that the list ever held lies outside.
    hull: Hull,
    /// Whether the ids are known to ascend: they come in that way, and leave gaps that others fill.
    ascends: bool,
}

/// A range of ids, both ends within.
#[derive(Debug, Clone, Copy)]
struct Hull {
    first: RolloutId,
    last: RolloutId,
}

impl Hull {
    const EMPTY: Self = Self { first: RolloutId::new(u64::MAX), last: RolloutId::new(0) };

    fn with(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

impl PostingList {
    fn push(&mut self, id: RolloutId) {
        self.ascends &= self.ids.last().is_none_or(|last| *last < id);
        self.hull = self.hull.with(Hull { first: id, last: id });
        self.ids.push(id);
    }
}

/// All posting lists, and the two orders in which they are found.
#[derive(Debug, Default)]
pub(super) struct Postings {
    lists: Vec<PostingList>,
    free: Vec<u32>,
    by_version: BTreeMap<(u64, u64), u32>,
    by_born: BTreeMap<(u64, u64), u32>,
}

impl Postings {
    /// Bytes of memory, of the two orders about so many.
    pub(super) fn memory_bytes(&self) -> usize {
        const ORDER_ENTRY_BYTES: usize = 40;
        let ids: usize = self.lists.iter().map(|list| list.ids.capacity()).sum();
        ids * size_of::<RolloutId>()
            + self.lists.capacity() * size_of::<PostingList>()
            + (self.by_version.len() + self.by_born.len()) * ORDER_ENTRY_BYTES
    }

    /// The list of this number, which an entry holds.
    pub(super) fn list(&self, list: u32) -> &PostingList {
        &self.lists[list as usize]
    }

    /// Adds a rollout to the list of its version and born step.
    pub(super) fn add(&mut self, ref_version: u64, born_step: u64, id: RolloutId) -> Place {
        let list = match self.by_version.get(&(ref_version, born_step)) {
            Some(list) => *list,
            None => self.new_list(ref_version, born_step),
        };
        let members = &mut self.lists[list as usize];
        let position = u32::try_from(members.ids.len()).expect("a list holds at most as many ids as there are slots");
        members.push(id);
        Place { list, position }
    }

    /// Takes a rollout out of its list. Returns the rollout that stands in its place now, whose entry must learn it.
    pub(super) fn remove(&mut self, place: Place) -> Option<RolloutId> {
        let list = &mut self.lists[place.list as usize];
        list.ids.swap_remove(place.position as usize);
        let moved = list.ids.get(place.position as usize).copied();
        list.ascends &= moved.is_none();
        if list.ids.is_empty() {
            list.ids = Vec::new();
            self.by_version.remove(&(list.ref_version, list.born_step));
            self.by_born.remove(&(list.born_step, list.ref_version));
            self.free.push(place.list);
        } else if list.ids.capacity() > SHRINK_CAPACITY_MIN && list.ids.len() < list.ids.capacity() / 4 {
            // Half of the capacity stays free, so that a list that grows again does not allocate at once.
            list.ids.shrink_to(list.ids.len() * 2);
        }
        moved
    }

    /// The lists whose born step is below the bound, and those whose version satisfies the predicate, oldest born
    /// first. The predicate is asked once for each distinct version.
    pub(super) fn select(&self, born_below: Option<u64>, stale: impl Fn(u64) -> bool) -> Vec<&PostingList> {
        let bound = born_below.unwrap_or(0);
        let mut chosen: Vec<_> = self.by_born.range(..(bound, 0)).map(|(_, list)| self.list(*list)).collect();
        let by_bound = chosen.len();
        let mut from = Unbounded;
        while let Some((&(version, _), _)) = self.by_version.range((from, Unbounded)).next() {
            if stale(version) {
                let rest = self.by_version.range((version, bound)..=(version, u64::MAX));
                chosen.extend(rest.map(|(_, list)| self.list(*list)));
            }
            from = Excluded((version, u64::MAX));
        }
        // Those taken by version are all born at the bound or later: they follow those below it.
        chosen[by_bound..].sort_unstable_by_key(|list| (list.born_step, list.ref_version));
        chosen
    }

    /// The lists whose born step is above the bound, oldest born first.
    pub(super) fn born_above(&self, bound: u64) -> impl Iterator<Item = &PostingList> + Clone {
        self.by_born.range((Excluded((bound, u64::MAX)), Unbounded)).map(|(_, list)| self.list(*list))
    }

    fn new_list(&mut self, ref_version: u64, born_step: u64) -> u32 {
        let fresh = PostingList { ref_version, born_step, ids: Vec::new(), hull: Hull::EMPTY, ascends: true };
        let list = if let Some(list) = self.free.pop() {
            self.lists[list as usize] = fresh;
            list
        } else {
            self.lists.push(fresh);
            u32::try_from(self.lists.len() - 1).expect("there are at most as many lists as slots")
        };
        self.by_version.insert((ref_version, born_step), list);
        self.by_born.insert((born_step, ref_version), list);
        list
    }
}

/// The ids of lists that come oldest born first: oldest born first, then by id.
pub(super) fn in_order<'a>(lists: impl IntoIterator<Item = &'a PostingList, IntoIter: Clone>) -> Vec<RolloutId> {
    let lists = lists.into_iter();
    let mut ids: Vec<RolloutId> = Vec::with_capacity(lists.clone().map(|list| list.ids.len()).sum());
    let mut lists = lists.peekable();
    while let Some(list) = lists.next() {
        let start = ids.len();
        ids.extend_from_slice(&list.ids);
        let (mut hull, mut ascends) = (list.hull, list.ascends);
        while let Some(next) = lists.next_if(|next| next.born_step == list.born_step) {
            ids.extend_from_slice(&next.ids);
            (hull, ascends) = (hull.with(next.hull), false);
        }
        if !ascends {
            sort(&mut ids[start..], hull);
        }
    }
    ids
}

/// Sorts ids within `hull` of which each is there once. They usually lie close together: a bit for each number of the hull,
/// read in order, takes a fifth of the time of comparisons.
fn sort(ids: &mut [RolloutId], hull: Hull) {
    let (first, last) = (hull.first.get(), hull.last.get());
    match usize::try_from(last.saturating_sub(first) / u64::from(u64::BITS)) {
        Ok(words) if words < ids.len() => sort_by_bits(ids, first, words + 1),
        _ => ids.sort_unstable(),
    }
}

fn sort_by_bits(ids: &mut [RolloutId], first: u64, words: usize) {
    let mut bits = vec![0_u64; words];
    for id in &*ids {
        let at = id.get() - first;
        // Lossless: the number of words is a usize.
        bits[(at / 64) as usize] |= 1 << (at % 64);
    }
    let mut sorted = ids.iter_mut();
    for (base, mut word) in (first..).step_by(64).zip(bits) {
        while word != 0 {
            if let Some(place) = sorted.next() {
                *place = RolloutId::new(base + u64::from(word.trailing_zeros()));
            }
            word &= word - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn id(number: u64) -> RolloutId {
        RolloutId::new(number)
    }

    #[test]
    fn the_predicate_is_asked_once_a_version() {
        let mut postings = Postings::default();
        for born in 0..50 {
            postings.add(born % 3, born, id(born));
        }
        let asked = RefCell::new(Vec::new());
        let chosen = postings.select(Some(10), |version| {
            asked.borrow_mut().push(version);
            version == 1
        });
        assert_eq!(*asked.borrow(), [0, 1, 2]);
        let expected: Vec<_> = (0..50).filter(|born| *born < 10 || born % 3 == 1).map(id).collect();
        assert_eq!(in_order(chosen), expected);
    }

    #[test]
    fn ids_are_sorted_whether_they_lie_close_together_or_apart() {
        for spread in [1, 2, 63, 64, 65, 1 << 20, (u64::MAX - 7) / 300] {
            let sorted: Vec<RolloutId> = (0..300).map(|n| id(7 + n * spread)).collect();
            let mut shuffled = sorted.clone();
            shuffled.rotate_left(101);
            shuffled[..250].reverse();
            let hull = Hull { first: sorted[0], last: sorted[299] };
            sort(&mut shuffled, hull);
            assert_eq!(shuffled, sorted, "{spread} apart");
        }
    }

    #[test]
    fn an_emptied_list_is_found_no_more_and_its_number_is_used_again() {
        let mut postings = Postings::default();
        let place = postings.add(7, 3, id(1));
        assert_eq!(postings.remove(place), None);
        assert!(postings.select(Some(u64::MAX), |_| true).is_empty());
        assert_eq!(postings.add(8, 4, id(2)).list, place.list);
        assert_eq!(postings.lists.len(), 1);
    }

    #[test]
    fn the_rollout_that_fills_the_gap_is_named() {
        let mut postings = Postings::default();
        let first = postings.add(0, 0, id(1));
        let last = postings.add(0, 0, id(2));
        assert_eq!(postings.remove(first), Some(id(2)));
        assert_eq!(postings.remove(Place { position: 0, ..last }), None);
    }

    #[test]
    fn a_list_that_lost_most_of_its_ids_gives_its_memory_back() {
        let mut postings = Postings::default();
        let places: Vec<_> = (0..10_000).map(|n| postings.add(0, 0, id(n))).collect();
        for place in places.iter().skip(10).rev() {
            postings.remove(*place);
        }
        assert!(postings.list(places[0].list).ids.capacity() <= SHRINK_CAPACITY_MIN);
    }

    #[test]
    fn the_greatest_steps_and_versions_are_selected_too() {
        let mut postings = Postings::default();
        postings.add(u64::MAX, u64::MAX, id(1));
        assert!(postings.select(Some(u64::MAX), |_| false).is_empty());
        assert_eq!(in_order(postings.select(None, |version| version == u64::MAX)), [id(1)]);
        assert_eq!(in_order(postings.born_above(u64::MAX - 1)), [id(1)]);
        assert_eq!(in_order(postings.born_above(u64::MAX)), []);
    }
}
