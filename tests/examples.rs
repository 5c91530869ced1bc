//! Goal: the programs in `examples/` run and show what their headers say. Method: each is run as a user would run it, and
//! its output is read. `cargo test` builds them; with a filter on the test target, build them first:
//! `cargo build --examples`.

use std::path::PathBuf;
use std::process::Command;

/// The lines that an example prints, with trailing blanks cut off.
fn lines_of(example: &str) -> Vec<String> {
    // A test program lies in `deps`, beside which cargo puts `examples`.
    let this = std::env::current_exe().unwrap();
    let profile: PathBuf = this.ancestors().nth(2).unwrap().into();
    let program = profile.join("examples").join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "{} is not built: run `cargo build --examples`", program.display());
    let output = Command::new(program).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{example} ended with {}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn a_killed_trainer_ends_with_the_totals_of_an_uninterrupted_one() {
    let lines = lines_of("train_loop");
    let [whole, killed @ .., resumed] = lines.as_slice() else { panic!("{lines:?}") };
    let totals = whole.strip_prefix("uninterrupted: ").unwrap();
    assert_eq!(resumed.strip_prefix("resumed:       "), Some(totals));
    assert!(totals.starts_with("160 inserted, 144 computed, loss "), "{totals}");
    assert_eq!(killed.len(), 3);
    assert!(killed.iter().all(|line| line.starts_with("killed at step ")), "{killed:?}");
}

#[test]
fn lazily_only_what_is_used_is_computed() {
    let expected = [
        "1000 rollouts inserted, 0 stale",
        "advance: 1 record written, 1000 stale",
        "forward pass over 10 rollouts, 40 tokens",
        "10 served again from the store",
        "1000 retired, 990 never used, 10 computed in all",
    ];
    assert_eq!(lines_of("lazy"), expected);
}

#[test]
fn a_budget_turns_the_spike_into_a_plateau() {
    let lines = lines_of("budget");
    let [fixed, budgeted] = [0, 40].map(|first| &lines[first..first + 40]);
    assert_eq!(fixed[0], "static schedule, every 8 steps: 1024 rows computed, worst step 256");
    assert_eq!(budgeted[0], "rollstore, at most 40 a step: 1016 rows computed, worst step 40");
    assert_eq!(fixed[8], format!("   8  256 {}", "#".repeat(64)));
    assert_eq!(fixed[9], "   9    0");
    let first_round: Vec<&str> = budgeted[8..16].iter().map(|line| line[5..9].trim()).collect();
    assert_eq!(
        first_round,
        ["40", "40", "40", "40", "40", "40", "16", "0"],
        "all are computed before the next advance"
    );
}
