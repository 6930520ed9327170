//! Checks that the benchmark runs. How fast anything is can't be checked here: other programs are running.

use crate::{
    charts, redis,
    step::{Failure, Step},
};

/// What is measured: between them, these scenarios use every load loop, every kind of process except the peers, and Redis.
const SCENARIOS: [&str; 4] = ["send", "latency", "idle", "drain"];

/// Measures a little with builds for tests.
pub(crate) fn check() -> Result<(), Failure> {
    let redis = redis::SERVERS[0].find()?;
    let teamwire = charts::teamwire()?;
    let run = ["run", "--quiet", "--locked", "--package", "teamwire-bench", "--", "--quick", "--teamwire"];
    Step::cargo(&[&run[..], &[&teamwire.to_string_lossy()], &SCENARIOS].concat())
        .env(redis::SERVERS[0].variable, redis)
        .advice(
            "name the scenario that failed: `cargo run --package teamwire-bench -- --quick --teamwire PATH SCENARIO`",
        )
        .run()
}
