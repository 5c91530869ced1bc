//! stub
pub(crate) fn docs(_f: Option<&std::path::Path>) -> crate::outcome::Outcome {
    Ok(())
}
