//! Checks that the benchmark compiles, passes its tests, and runs. How fast anything is can't be checked here: other
//! programs are running.
//!
//! It is a workspace by itself, so that the clients of its peers are not compiled with every change.

use crate::{
    build, charts, redis,
    step::{Failure, Step, root},
};

/// What is measured: between them, these scenarios use every load loop, every kind of process except the peers, and
/// Redis.
const SCENARIOS: [&str; 4] = ["send", "latency", "idle", "drain"];

/// Measures a little with builds for tests.
pub(crate) fn check() -> Result<(), Failure> {
    let redis = redis::SERVERS[0].find()?;
    let teamwire = charts::teamwire()?;
    for (command, arguments) in
        [("clippy", &["--all-targets", "--", "-D", "warnings"][..]), ("test", &[]), ("build", &[])]
    {
        cargo(command, arguments).run()?;
    }
    Step::new(
        build::program("teamwire-bench"),
        &[&["--quick", "--teamwire", &teamwire.to_string_lossy()], &SCENARIOS[..]].concat(),
    )
    .env(redis::SERVERS[0].variable, redis)
    .advice("name the scenario that failed: `target/debug/teamwire-bench --quick --teamwire PATH SCENARIO`")
    .run()
}

/// Creates a step that runs a command of cargo on the benchmark.
fn cargo(command: &str, arguments: &[&str]) -> Step {
    let manifest = root().join("bench/Cargo.toml");
    let target = build::target();
    let selected = [
        command,
        "--locked",
        "--manifest-path",
        &manifest.to_string_lossy(),
        "--target-dir",
        &target.to_string_lossy(),
    ];
    Step::cargo(&[&selected[..], arguments].concat()).advice("fix what it names, in bench/")
}
