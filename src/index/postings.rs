//! Which rollouts have which version and born step: one list for each pair of the two.
//!
//! May touch `ids` and `hash`. Knows ids, versions and steps alone; the entry of a rollout remembers the rollout's place here.
//!
//! Always true:
//! - P1. A rollout stands in exactly one list, at the place that its entry remembers.
//! - P2. No list is empty, and each is found by its pair, by its version and by its born step.
//! - P3. A selection takes or skips whole lists: it looks at no rollout that it does not return.
//! - P4. Equal histories give equal orders: nothing here depends on addresses or on chance.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use hashbrown::HashTable;

use super::hash::mix;
use crate::ids::RolloutId;

/// Ids of a block. Whole blocks are copied, whose length the compiler knows: most lists are of one or two, and copying so
/// many bytes as a list happens to have takes several times as long.
const BLOCK_IDS: usize = 8;

type Block = [RolloutId; BLOCK_IDS];

/// What fills up the last block of a list.
const NO_ID: RolloutId = RolloutId::new(0);

/// Below this many blocks a list keeps its memory whatever its length.
const SHRINK_BLOCKS_MIN: usize = 8;

/// Where a rollout stands: which list, and which position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) list: u32,
    pub(super) position: u32,
}

/// The rollouts of one version and one born step. One cache line, which a lookup and a scan read once.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct PostingList {
    pub(super) ref_version: u64,
    pub(super) born_step: u64,
    /// As many blocks as the ids need.
    blocks: Vec<Block>,
    len: u32,
    /// Where it stands among the lists of its version, and among those of its born step.
    in_version: u32,
    in_born: u32,
}

const _: () = assert!(size_of::<PostingList>() == 64, "a list is one cache line");

impl PostingList {
    /// The number of ids.
    fn len(&self) -> usize {
        self.len as usize
    }

    /// Adds the ids to those in `ids`, which has room for a block more.
    fn copy_to(&self, ids: &mut Vec<RolloutId>) {
        let end = ids.len() + self.len();
        self.blocks.iter().for_each(|block| ids.extend_from_slice(block));
        ids.truncate(end);
    }

    /// Adds an id; gives its position.
    fn push(&mut self, id: RolloutId) -> u32 {
        let (position, blocks) = (self.len, self.blocks.len());
        if self.len() == blocks * BLOCK_IDS {
            if blocks == self.blocks.capacity() {
                // By a quarter, where a Vec would double: what stands free is most of what a list costs beside its ids.
                self.blocks.reserve_exact(blocks / 4 + 1);
            }
            self.blocks.push([NO_ID; BLOCK_IDS]);
        }
        self.blocks.as_flattened_mut()[position as usize] = id;
        self.len = position.checked_add(1).expect("a list holds at most as many ids as there are slots");
        position
    }

    /// Takes the id at a position out. Gives the one that stands there now.
    fn swap_remove(&mut self, position: u32) -> Option<RolloutId> {
        let ids = self.blocks.as_flattened_mut();
        self.len -= 1;
        let moved = ids[self.len as usize];
        ids[position as usize] = moved;
        self.blocks.truncate(self.len().div_ceil(BLOCK_IDS));
        let (blocks, capacity) = (self.blocks.len(), self.blocks.capacity());
        if capacity > SHRINK_BLOCKS_MIN && blocks < capacity / 4 {
            // Half of the capacity stays free, so that a list that grows again does not allocate at once.
            self.blocks.shrink_to(blocks * 2);
        }
        (position < self.len).then_some(moved)
    }
}

/// The numbers of the lists that have one key.
type Groups = BTreeMap<u64, Vec<u32>>;

/// All posting lists, and how they are found.
#[derive(Debug, Default)]
pub(super) struct Postings {
    lists: Vec<PostingList>,
    free: Vec<u32>,
    by_pair: HashTable<u32>,
    by_version: Groups,
    by_born: Groups,
}

/// Lists that were chosen, by the groups that they stand in: of each group those born at a step or later.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    postings: &'a Postings,
    groups: Vec<(&'a [u32], u64)>,
}

impl<'a> Selection<'a> {
    /// How many ids there are. Looks at none of them.
    pub(super) fn count(&self) -> usize {
        self.lists().map(PostingList::len).sum()
    }

