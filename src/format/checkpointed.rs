//! The note of the last checkpoint, as text that people read too: `CHECKPOINTED`.
//!
//! It proves nothing and nothing depends on it. What is not exactly such a note is none.

use std::fmt::Write as _;

/// What its first line says.
const TITLE: &str = "rollstore checkpoint 1";

/// Bytes of the longest note that is read.
pub(crate) const NOTE_BYTES_MAX: u64 = 4096;

/// What a note says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) run_uuid: [u8; 16],
    pub(crate) epoch: u64,
    /// Last LSN in the checkpoint.
    pub(crate) lsn: u64,
    /// The clock there.
    pub(crate) step: Option<u64>,
    /// Seconds since the Unix epoch.
    pub(crate) taken_at: u64,
}

impl Note {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let step = self.step.map_or_else(|| "none".to_owned(), |step| step.to_string());
        let mut text = format!(
            "{TITLE}\nrun {:032x}\nepoch {}\nlsn {}\nstep {step}\ntaken {}\n",
            u128::from_be_bytes(self.run_uuid),
            self.epoch,
            self.lsn,
            self.taken_at
        );
        let crc = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "crc32 {crc:08x}");
        text.into_bytes()
    }

    /// The note that these bytes are; `None` where they are cut, changed, or of another kind.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (body, crc) = text.strip_suffix('\n')?.rsplit_once("\ncrc32 ")?;
        let body = text.get(..body.len().checked_add(1)?)?;
        let mut lines = body.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name);
        if crc != format!("{:08x}", crc32fast::hash(body.as_bytes())) || !value(TITLE)?.is_empty() {
            return None;
        }
        let note = Self {
            run_uuid: u128::from_str_radix(value("run ")?, 16).ok()?.to_be_bytes(),
            epoch: value("epoch ")?.parse().ok()?,
            lsn: value("lsn ")?.parse().ok()?,
            step: match value("step ")? {
                "none" => None,
                step => Some(step.parse().ok()?),
            },
            taken_at: value("taken ")?.parse().ok()?,
        };
        (note.encode() == bytes).then_some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> Note {
        Note { run_uuid: [0xA5; 16], epoch: 3, lsn: 1 << 40, step: Some(100), taken_at: 1_800_000_000 }
    }

    #[test]
    fn the_text_is_that_of_the_format() {
        let text = "rollstore checkpoint 1\nrun a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\nepoch 3\nlsn 1099511627776\nstep 100\n\
                    taken 1800000000\n";
        let crc = crc32fast::hash(text.as_bytes());
        assert_eq!(String::from_utf8(note().encode()).unwrap(), format!("{text}crc32 {crc:08x}\n"));
    }

    #[test]
    fn a_note_comes_back() {
        for note in [note(), Note { step: None, epoch: u64::MAX, ..note() }] {
            assert_eq!(Note::decode(&note.encode()), Some(note));
        }
    }

    #[test]
    fn any_other_bytes_are_no_note() {
        let whole = note().encode();
        for cut in 0..whole.len() {
            assert_eq!(Note::decode(&whole[..cut]), None, "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert_eq!(Note::decode(&changed), None, "changed at {at}");
        }
        assert_eq!(Note::decode(&[whole, b"\n".to_vec()].concat()), None);
    }
}
