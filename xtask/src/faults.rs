//! Runs a team while faults strike, in real processes or on simulated time.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use crate::{
    build, faketime, redis,
    step::{Failure, Step, root},
};

/// Names the program that has Porcupine judge histories.
pub(crate) const LINEARIZABILITY: &str = "TEAMWIRE_TEST_LINEARIZABILITY";

/// Tests and builds the program that has Porcupine judge histories, once.
pub(crate) fn linearizability() -> Result<PathBuf, Failure> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = &*built {
        return Ok(program.clone());
    }
    let program = root().join("target/tools/linearizability");
    let (source, advice) = (root().join("tests/linearizability"), "it needs Go 1.26 or newer");
    let source = source.to_string_lossy();
    Step::new("go", &["-C", &source, "test", "."]).advice(advice).run()?;
    Step::new("go", &["-C", &source, "build", "-o", &program.to_string_lossy()]).advice(advice).run()?;
    Ok(built.insert(program).clone())
}

/// Breaks coordinators, stores, networks, clocks and members, and checks the promises. `options` go to `teamwire-chaos run`.
pub(crate) fn inject(options: &[&str]) -> Result<(), Failure> {
    let redis = redis::SERVERS[0].find()?;
    let sets_clocks = options.iter().any(|option| *option == "all" || option.contains("clock-"));
    let faketime = if sets_clocks { Some(faketime::find()?) } else { None };
    build::workspace()?;
    let step = Step::new(build::program("teamwire-chaos"), &[&["run"], options].concat());
    let step = faketime.into_iter().fold(step, |step, library| step.env(faketime::VARIABLE, library));
    step.env(redis::SERVERS[0].variable, redis)
        .env(LINEARIZABILITY, linearizability()?)
        .advice("repeat it with the --seed that it names; `teamwire-chaos check DIR/history` checks the run again")
        .run()
}

/// Plays teams on simulated time. `options` go to `teamwire-simulation`.
pub(crate) fn simulate(options: &[&str]) -> Result<(), Failure> {
    build::workspace()?;
    Step::new(build::program("teamwire-simulation"), options)
        .advice("`cargo xtask simulate --seed N` replays a seed; RUST_LOG=teamwire_server=debug shows more of it")
        .run()
}
