//! Every short sequence of operations, cut at every operation of the disk, leaves what the contract allows (D1, D2, D3,
//! D8, D9).
//!
//! Method: all sequences of up to two operations, and a sample of those of three, on a small prepared store on a simulated
//! disk; the power goes at each operation that changes it; images of every style are opened and compared with the states
//! of a run without faults, which the reference model confirmed. `ROLLSTORE_TEST_SCALE` multiplies images and sample; a
//! failure prints the command that repeats it.

use std::env;
use std::panic;
use std::process::{Command, Output};
use std::slice;

use rollstore_testkit::crash::small::{Sequence, Small, Word};
use rollstore_testkit::settings::scale;

const TEST: &str = "small_workloads_leave_what_the_contract_allows";

fn small() -> Small {
    Small::new(&format!("--test small_workloads {TEST}"), 2).goes_on_every(16).within_every(64)
}

#[test]
fn small_workloads_leave_what_the_contract_allows() {
    let small = small();
    if let Some(sequence) = Sequence::wanted() {
        println!("{sequence}: {:?}", small.sweep(slice::from_ref(&sequence)));
        return;
    }
    let mut sequences = Sequence::all_of(1);
    sequences.extend(Sequence::all_of(2));
    sequences.extend(Sequence::sample(Sequence::all_of(3), 100 * scale()));
    let swept = small.sweep(&sequences);
    println!("{} sequences: {swept:?}", sequences.len());
    assert!(swept.distinct >= 20_000, "{swept:?}");
    assert!(swept.within_recovery >= 5_000, "{swept:?}");
}

/// Runs the sweep in a process of its own.
fn again(settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", TEST, "--nocapture"]).envs(settings.iter().copied()).output().unwrap()
}

#[test]
fn a_violation_names_the_command_that_repeats_it_alone() {
    let hasty = Sequence::new(&[Word::Batch, Word::Hasty]);
    let cause = panic::catch_unwind(|| small().sweep(&[hasty])).unwrap_err();
    let message = cause.downcast_ref::<String>().expect("a message");
    let (what, rest) = message.split_once("\nagain: ").unwrap_or_else(|| panic!("no command in: {message}"));
    let (settings, test) = rest.lines().next().unwrap().split_once(" cargo test ").unwrap();
    let mut settings: Vec<_> = settings.split(' ').map(|setting| setting.split_once('=').unwrap()).collect();
    assert!(settings.contains(&("ROLLSTORE_TEST_SEQUENCE", "batch,hasty")), "{message}");
    assert_eq!(test, format!("-p rollstore --test small_workloads {TEST}"));

    let repeated = again(&settings);
    let said = String::from_utf8_lossy(&repeated.stderr);
    assert!(!repeated.status.success() && said.contains(what) && said.contains(rest), "not repeated: {said}");
    // With another image of the same point nothing is wrong: it is this one alone that is looked at.
    settings.retain(|(name, _)| *name != "ROLLSTORE_TEST_IMAGE");
    settings.push(("ROLLSTORE_TEST_IMAGE", "1000"));
    let other = again(&settings);
    assert!(other.status.success(), "{}", String::from_utf8_lossy(&other.stderr));
    assert!(String::from_utf8_lossy(&other.stdout).contains("points: 1, images: 0"), "{other:?}");
}
