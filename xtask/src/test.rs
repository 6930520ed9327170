//! Runs the tests, of the workspace and of the clients in other languages.

use std::{env, thread::available_parallelism};

use crate::{
    agents, clients, console, generate,
    install::venv,
    network, redis, rerun,
    step::{Failure, Step},
};

/// The environment variable with the number of threads that run tests.
const THREADS: &str = "RUST_TEST_THREADS";

/// How many threads run tests for each processor. Most of the time goes into tests that wait for processes.
const THREADS_PER_PROCESSOR: usize = 2;

/// Runs every test but those in containers. Prints nothing after the test runner's own summary.
///
/// `ci`: a client whose language is missing fails, and so does a test that would skip itself. The agent programs that CI must
/// test are installed.
pub(crate) fn run(ci: bool) -> Result<(), Failure> {
    let mut servers = Vec::new();
    for server in redis::SERVERS {
        let path = server.find()?;
        eprintln!("xtask: testing against {}", path.display());
        servers.push((server.variable, path));
    }
    network::prepare()?;
    let ready = clients::prepare(ci)?;
    let mcp_python = venv("tests/e2e/mcp/requirements.txt", "target/tools/mcp")?.join("python");
    let agent_programs = agents::prepare(ci)?;
    let chromium = console::prepare(ci)?;
    let threads = available_parallelism().map_or(1, |processors| processors.get() * THREADS_PER_PROCESSOR);
    let prepare = |step: Step| {
        let step = servers.iter().fold(step, |step, (variable, path)| step.env(variable, path));
        let step = step.env(clients::READY, &ready).env("TEAMWIRE_TEST_MCP_PYTHON", &mcp_python);
        let step = step.env(agents::VARIABLE, &agent_programs);
        let step = chromium.iter().fold(step, |step, (variable, path)| step.env(variable, path));
        let step = if env::var_os(THREADS).is_none() { step.env(THREADS, threads.to_string()) } else { step };
        if ci { step.env("CI", "true") } else { step }
    };
    let run = |arguments: &[&str]| {
        prepare(Step::cargo(arguments).advice("`cargo test --package PACKAGE NAME` runs one test again")).run()
    };
    // The tests run this program, but it is in another package, so cargo does not build it for them.
    run(&["build", "--locked", "--package", "teamwire-conformance-driver"])?;
    // First, because nextest leaves them out, and the last line printed should be the summary of the other tests.
    run(&["test", "--workspace", "--locked", "--doc"])?;
    if Step::cargo(&["nextest", "--version"]).succeeds() {
        run(&["nextest", "run", "--workspace", "--locked"])
    } else {
        rerun::test(&["--workspace", "--locked", "--lib", "--bins", "--tests"], prepare)
    }
}

/// Checks the generated code, then builds, checks and tests the clients of all languages.
pub(crate) fn clients() -> Result<(), Failure> {
    generate::check()?;
    let ready = clients::prepare(true)?;
    Step::cargo(&["build", "--locked", "--package", "teamwire-conformance-driver"]).run()?;
    Step::cargo(&["test", "--locked", "--test", "e2e", "--", "clients::"]).env(clients::READY, ready).run()
}
