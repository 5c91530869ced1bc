//! In place of object storage, in a program that was built without it: URLs are known, and refused.

use std::path::Path;

use crate::args::{CheckpointArgs, CheckpointsArgs, RestoreArgs, VerifyArgs};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::Output;

/// The URL that an argument seems to be.
pub(crate) fn url(argument: &Path) -> Option<&str> {
    argument.to_str().filter(|text| text.contains("://"))
}

pub(crate) fn checkpoint(_: &CheckpointArgs, _: &str, _: &mut Output) -> Outcome<Verdict> {
    Err(absent())
}

pub(crate) fn restore(_: &RestoreArgs, _: &str) -> Outcome {
    Err(absent())
}

pub(crate) fn list(_: &CheckpointsArgs, _: &mut Output) -> Outcome<Verdict> {
    Err(absent())
}

pub(crate) fn verify(_: &VerifyArgs, _: &str, _: &mut Output) -> Outcome<Verdict> {
    Err(absent())
}

fn absent() -> Failure {
    Failure::could_not_look("this program was built without object storage; build it with the feature \"object-store\"")
}
