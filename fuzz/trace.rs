//! What must hold for any bytes at all as a trace. Shared by the fuzz target and a test of the command line.

use std::io::Cursor;
use std::path::Path;

use rollstore_cli::trace::TraceReader;

/// Reads every line up to the end or an error, which names a line that is there.
pub(crate) fn trace(bytes: &[u8]) {
    let reader = TraceReader::new(Path::new("trace"), Cursor::new(bytes.to_vec()), bytes.len() as u64);
    let mut reader = reader.expect("memory can be read");
    loop {
        match reader.next_line() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => {
                let line = error.line().expect("an error of a line names it");
                assert!((1..=reader.position().lines + 1).contains(&line), "{error}: read {:?}", reader.position());
                assert!(!error.to_string().contains('\u{1b}'), "an error carries no control characters: {error}");
                return;
            }
        }
    }
    // Every line was an event: the same trace can be skipped over.
    let end = reader.position();
    let mut again = TraceReader::new(Path::new("trace"), Cursor::new(bytes.to_vec()), bytes.len() as u64);
    let again = again.as_mut().expect("memory can be read");
    again.skip_to(end).expect("the trace is the same");
}
