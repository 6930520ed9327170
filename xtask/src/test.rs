//! Runs the tests, of the workspace and of the clients in other languages.

use std::{
    env,
    ffi::OsString,
    path::PathBuf,
    thread::available_parallelism,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    agents, build, clients, console, faults, generate,
    install::{npm, venv},
    network, redis,
    step::{Failure, Step},
};

/// The environment variable that, set to `both`, runs every end-to-end scenario on both stores.
const STORES: &str = "TEAMWIRE_TEST_STORES";

/// How many tests run at a time for each processor. Most of the time goes into tests that wait for processes.
const THREADS_PER_PROCESSOR: usize = 2;

/// What the tests need, found or installed.
pub(crate) struct Tests {
    nextest: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    ci: bool,
}

impl Tests {
    /// Finds or installs what the tests need. Checks the clients and the console, which some of the tests run.
    ///
    /// `ci`: a client whose language is missing fails, and so does a test that would skip itself. The agent programs
    /// that CI must test are installed.
    pub(crate) fn prepare(ci: bool) -> Result<Self, Failure> {
        let nextest = venv("xtask/test/requirements.txt", "target/tools/test")?.join("cargo-nextest");
        let mut environment = Vec::new();
        for server in redis::SERVERS {
            let path = server.find()?;
            eprintln!("xtask: testing against {}", path.display());
            environment.push((server.variable, path.into()));
        }
        network::prepare()?;
        environment.push((clients::READY, clients::prepare(ci)?.into()));
        let mcp_python = venv("tests/e2e/mcp/requirements.txt", "target/tools/mcp")?.join("python");
        environment.push(("TEAMWIRE_TEST_MCP_PYTHON", mcp_python.into()));
        environment.extend(faults::linearizability(ci)?.map(|program| (faults::LINEARIZABILITY, program.into())));
        environment.push((agents::VARIABLE, agents::prepare(ci)?));
        environment.extend(console::prepare(ci)?.map(|(variable, path)| (variable, path.into())));
        if ci {
            environment.push(("CI", "true".into()));
        }
        Ok(Self { nextest, environment, ci })
    }

    /// Runs every test but those in containers. Prints nothing after the test runner's own summary.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        build::workspace()?;
        // First, because nextest leaves them out, and the last line printed should be the summary of the other tests.
        self.step(build::cargo("test", &["--doc"])).run()?;
        self.nextest(&["--lib", "--bins", "--tests"])
    }

    /// Runs the tests that nextest selects by these options. `.config/nextest.toml` says how.
    fn nextest(&self, selection: &[&str]) -> Result<(), Failure> {
        let threads = available_parallelism().map_or(1, |processors| processors.get() * THREADS_PER_PROCESSOR);
        let run = [&["nextest", "run"], &build::ALL[..], selection].concat();
        let step = self.step(Step::new(&self.nextest, &run).without_variables_of_this_package());
        let threads = env::var_os("NEXTEST_TEST_THREADS").unwrap_or_else(|| threads.to_string().into());
        step.env("NEXTEST_TEST_THREADS", threads).run()
    }

    fn step(&self, step: Step) -> Step {
        // The services that run CI set CI everywhere. Only the commands that check everything forbid tests to skip.
        let step = if self.ci { step } else { step.without("CI") };
        let step = self.environment.iter().fold(step, |step, (variable, value)| step.env(variable, value));
        step.advice("`cargo test --package PACKAGE NAME` runs one test again")
    }
}

/// Runs every test but those in containers.
pub(crate) fn run() -> Result<(), Failure> {
    Tests::prepare(false)?.run()
}

/// Runs every end-to-end scenario on both stores.
pub(crate) fn on_both_stores() -> Result<(), Failure> {
    let mut tests = Tests::prepare(true)?;
    tests.environment.push((STORES, "both".into()));
    // The scenarios run programs of other packages, which nextest does not build for them.
    build::workspace()?;
    tests.nextest(&["--test", "e2e"])
}

/// How many stories each of the tests of the rules tells that were not told before.
const STORIES: &str = "40";

/// Tells stories from a seed that no run had before. The check always tells the same ones.
pub(crate) fn new_stories() -> Result<(), Failure> {
    let mut tests = Tests::prepare(true)?;
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    eprintln!("xtask: the stories begin with TEAMWIRE_SEED={seed}");
    tests.environment.extend([("TEAMWIRE_SEED", seed.to_string().into()), ("PROPTEST_CASES", STORIES.into())]);
    tests.nextest(&["--test", "rules", "stories"])
}

/// How often `cargo xtask nightly` kills each command that sets something up.
const KILLS: &str = "300";

/// How many messages wait in an inbox while a coordinator is killed. docs/proof.md shows a run of the release build with more.
const QUEUED: &str = "10000";

/// Kills commands that set something up, at random moments, and checks that the next one accepts what they leave.
pub(crate) fn kills() -> Result<(), Failure> {
    let mut tests = Tests::prepare(true)?;
    tests.environment.extend([("TEAMWIRE_TEST_KILLS", KILLS.into()), ("TEAMWIRE_TEST_QUEUED", QUEUED.into())]);
    tests.nextest(&["--test", "e2e", "kills::", "--profile", "long"])
}

/// Merges the work of many members, and keeps work in a repository of many files.
pub(crate) fn large_work() -> Result<(), Failure> {
    let mut tests = Tests::prepare(true)?;
    tests.environment.push(("TEAMWIRE_TEST_WORK", "large".into()));
    tests.nextest(&["--test", "e2e", "work::work_in_a_repository", "work_hosts::", "--profile", "long", "--no-capture"])
}

/// Has both official MCP clients lead a team over HTTP across many restarts.
pub(crate) fn mcp_over_http() -> Result<(), Failure> {
    let mut tests = Tests::prepare(true)?;
    npm("tests/e2e/mcp")?;
    tests.environment.push(("TEAMWIRE_TEST_MCP_NODE", "installed".into()));
    tests.environment.push(("TEAMWIRE_TEST_RESTARTS", "10".into()));
    tests.nextest(&["--test", "e2e", "mcp::http::", "--profile", "long", "--no-capture"])
}

/// Checks the generated code, then builds, checks and tests the clients of all languages.
pub(crate) fn clients() -> Result<(), Failure> {
    generate::stubs()?;
    generate::check_after_stubs()?;
    let ready = clients::prepare(true)?;
    build::cargo("test", &["--test", "e2e", "--", "clients::"]).env(clients::READY, ready).run()
}
