//! Long runs of random operations with faults, power cuts, and power cuts within the recovery of those, agree with the
//! reference model (D1, D2, D3, D8, D9, D11).
//!
//! Method: 2,000 runs that follow from the seed; after each operation and each recovery the whole state is compared.
//! `ROLLSTORE_TEST_SCALE` multiplies the runs; a failure prints the command that repeats its run alone.

use std::panic;

use rollstore_testkit::cores;
use rollstore_testkit::fuzz::ops::{Ran, long_run};
use rollstore_testkit::settings::{point, random, scale, seed};

/// Operations of one run.
const STEPS: u64 = 80;

fn run(case: u64) -> Ran {
    panic::catch_unwind(|| long_run(random(seed(), case), STEPS)).unwrap_or_else(|cause| {
        let test = "--test long_runs long_runs_agree_with_the_model";
        eprintln!("again: ROLLSTORE_TEST_SEED={} ROLLSTORE_TEST_POINT={case} cargo test -p rollstore {test}", seed());
        panic::resume_unwind(cause)
    })
}

#[test]
fn long_runs_agree_with_the_model() {
    if let Some(case) = point() {
        println!("{:?}", run(case));
        return;
    }
    let cases = 2_000 * scale();
    let ran = cores::share(cases, run);
    let crashes: u64 = ran.iter().map(|ran| ran.crashes).sum();
    let within_recovery: u64 = ran.iter().map(|ran| ran.within_recovery).sum();
    println!("{cases} runs, {crashes} power cuts, {within_recovery} of them within a recovery");
    assert!(within_recovery >= cases, "{within_recovery} of {crashes} power cuts");
}
