//! What stands in the place of Parquet where it was left out of the build: the same calls, which refuse.

/// What to do without it.
const LEFT_OUT: &str =
    "this build has no Parquet; take JSON Lines or safetensors, or build with the feature \"parquet\"";

pub(super) mod read {
    use super::super::file::File;
    use super::super::mark::Mark;
    use super::super::reader::Sealed;
    use super::super::row::Row;

    pub(in super::super) fn sealed(_: &File, _: u64) -> Result<Sealed, String> {
        Err(super::LEFT_OUT.to_owned())
    }

    /// There is none.
    pub(in super::super) enum Batches {}

    impl Batches {
        pub(in super::super) fn new(_: File, _: &Mark) -> Result<Self, String> {
            Err(super::LEFT_OUT.to_owned())
        }
    }

    impl Iterator for Batches {
        type Item = Result<Row, String>;

        fn next(&mut self) -> Option<Self::Item> {
            match *self {}
        }
    }
}

pub(super) mod write {
    use super::super::Dumped;
    use super::super::file::OutputFile;
    use super::super::source::Source;
    use crate::args::Compression;
    use crate::exit::{Failure, Outcome};
    use crate::text;

    pub(in super::super) fn write(_: &Source<'_>, _: Compression, to: &mut OutputFile) -> Outcome<Dumped> {
        let what = format!("could not write {}: {}", text::path(to.path()), super::LEFT_OUT);
        Err(Failure::could_not_look(what))
    }
}