    /// The ids, in no order but that of equal histories.
    pub(super) fn ids(&self) -> Vec<RolloutId> {
        // The last list is copied by whole blocks too.
        let mut ids = Vec::with_capacity(self.count() + BLOCK_IDS);
        self.lists().for_each(|list| list.copy_to(&mut ids));
        ids
    }

    /// The ids of one born step after the other, oldest first, each ascending. Looks at those that the caller takes.
    pub(super) fn in_order(self) -> impl Iterator<Item = Vec<RolloutId>> + use<'a> {
        let mut lists: Vec<_> = self.lists().collect();
        lists.sort_unstable_by_key(|list| (list.born_step, list.ref_version));
        let mut lists = lists.into_iter().peekable();
        std::iter::from_fn(move || {
            let first = lists.next()?;
            let mut ids = Vec::new();
            first.copy_to(&mut ids);
            while let Some(list) = lists.next_if(|list| list.born_step == first.born_step) {
                list.copy_to(&mut ids);
            }
            sort(&mut ids);
            Some(ids)
        })
    }

    fn lists(&self) -> impl Iterator<Item = &'a PostingList> {
        let of_group = |(lists, born_from): &(&'a [u32], u64)| {
            let (postings, born_from) = (self.postings, *born_from);
            lists.iter().map(|list| postings.list(*list)).filter(move |list| list.born_step >= born_from)
        };
        self.groups.iter().flat_map(of_group)
    }
}

impl Postings {
    /// Bytes of memory, of the groups' tree about so many.
    pub(super) fn memory_bytes(&self) -> usize {
        const GROUP_BYTES: usize = 48;
        let blocks: usize = self.lists.iter().map(|list| list.blocks.capacity()).sum();
        let groups = || self.by_version.values().chain(self.by_born.values());
        blocks * size_of::<Block>()
            + self.lists.capacity() * size_of::<PostingList>()
            + (self.free.capacity() + groups().map(Vec::capacity).sum::<usize>()) * size_of::<u32>()
            + self.by_pair.allocation_size()
            + groups().count() * GROUP_BYTES
    }

    /// The list of this number, which an entry holds.
    pub(super) fn list(&self, list: u32) -> &PostingList {
        &self.lists[list as usize]
    }

    /// Adds a rollout to the list of its version and born step.
    pub(super) fn add(&mut self, ref_version: u64, born_step: u64, id: RolloutId) -> Place {
        let is_same = |list: &u32| {
            let list = self.list(*list);
            (list.ref_version, list.born_step) == (ref_version, born_step)
        };
        let list = match self.by_pair.find(hash(ref_version, born_step), is_same) {
            Some(list) => *list,
            None => self.new_list(ref_version, born_step),
        };
        Place { list, position: self.lists[list as usize].push(id) }
    }

    /// Takes a rollout out of its list. Returns the rollout that stands in its place now, whose entry must learn it.
    pub(super) fn remove(&mut self, place: Place) -> Option<RolloutId> {
        let list = &mut self.lists[place.list as usize];
        let moved = list.swap_remove(place.position);
        if list.len == 0 {
            self.drop_list(place.list);
        }
        moved
    }

