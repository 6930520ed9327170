//! Runs seeds through the program, as a developer does: every promise is kept, a seed is reproducible, and planted bugs
//! are found.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Runs consecutive seeds with further arguments. Returns whether every promise was kept, and the output.
fn simulate(first: u64, seeds: u64, more: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_teamwire-simulation"));
    command.args(["--seed", &first.to_string(), "--seeds", &seeds.to_string()]).args(more).env_remove("RUST_LOG");
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// Asserts that at least one of eight seeds finds a bug. The first of them finds it, as long as nothing changes.
fn assert_found(first: u64, bug: &str, promise: &str) {
    let mut all = String::new();
    for seed in first..first + 8 {
        let (is_kept, printed) = simulate(seed, 1, &["--bug", bug]);
        if !is_kept && printed.contains(&format!("BROKEN: {promise}: ")) {
            return;
        }
        all += &printed;
    }
    panic!("{bug} is not found: {all}");
}

#[test]
fn every_promise_is_kept_and_a_seed_is_reproducible() {
    // `cargo xtask nightly simulation` plays more.
    let (is_kept, printed) = simulate(1, 2, &[]);
    assert!(is_kept, "{printed}");
    let (_, again) = simulate(2, 1, &[]);
    let line = |printed: &str, seed: &str| printed.lines().find(|line| line.starts_with(seed)).unwrap().to_owned();
    assert_eq!(line(&printed, "seed 2: "), line(&again, "seed 2: "));
    let fingerprint =
        |line: String| line.split("fingerprint ").nth(1).and_then(|rest| rest.get(..16)).unwrap().to_owned();
    assert_ne!(fingerprint(line(&printed, "seed 1: ")), fingerprint(line(&printed, "seed 2: ")), "{printed}");
}

#[test]
fn orders_to_a_fleet_of_hosts_are_kept() {
    let (is_kept, printed) = simulate(1, 1, &["--fleet"]);
    assert!(is_kept, "{printed}");
}

#[test]
fn a_trimmed_inbox_is_found() {
    assert_found(3, "trimmed-inbox", "NothingLost");
}

#[test]
fn ignored_idempotency_keys_are_found() {
    assert_found(3, "no-idempotency", "NothingDuplicated");
}

#[test]
fn a_swapped_inbox_entry_is_found() {
    assert_found(4, "swapped-entries", "NothingInvented");
}

#[test]
fn a_missing_session_fence_is_found() {
    assert_found(12, "no-fence", "Fenced");
}

#[test]
fn unchecked_claims_are_found() {
    assert_found(5, "no-claim-check", "Claims");
}
