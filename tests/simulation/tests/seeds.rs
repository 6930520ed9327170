//! Plays seeds as whoever develops does: by the program. Every promise is kept in each; a seed is always the same play; and
//! bugs that are planted are found.

#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Plays so many seeds from the first one, with more arguments. Returns whether all was kept, and what was printed.
fn play(first: u64, seeds: u64, more: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_teamwire-simulation"));
    command.args(["--seed", &first.to_string(), "--seeds", &seeds.to_string()]).args(more).env_remove("RUST_LOG");
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// A bug that nothing finds in some seeds is not found.
fn is_found(bug: &str, promise: &str) {
    let mut all = String::new();
    for first in (1..=8).step_by(2) {
        let (is_kept, printed) = play(first, 2, &["--bug", bug]);
        if !is_kept && printed.contains(&format!("NOT KEPT: {promise}: ")) {
            return;
        }
        all += &printed;
    }
    panic!("{bug} is not found: {all}");
}

#[test]
fn every_promise_is_kept_in_every_seed() {
    let (is_kept, printed) = play(1, 16, &[]);
    assert!(is_kept, "{printed}");
}

#[test]
fn a_seed_is_always_the_same_play() {
    let (first, second) = (play(1_001, 2, &[]).1, play(1_001, 2, &[]).1);
    let sorted = |printed: &str| {
        let mut lines: Vec<_> = printed.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&first), sorted(&second));
    let fingerprints: Vec<_> = sorted(&first)
        .iter()
        .filter_map(|line| line.split("fingerprint ").nth(1)?.get(..16).map(str::to_owned))
        .collect();
    assert!(fingerprints.len() == 2 && fingerprints[0] != fingerprints[1], "{first}");
}

#[test]
fn a_trimmed_inbox_is_found() {
    is_found("trimmed-inbox", "NothingLost");
}

#[test]
fn forgotten_idempotency_keys_are_found() {
    is_found("no-idempotency", "NothingDoubled");
}

#[test]
fn an_entry_in_the_place_of_another_is_found() {
    is_found("swapped-entries", "NothingInvented");
}

#[test]
fn a_fence_that_is_gone_is_found() {
    is_found("no-fence", "Fenced");
}

#[test]
fn claims_that_are_not_checked_are_found() {
    is_found("no-claim-check", "Claims");
}