    /// The lists whose born step is below the bound, and those whose version satisfies the predicate: oldest born first
    /// those below the bound, then the others, lowest version first. The predicate is asked once for each distinct version.
    pub(super) fn select(&self, born_below: Option<u64>, stale: impl Fn(u64) -> bool) -> Selection<'_> {
        let bound = born_below.unwrap_or(0);
        let by_born = self.by_born.range(..bound).map(|(_, lists)| (&lists[..], 0));
        let by_version = self.by_version.iter().filter(|(version, _)| stale(**version));
        let groups = by_born.chain(by_version.map(|(_, lists)| (&lists[..], bound))).collect();
        Selection { postings: self, groups }
    }

    /// The lists whose born step is above the bound, oldest born first.
    pub(super) fn born_above(&self, bound: u64) -> Selection<'_> {
        let groups = self.by_born.range((Excluded(bound), Unbounded));
        Selection { postings: self, groups: groups.map(|(_, lists)| (&lists[..], 0)).collect() }
    }

    fn new_list(&mut self, ref_version: u64, born_step: u64) -> u32 {
        let list = self
            .free
            .pop()
            .unwrap_or_else(|| u32::try_from(self.lists.len()).expect("there are at most as many lists as slots"));
        let in_version = join(&mut self.by_version, ref_version, list);
        let in_born = join(&mut self.by_born, born_step, list);
        let fresh = PostingList { ref_version, born_step, blocks: Vec::new(), len: 0, in_version, in_born };
        match self.lists.get_mut(list as usize) {
            Some(freed) => *freed = fresh,
            None => self.lists.push(fresh),
        }
        let lists = &self.lists;
        let hash_of = |list: &u32| hash(lists[*list as usize].ref_version, lists[*list as usize].born_step);
        self.by_pair.insert_unique(hash(ref_version, born_step), list, hash_of);
        list
    }

    fn drop_list(&mut self, list: u32) {
        let dropped = &mut self.lists[list as usize];
        dropped.blocks = Vec::new();
        let PostingList { ref_version, born_step, in_version, in_born, .. } = *dropped;
        if let Some(moved) = leave(&mut self.by_version, ref_version, in_version) {
            self.lists[moved as usize].in_version = in_version;
        }
        if let Some(moved) = leave(&mut self.by_born, born_step, in_born) {
            self.lists[moved as usize].in_born = in_born;
        }
        if let Ok(found) = self.by_pair.find_entry(hash(ref_version, born_step), |found| *found == list) {
            found.remove();
        }
        self.free.push(list);
    }
}

fn hash(ref_version: u64, born_step: u64) -> u64 {
    mix(mix(ref_version) ^ born_step)
}

/// Puts a list into the group of a key; gives its place there.
fn join(groups: &mut Groups, key: u64, list: u32) -> u32 {
    let lists = groups.entry(key).or_default();
    lists.push(list);
    u32::try_from(lists.len() - 1).expect("there are at most as many lists as slots")
}

/// Takes the list at a place out of the group of a key. Gives the one that stands there now.
fn leave(groups: &mut Groups, key: u64, at: u32) -> Option<u32> {
    let lists = groups.get_mut(&key)?;
    lists.swap_remove(at as usize);
    let moved = lists.get(at as usize).copied();
    if lists.is_empty() {
        groups.remove(&key);
    }
    moved
}

/// Sorts ids of which each is there once. They usually lie close together: a bit for each number between the least and the
/// greatest, read in order, takes a fifth of the time of comparisons.
fn sort(ids: &mut [RolloutId]) {
    if ids.is_sorted() {
        return;
    }
    let first = ids.iter().map(|id| id.get()).min().unwrap_or_default();
    let last = ids.iter().map(|id| id.get()).max().unwrap_or_default();
    match usize::try_from((last - first) / u64::from(u64::BITS)) {
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
        assert_eq!(
            (chosen.count(), chosen.ids()),
            (expected.len(), expected.clone()),
            "each once, oldest born first here"
        );
        assert_eq!(chosen.in_order().flatten().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn ids_are_sorted_whether_they_lie_close_together_or_apart() {
        for spread in [1, 2, 63, 64, 65, 1 << 20, (u64::MAX - 7) / 300] {
            let sorted: Vec<RolloutId> = (0..300).map(|n| id(7 + n * spread)).collect();
            let mut shuffled = sorted.clone();
            shuffled.rotate_left(101);
            shuffled[..250].reverse();
            sort(&mut shuffled);
            assert_eq!(shuffled, sorted, "{spread} apart");
        }
    }

    #[test]
    fn an_emptied_list_is_found_no_more_and_its_number_is_used_again() {
        let mut postings = Postings::default();
        let place = postings.add(7, 3, id(1));
        assert_eq!(postings.remove(place), None);
        assert_eq!(postings.select(Some(u64::MAX), |_| true).count(), 0);
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
        assert!(postings.list(places[0].list).blocks.capacity() <= SHRINK_BLOCKS_MIN);
    }

    #[test]
    fn the_greatest_steps_and_versions_are_selected_too() {
        let mut postings = Postings::default();
        postings.add(u64::MAX, u64::MAX, id(1));
        assert_eq!(postings.select(Some(u64::MAX), |_| false).ids(), []);
        assert_eq!(postings.select(None, |version| version == u64::MAX).ids(), [id(1)]);
        assert_eq!(postings.born_above(u64::MAX - 1).ids(), [id(1)]);
        assert_eq!(postings.born_above(u64::MAX).ids(), []);
    }
}
