//! Runs a team while faults strike, in real processes or on simulated time.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::{
    build, faketime,
    install::has_needs,
    redis,
    step::{Failure, Step, root},
};

/// Names the program that has Porcupine judge histories.
pub(crate) const LINEARIZABILITY: &str = "TEAMWIRE_TEST_LINEARIZABILITY";

/// Tests and builds the program that has Porcupine judge histories, once. `None` if there is no Go, which only CI must
/// have.
pub(crate) fn linearizability(ci: bool) -> Result<Option<PathBuf>, Failure> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let advice = "install Go 1.26 or newer from your distribution or go.dev";
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if built.is_none() && has_needs("Porcupine", &["go"], advice, ci)? {
        let program = root().join("target/tools/linearizability");
        let source = root().join("tests/linearizability");
        let source = source.to_string_lossy();
        Step::new("go", &["-C", &source, "test", "."]).advice(advice).run()?;
        Step::new("go", &["-C", &source, "build", "-o", &program.to_string_lossy()]).advice(advice).run()?;
        *built = Some(program);
    }
    Ok(built.clone())
}

/// Breaks coordinators, stores, networks, clocks and members, and checks the promises. `options` go to `teamwire-chaos
/// run`.
pub(crate) fn inject(options: &[&str]) -> Result<(), Failure> {
    build::workspace()?;
    run(&build::program("teamwire-chaos"), options)
}

/// Does the same to the release build, which hostile members keep busy for less long.
pub(crate) fn inject_release(options: &[&str]) -> Result<(), Failure> {
    Step::cargo(&["build", "--release", "--locked", "--package", "teamwire", "--package", "teamwire-chaos"]).run()?;
    run(&build::released("teamwire-chaos"), options)
}

fn run(chaos: &Path, options: &[&str]) -> Result<(), Failure> {
    let redis = redis::SERVERS[0].find()?;
    let sets_clocks = options.iter().any(|option| matches!(*option, "all" | "failures") || option.contains("clock-"));
    let faketime = if sets_clocks { Some(faketime::find()?) } else { None };
    let step = Step::new(chaos, &[&["run"], options].concat());
    let step = faketime.into_iter().fold(step, |step, library| step.env(faketime::VARIABLE, library));
    let step = linearizability(false)?.into_iter().fold(step, |step, program| step.env(LINEARIZABILITY, program));
    step.env(redis::SERVERS[0].variable, redis)
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
