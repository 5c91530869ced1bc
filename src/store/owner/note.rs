//! The text in a lock file: who holds it, since when and, of an owner by heartbeat, its term, token and beat.
//!
//! Always true:
//! - The beat has a fixed width and stands at the end: it is counted up in place.

use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::disk::os::host_name;
use crate::limits;

/// Letters of a beat.
const BEAT_LETTERS: usize = 16;

/// What stands for the beat once the owner closed the store.
const RELEASED: &str = "released";

/// What an owner by heartbeat writes.
#[derive(Debug, Clone)]
pub(super) struct Note {
    holder: String,
    pub(super) term: u64,
    token: u64,
    pub(super) every: Duration,
    pub(super) released: bool,
}

impl Note {
    pub(super) fn new(term: u64, token: u64, every: Duration) -> Self {
        Self { holder: holder().trim().to_owned(), term, token, every, released: false }
    }

    /// Reads a lock file; `None` where no owner by heartbeat wrote it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let holder = lines.next()?.to_owned();
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        let ["term", term, "token", token, "every", every, "ms", "beat", beat, ..] = words[..] else { return None };
        Some(Self {
            holder,
            term: term.parse().ok().filter(|term| *term <= limits::TERM_MAX)?,
            token: u64::from_str_radix(token, 16).ok()?,
            every: Duration::from_millis(every.parse::<u32>().ok()?.into()),
            released: beat == RELEASED,
        })
    }

    /// The whole text, up to the first beat.
    pub(super) fn text(&self) -> String {
        self.before_beat() + &beat_text(Some(0))
    }

    /// Where the beat stands, in bytes.
    pub(super) fn beat_offset(&self) -> u64 {
        self.before_beat().len() as u64
    }

    fn before_beat(&self) -> String {
        let Self { holder, term, token, every, .. } = self;
        format!("{holder}\nterm {term} token {token:016x} every {} ms\nbeat ", every.as_millis())
    }

    /// Whether both were written by the same owner.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        (self.term, self.token) == (other.term, other.token)
    }

    /// The owner, for a message.
    pub(super) fn owner(&self) -> String {
        format!("{} (term {})", self.holder, self.term)
    }
}

/// The letters of a beat; of none once the owner closed the store.
pub(super) fn beat_text(beat: Option<u64>) -> String {
    let beat = beat.map_or_else(|| RELEASED.to_owned(), |beat| format!("{beat:0BEAT_LETTERS$}"));
    format!("{beat:<BEAT_LETTERS$}\n")
}

/// This process: `pid 4711 on node17 since 2026-11-29T18:05:03Z`.
pub(super) fn holder() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // A name of more than one word, or with letters that a terminal obeys, would make the text mean something else.
    let host: String = host_name().chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect();
    format!("pid {} on {host} since {}\n", process::id(), utc(since))
}

/// A moment as a date, from seconds since 1970.
fn utc(seconds: u64) -> String {
    let (days, seconds) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of the year 0, in eras of 400 years: the leap day is then the last of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_as_it_was_written() {
        let note = Note::new(7, 0xfeed, Duration::from_millis(1500));
        let found = Note::parse(&note.text()).unwrap();
        assert!(found.is_of(&note) && !found.released);
        assert_eq!((found.owner(), found.every), (note.owner(), note.every));
        let mut released = note.text();
        let beat = usize::try_from(note.beat_offset()).unwrap();
        assert_eq!(released.len() - beat, beat_text(None).len(), "the beat is written over in place");
        released.replace_range(beat.., &beat_text(None));
        assert!(Note::parse(&released).unwrap().released);
    }

    #[test]
    fn other_texts_are_no_notes() {
        let text = Note::new(7, 0xfeed, Duration::from_secs(2)).text();
        for cut in 0..text.len() - BEAT_LETTERS - 1 {
            assert!(Note::parse(&text[..cut]).is_none(), "{cut} bytes");
        }
        assert!(Note::parse(&holder()).is_none(), "a holder by flock");
        assert!(Note::parse(&text.replace("term 7", "term 99999999999")).is_none(), "an absurd term");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }
}
