//! Writes the inputs that fuzzing begins with to `fuzz/corpus/`; inputs that fuzzing found stay there.

use std::fs;
use std::path::Path;

use rollstore_testkit::fuzz::{TARGETS, seeds};

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, _) in TARGETS {
        let dir = corpus.join(target);
        fs::create_dir_all(&dir)?;
        for (name, bytes) in seeds::of(target) {
            fs::write(dir.join(format!("seed-{name}")), bytes)?;
        }
    }
    Ok(())
}
