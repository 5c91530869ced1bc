use rand::{RngExt, SeedableRng};
#[test]
fn random_ops() {
    let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let first: u64 = std::env::var("FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    for seed in first..first + n {
        let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
        let len = rng.random_range(50..1500);
        let bytes: Vec<u8> = (0..len).map(|_| rng.random()).collect();
        let r = std::panic::catch_unwind(|| rollstore_testkit::fuzz::ops(&bytes));
        if r.is_err() { panic!("seed {seed}"); }
    }
}
