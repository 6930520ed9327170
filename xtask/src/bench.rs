//! Checks that the benchmark runs. How fast anything is can't be checked here: other programs are running.

use crate::{
    build, charts, redis,
    step::{Failure, Step},
};

/// What is measured: between them, these scenarios use every load loop, every kind of process except the peers, and Redis.
const SCENARIOS: [&str; 4] = ["send", "latency", "idle", "drain"];

/// Measures a little with builds for tests.
pub(crate) fn check() -> Result<(), Failure> {
    let redis = redis::SERVERS[0].find()?;
    let teamwire = charts::teamwire()?;
    Step::new(
        build::program("teamwire-bench"),
        &[&["--quick", "--teamwire", &teamwire.to_string_lossy()], &SCENARIOS[..]].concat(),
    )
    .env(redis::SERVERS[0].variable, redis)
    .advice("name the scenario that failed: `target/debug/teamwire-bench --quick --teamwire PATH SCENARIO`")
    .run()
}
