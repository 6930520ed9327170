//! What is too slow for every change.

use crate::{
    agents, bench, containers, dist, faults, fuzz, kubernetes, lint, macos,
    parts::Parts,
    site,
    step::{Failure, beside},
    test,
};

/// A part: its name at the command line, and what it does.
type Part = (&'static str, fn() -> Result<(), Failure>);

/// Every part.
const PARTS: [Part; 17] = [
    ("stores", test::on_both_stores),
    ("agents", || agents::test(&[])),
    ("faults", faults),
    ("hostile", || faults::inject_release(&["--fault", "hostile", "--seconds", "10"])),
    ("simulation", simulation),
    ("stories", test::new_stories),
    ("kills", test::kills),
    ("work", test::large_work),
    ("mcp", test::mcp_over_http),
    ("fuzzing", || fuzz::run(&["--seconds", "30"])),
    ("benchmark", bench::check),
    ("kubernetes", kubernetes::test),
    ("containers", containers::test),
    ("packages", dist::check),
    ("macos", macos::check),
    ("site", site::build),
    ("advisories", lint::advisories),
];

/// Runs the parts with these names, or all. A part that fails does not keep the next ones from running.
pub(crate) fn run(names: &[&str]) -> Result<(), Failure> {
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|(part, _)| part != *name)) {
        let known = PARTS.map(|(part, _)| part).join(", ");
        return Err(Failure::new(
            format!("there is no part `{unknown}`; there are {known}"),
            "name some of them, or none",
        ));
    }
    let parts = Parts::new(true);
    let mut failed = Vec::new();
    for (name, part) in PARTS.into_iter().filter(|(part, _)| names.is_empty() || names.contains(part)) {
        if parts.run(name, part).is_err() {
            failed.push(name);
        }
    }
    // Prints what ran, before the failure.
    drop(parts);
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("failed: {}", failed.join(" ")), "`cargo xtask nightly PART...` repeats parts"))
}

/// Plays teams on simulated time, small ones and a fleet of hosts.
fn simulation() -> Result<(), Failure> {
    faults::simulate(&["--seeds", "50"])?;
    faults::simulate(&["--fleet", "--seeds", "4"])
}

/// Runs mixes of faults, and then each fault that no one causes on purpose. On both stores at the same time: such runs
/// mostly wait.
fn faults() -> Result<(), Failure> {
    let on = |store: &str| {
        for (fault, seconds) in [("mix", "120"), ("mix-hosts", "120"), ("failures", "20")] {
            faults::inject(&["--fault", fault, "--seconds", seconds, "--store", store])?;
        }
        Ok(())
    };
    beside(|| on("embedded"), || on("redis"))
}
