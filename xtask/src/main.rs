//! What a developer or CI runs; `cargo xtask help` lists it.
//!
//! Each command is a list of steps: other programs, run one after the other from the root of the repository, until one
//! fails. A step that fails says what to do next.
//!
//! Architecture invariant: nothing but the standard library, so that the first command in a fresh clone starts at once.

mod buf;
mod charts;
mod clients;
mod containers;
mod docs;
mod faketime;
mod fuzz;
mod generate;
mod network;
mod redis;
mod step;

use std::{env, process::ExitCode};

use step::{Failure, Step};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test   Run every test but those in containers, those against a real Redis and a real Valkey included. The servers are those that
         TEAMWIRE_REDIS_SERVER and TEAMWIRE_TEST_VALKEY name, or redis-server and valkey-server in PATH, or what apt-get
         installs when this runs as root. Root also tests over networks of its own, made with ip (iproute2), which is
         installed likewise. The clients of languages that are there are tested, too: python3, node with npm, go, javac
         with mvn.
  generate
         Make the code of the clients in other languages anew, out of proto/. Needs Go, Node.js, Python and Maven.
  released
         Keep the protocol as it is now as the state that it must stay compatible with: when a version is released.
  clients
         Check that the clients' generated code is that of proto/, then build, check and test the clients of all
         languages.
  charts Check the Helm charts and the manifests in deploy/, and play what they render on this machine. Needs Go
         1.26 and Python 3.11. Builds teamwire, unless TEAMWIRE_TEST_BINARY names one.
  manifests
         Render the manifests in deploy/ from the charts anew.
  faults [--fault NAME|mix|all] [--seconds N | --minutes N] [--seed N] [--store embedded|redis] [--markdown FILE]
         Break coordinators, stores, networks, clocks and members while they work, and check what was promised;
         docs/testing.md explains it. What sets clocks (libfaketime) is installed likewise, where that is asked for.
  simulate [--seed N] [--seeds N]
         Play coordinators, members and their network on simulated time, from the seed N, or N seeds
         from a random one (20) or from --seed. It names a seed that fails; the same seed is the same play again. docs/testing.md says more.
  fuzz [--seconds N] [TARGET]
         Fuzz what parses what others send: each target of fuzz/ for N seconds (60), or one. Installs a nightly compiler
         and cargo-fuzz, where they are missing. docs/testing.md says more.
  lint   Check formatting, the protocol's files (buf, installed by npm) and the code (clippy).
  containers
         Build the images and test them, and deploy/compose.yaml, in real containers: on the Docker daemon that is there;
         where none is, root on Debian installs one and starts it for this command only. Takes some ten minutes.
  ci     Run lint, check the generated code and the charts, then test with CI=true: what every change must pass.
  help   Show this.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args_os().skip(1).map(|argument| argument.to_string_lossy().into()).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["test"] => test(false),
        ["generate"] => generate::run().and_then(|()| docs::generate()),
        ["released"] => buf::keep_as_released(),
        ["clients"] => clients(),
        ["charts"] => charts::check(),
        ["fuzz", ref rest @ ..] => fuzz::run(rest),
        ["manifests"] => charts::write(),
        ["faults", ref options @ ..] => faults(options),
        ["simulate", ref options @ ..] => simulate(options),
        ["lint"] => lint(),
        ["containers"] => containers::test(),
        ["ci"] => ci(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(Failure::new(
            format!("there is no command `{}`", arguments.join(" ")),
            "`cargo xtask help` lists the commands",
        )),
    };
    outcome.map_or_else(
        |failure| {
            eprintln!("{failure}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn ci() -> Result<(), Failure> {
    lint()?;
    generate::check()?;
    charts::check()?;
    faults(&["--seconds", "30"])?;
    test(true)
}

/// Breaks things.
fn faults(options: &[&str]) -> Result<(), Failure> {
    let redis = redis::SERVERS[0].find()?;
    let sets_clocks = options.iter().any(|option| *option == "all" || option.contains("clock-"));
    let faketime = if sets_clocks { Some(faketime::find()?) } else { None };
    let both = ["--locked", "--package", "teamwire", "--package", "teamwire-chaos"];
    // Whatever builds teamwire next builds it without the places to die at.
    Step::cargo(&[&["build"], &both[..], &["--bins", "--features", "teamwire/failpoints"]].concat()).run()?;
    let run = ["run", "--quiet", "--locked", "--package", "teamwire-chaos", "--", "run"];
    let step = Step::cargo(&[&run[..], options].concat());
    let step = faketime.into_iter().fold(step, |step, library| step.env(faketime::VARIABLE, library));
    step.env(redis::SERVERS[0].variable, redis)
        .advice("repeat it with the --seed that it names; `teamwire-chaos check DIR` looks at what it has kept")
        .run()
}

/// Plays on simulated time.
fn simulate(options: &[&str]) -> Result<(), Failure> {
    let run = ["run", "--quiet", "--locked", "--package", "teamwire-simulation", "--"];
    Step::cargo(&[&run[..], options].concat())
        .advice(
            "`cargo xtask simulate --seed N` plays one seed again; with RUST_LOG=teamwire_server=debug it tells more",
        )
        .run()
}

/// Runs all tests. Prints nothing after the test runner's own summary.
fn test(ci: bool) -> Result<(), Failure> {
    let mut servers = Vec::new();
    for server in redis::SERVERS {
        let path = server.find()?;
        eprintln!("xtask: testing against {}", path.display());
        servers.push((server.variable, path));
    }
    network::prepare()?;
    let ready = clients::prepare(ci)?;
    let run = |arguments: &[&str]| {
        let step = Step::cargo(arguments).advice("`cargo test --package PACKAGE NAME` runs one test again");
        let step = servers.iter().fold(step, |step, (variable, path)| step.env(variable, path));
        let step = step.env(clients::READY, &ready);
        if ci { step.env("CI", "true") } else { step }.run()
    };
    // No test is of its package, so that no run of tests builds it.
    run(&["build", "--locked", "--package", "teamwire-actor"])?;
    // First, so that the last line of all is that of tests that were run. Nextest would leave them out, too.
    run(&["test", "--workspace", "--locked", "--doc"])?;
    if Step::cargo(&["nextest", "--version"]).succeeds() {
        run(&["nextest", "run", "--workspace", "--locked"])
    } else {
        run(&["test", "--workspace", "--locked", "--lib", "--bins", "--tests"])
    }
}

/// Checks and tests the clients in other languages, all of them.
fn clients() -> Result<(), Failure> {
    generate::check()?;
    let ready = clients::prepare(true)?;
    Step::cargo(&["build", "--locked", "--package", "teamwire-actor"]).run()?;
    Step::cargo(&["test", "--locked", "--test", "e2e", "--", "clients::"]).env(clients::READY, ready).run()
}

/// Checks all that a program can check about how things are written, the quickest first.
fn lint() -> Result<(), Failure> {
    Step::cargo(&["fmt", "--all", "--check"])
        .advice("`cargo fmt --all` puts it right; `rustup component add rustfmt` installs a missing rustfmt")
        .run()?;
    buf::lint()?;
    Step::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
        .advice("put right what it names; `rustup component add clippy` installs a missing clippy")
        .run()
}
