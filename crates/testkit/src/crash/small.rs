//! Small workloads: short sequences of everything that a store can be asked for, each cut at every operation.
//!
//! All begin on the same prepared store, which has been closed: two sealed segments, rollouts that are fresh, stale,
//! without old logps, replaced and retired, and a checkpoint with a future behind it. A sequence is cut within its last
//! operation alone, since the shorter sequences before it were cut within theirs: over all sequences of a length and the
//! shorter ones the power goes at every operation of each.
//!
//! Always true:
//! - In a run without faults the store shows what the reference model says, after each operation. What a crash may leave
//!   is taken from there.

mod play;

use std::fmt;

use rollstore::Rewind;

use super::end::Repeat;
use super::{Run, Sweep, Swept};
use crate::cores;
use crate::settings::{self, random};
use play::Prepared;

/// One operation of a small workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// A batch of three inserts and a cursor.
    Batch,
    /// Two live rollouts end.
    Retire,
    /// What was created before the present step ends, by one record.
    RetireLine,
    /// Space is given back.
    Compact,
    /// A plan of what is due, computed and applied.
    Recompute,
    /// A new version of `π_old`.
    Advance,
    /// An insert that does not fit: the segment is sealed and another begun.
    Seal,
    /// The index is written to its file.
    FlushIndex,
    /// A checkpoint takes the place of the one before.
    Checkpoint,
    /// The store is closed, and the checkpoint brought back.
    Restore,
    /// The store is closed and opened.
    Reopen,
    /// Back by one step.
    Rewind(Rewind),
    /// A planted violation, none of [`Self::ALL`]: an advance that is acknowledged before it is made.
    Hasty,
}

impl Word {
    /// Everything that a store can be asked for.
    pub const ALL: [Self; 13] = [
        Self::Batch,
        Self::Retire,
        Self::RetireLine,
        Self::Compact,
        Self::Recompute,
        Self::Advance,
        Self::Seal,
        Self::FlushIndex,
        Self::Checkpoint,
        Self::Restore,
        Self::Reopen,
        Self::Rewind(Rewind::Keep),
        Self::Rewind(Rewind::Drop),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Retire => "retire",
            Self::RetireLine => "retire-line",
            Self::Compact => "compact",
            Self::Recompute => "recompute",
            Self::Advance => "advance",
            Self::Seal => "seal",
            Self::FlushIndex => "flush",
            Self::Checkpoint => "checkpoint",
            Self::Restore => "restore",
            Self::Reopen => "reopen",
            Self::Rewind(Rewind::Keep) => "rewind-keep",
            Self::Rewind(Rewind::Drop) => "rewind-drop",
            Self::Hasty => "hasty",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain([Self::Hasty]).find(|word| word.name() == name)
    }
}

/// Operations, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence(Vec<Word>);

impl Sequence {
    /// These operations.
    #[must_use]
    pub fn new(words: &[Word]) -> Self {
        Self(words.to_vec())
    }

    /// The sequence that [`settings::sequence`] asks for, if it does.
    ///
    /// # Panics
    /// Where a name in it is none of an operation.
    #[must_use]
    pub fn wanted() -> Option<Self> {
        let text = settings::sequence()?;
        let word =
            |name| Word::named(name).unwrap_or_else(|| panic!("ROLLSTORE_TEST_SEQUENCE={text}: what is {name:?}?"));
        Some(Self(text.split(',').map(word).collect()))
    }

    /// Every sequence of so many operations.
    #[must_use]
    pub fn all_of(len: usize) -> Vec<Self> {
        let longer = |shorter: Vec<Self>, _| {
            let with = |word| move |Self(words): &Self| Self(words.iter().copied().chain([word]).collect());
            Word::ALL.into_iter().flat_map(|word| shorter.iter().map(with(word)).collect::<Vec<_>>()).collect()
        };
        (0..len).fold(vec![Self(Vec::new())], longer)
    }

    /// So many different ones of these, chosen by [`settings::seed`]; all of them where there are no more.
    #[must_use]
    pub fn sample(mut of: Vec<Self>, count: u64) -> Vec<Self> {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(of.len());
        for place in 0..count {
            let left = (of.len() - place) as u64;
            let chosen = random(settings::seed(), place as u64) % left;
            of.swap(place, place + usize::try_from(chosen).unwrap_or(0));
        }
        of.truncate(count);
        of
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|word| word.name()).collect();
        f.write_str(&names.join(","))
    }
}

/// How small workloads are swept.
#[derive(Debug, Clone)]
pub struct Small {
    seeds: u64,
    goes_on_every: u64,
    within_every: u64,
    repeat: Repeat,
}

impl Small {
    /// Sweeps with so many images of each style that chooses, times the scale. A failure names `test`, which must look
    /// at [`Sequence::wanted`].
    #[must_use]
    pub fn new(test: &str, seeds: u64) -> Self {
        let repeat = Repeat { settings: String::new(), test: test.to_owned() };
        Self { seeds, goes_on_every: 1, within_every: 1, repeat }
    }

    /// See [`Sweep::goes_on_every`].
    #[must_use]
    pub fn goes_on_every(self, every: u64) -> Self {
        Self { goes_on_every: every, ..self }
    }

    /// See [`Sweep::within_every`].
    #[must_use]
    pub fn within_every(self, every: u64) -> Self {
        Self { within_every: every, ..self }
    }

    /// Sweeps each of the sequences, on all cores.
    ///
    /// # Panics
    /// Where a crash leaves a state that it must not.
    #[must_use]
    pub fn sweep(&self, sequences: &[Sequence]) -> Swept {
        let prepared = Prepared::new();
        let one = |place| usize::try_from(place).ok().and_then(|place| sequences.get(place));
        let sweep = |place| one(place).map(|sequence| self.sweep_one(sequence, &prepared));
        cores::share(sequences.len() as u64, sweep).into_iter().flatten().sum()
    }

    fn sweep_one(&self, sequence: &Sequence, prepared: &Prepared) -> Swept {
        let settings = format!("ROLLSTORE_TEST_SEQUENCE={sequence} ");
        let workload = |run: &mut Run| prepared.play(&sequence.0, run);
        let moves_checkpoint = |word: &Word| matches!(word, Word::Checkpoint | Word::Restore);
        let mut sweep = Sweep::of(&workload)
            .from(&prepared.disk, prepared.state.clone())
            .seeds(self.seeds)
            .goes_on_every(self.goes_on_every)
            .within_recovery(1)
            .within_every(self.within_every)
            .repeated_by(Repeat { settings, ..self.repeat.clone() });
        if sequence.0.iter().any(moves_checkpoint) {
            sweep = sweep.saving(play::SAVED, Some(prepared.saved_state.clone()));
        }
        sweep.run()
    }
}
