//! The course of a replay: where it begins, one event after the other, each commit with the record of how far it came.
//!
//! May touch the store and what lies beside it. Knows nothing of what single events do: see [`super::events`].

use rollstore::{Committed, RolloutStore, WriteBatch};

use super::place::Place;
use super::progress::{End, Progress, Totals};
use super::settings::Settings;
use crate::exit::{Failure, Outcome};
use crate::text;
use crate::trace::{Event, Line, Position, Put, TraceReader};

/// A replay in progress.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    pub(super) settings: &'a Settings,
    pub(super) place: &'a Place,
    /// Absent only between a close and the next open.
    pub(super) open: Option<RolloutStore>,
    /// What the store's cursor says.
    pub(super) progress: Progress,
    /// Puts since the last commit, with the position after them: those of one generate are one batch.
    puts: Vec<PendingPut>,
    puts_end: Position,
    /// The line that is being played: errors are about it.
    pub(super) line: u64,
}

/// A put that waits for the others of its batch.
#[derive(Debug)]
pub(super) struct PendingPut {
    pub(super) line: u64,
    pub(super) step: u64,
    pub(super) put: Put,
}

impl<'a> Engine<'a> {
    /// Opens the store, new or where an earlier replay stopped, and finds out where to go on.
    pub(super) fn open(settings: &'a Settings, place: &'a Place) -> Outcome<Self> {
        let mut engine = Self {
            settings,
            place,
            open: Some(open_store(settings, place, None)?),
            progress: Progress::default(),
            puts: Vec::new(),
            puts_end: Position::default(),
            line: 0,
        };
        match engine.store()?.cursor() {
            Some(cursor) => engine.go_on(Progress::from_cursor(&cursor)?)?,
            None => engine.begin()?,
        }
        Ok(engine)
    }

    /// A store without a cursor is new: nothing beside it can belong to it.
    fn begin(&self) -> Outcome {
        if !self.store()?.is_empty() {
            let store = text::path(&self.place.store);
            return Err(Failure::could_not_look(format!("{store} holds rollouts of something other than a replay")));
        }
        if self.place.checkpoint.exists() {
            let checkpoint = text::path(&self.place.checkpoint);
            return Err(Failure::could_not_look(format!(
                "{checkpoint} is in the way: move it, or name another --store"
            )));
        }
        self.place.remove_note()
    }

    /// Goes on from the store's record, or, where a kill came between a restore and the commit after it, from the note.
    ///
    /// The store's record stands at the note's line until the restore, below it (at the checkpoint) after the restore,
    /// and beyond it once the commit after the restore was made. So the note is wanted in the second case alone; in the
    /// first the resume is done again, in the third it is over.
    fn go_on(&mut self, stored: Progress) -> Outcome {
        self.progress = stored;
        let Some(note) = self.place.read_note()? else { return Ok(()) };
        if stored.position.lines < note.lines_before {
            self.commit_record(note.then)?;
        }
        if self.progress.position.lines == note.lines_before { Ok(()) } else { self.place.remove_note() }
    }

    /// Plays the rest of the trace; `watch` is called after each event.
    pub(super) fn play(&mut self, trace: &mut TraceReader, watch: &mut dyn FnMut(&TraceReader) -> Outcome) -> Outcome {
        trace.skip_to(self.progress.position)?;
        while let Some(line) = trace.next_line()? {
            self.event(line, trace.position()).map_err(|failure| failure.at_line(trace.path(), self.line))?;
            watch(trace)?;
        }
        self.flush_puts().map_err(|failure| failure.at_line(trace.path(), self.line))
    }

    /// Records the end of the trace, closes the store and gives the result.
    pub(super) fn finish(mut self, trace: &TraceReader) -> Outcome<End> {
        if trace.position().lines == 0 {
            return Err(Failure::could_not_look(format!("{}: holds no events", text::path(trace.path()))));
        }
        if !self.progress.finished {
            let last = Progress { position: trace.position(), finished: true, ..self.progress };
            self.commit_record(last)?;
        }
        let live = count(self.store()?.len());
        self.close()?;
        Ok(End { totals: self.progress.totals, live })
    }

    fn event(&mut self, line: Line, position: Position) -> Outcome {
        let Line { number, at, event } = line;
        if let Event::Put(put) = event {
            self.line = number;
            self.puts.push(PendingPut { line: number, step: self.settings.step(at)?, put });
            self.puts_end = position;
            return Ok(());
        }
        self.flush_puts()?;
        self.line = number;
        let next = Progress { position, ..self.progress };
        match event {
            Event::Access(access) => self.access(next, self.settings.step(at)?, &access),
            Event::Version(version) => self.version(next, self.settings.step(at)?, version),
            Event::Evict(evict) => self.evict(next, &evict),
            Event::Save => self.save(next),
            Event::Crash => self.crash(next),
            Event::Resume => self.resume(next, self.settings.step_if_any(at)),
            // These change nothing: the next commit carries the position past them.
            Event::Put(_) | Event::Header | Event::Generate(_) | Event::Eval | Event::End => Ok(()),
        }
    }

    /// A handle of the open store.
    pub(super) fn store(&self) -> Outcome<RolloutStore> {
        self.open.clone().ok_or_else(|| Failure::could_not_look("the store is closed"))
    }

    /// Closes the store, if it is open.
    pub(super) fn close(&mut self) -> Outcome {
        self.open.take().map_or(Ok(()), |store| Ok(store.close()?))
    }

    /// Commits the puts that wait, as one batch.
    fn flush_puts(&mut self) -> Outcome {
        if self.puts.is_empty() {
            return Ok(());
        }
        let puts = std::mem::take(&mut self.puts);
        self.insert_all(self.puts_end, &puts)
    }

    /// Commits the batch together with the record `next`; nothing counts as done before that.
    pub(super) fn commit(&mut self, mut batch: WriteBatch<'_>, next: Progress) -> Outcome<Committed> {
        batch.cursor(&next.to_cursor()?);
        let committed = batch.commit()?;
        self.progress = next;
        Ok(committed)
    }

    /// Commits the record `next` alone.
    pub(super) fn commit_record(&mut self, next: Progress) -> Outcome {
        let store = self.store()?;
        self.commit(store.batch(), next).map(|_| ())
    }
}

/// Opens the store of a replay; `resume_step` is the step that a resuming trainer stands at.
pub(super) fn open_store(settings: &Settings, place: &Place, resume_step: Option<u64>) -> Outcome<RolloutStore> {
    // The report tells bytes and segments, which must not hang on when a thread came to give some back.
    let mut options = RolloutStore::options()
        .background_compaction(false)
        // It may be made again at any time: no space is kept for its end.
        .reserve_bytes(0)
        .window(settings.window)
        .max_version_lag(settings.lag)
        .run_identity(&settings.identity()?);
    if let Some(step) = resume_step {
        options = options.resume_step(step);
    }
    Ok(options.open(&place.store)?)
}

/// A length as a count.
pub(super) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The totals, with one of them changed.
pub(super) fn counted(progress: Progress, change: impl FnOnce(&mut Totals)) -> Progress {
    let mut next = progress;
    change(&mut next.totals);
    next
}
