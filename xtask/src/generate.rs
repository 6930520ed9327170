//! Generates the clients' code from the protocol: stubs with buf (`buf.gen.yaml`), for Python with grpcio-tools, and
//! what no generator of stubs makes: the policy of refusals and calls, and the helpers (`proto/examples/clients`).
//!
//! The output is committed, so that using a client takes none of these tools.

use std::{env, fs, path::PathBuf};

use crate::{
    agents, buf, build,
    install::{npm, venv},
    step::{Failure, Step, root},
};

/// Directories that hold nothing but generated code.
const DIRECTORIES: [&str; 3] = ["client/python/src/teamwire/v1", "client/typescript/src/gen", "client/go/teamwire"];

/// Generated files that lie among others.
const FILES: [&str; 10] = [
    "docs/agents/tested.md",
    "docs/protocol.md",
    "client/README.md",
    "client/rust/src/helpers.rs",
    "client/python/src/teamwire/_policy.py",
    "client/python/src/teamwire/_helpers.py",
    "client/go/protocol_gen.go",
    "client/go/helpers_gen.go",
    "client/java/src/main/java/io/teamwire/Policy.java",
    "client/java/src/main/java/io/teamwire/Helpers.java",
];

/// The example of `teamwire-proto` that generates policies and helpers.
const CLIENTS: &str = "clients";

/// The protocol's files, without their extension.
const PROTOS: [&str; 17] = [
    "access",
    "activity",
    "audit",
    "backup",
    "call",
    "history",
    "host",
    "message",
    "options",
    "query",
    "reason",
    "request",
    "task",
    "team",
    "transcript",
    "watch",
    "work",
];

/// Generates everything.
pub(crate) fn run() -> Result<(), Failure> {
    agents::write_page()?;
    stubs()?;
    // Builds only this package: a change of the protocol may have broken the others, until this is done.
    let example = ["run", "--quiet", "--locked", "--package", "teamwire-proto", "--example", CLIENTS, "--", "."];
    Step::cargo(&example).advice("fix what the compiler names in proto/").run()
}

/// Generates the stubs.
pub(crate) fn stubs() -> Result<(), Failure> {
    let buf = buf::install()?;
    npm("client/typescript")?;
    let python = python()?;

    for directory in DIRECTORIES {
        let _ = fs::remove_dir_all(root().join(directory));
    }
    Step::new(buf, &["generate"]).advice("it needs Go 1.24 or newer, and network access the first time").run()?;
    let out = "client/python/src";
    fs::create_dir_all(root().join(out)).map_err(|error| Failure::new(format!("{out}: {error}"), "make room"))?;
    let files: Vec<_> = PROTOS.iter().map(|name| format!("teamwire/v1/{name}.proto")).collect();
    let outs = ["python", "grpc_python", "mypy", "mypy_grpc"].map(|kind| format!("--{kind}_out={out}"));
    let mut arguments = vec!["-m", "grpc_tools.protoc", "--proto_path=proto"];
    arguments.extend(outs.iter().chain(&files).map(String::as_str));
    // The plugins of mypy-protobuf are beside the interpreter.
    let mut path = vec![python.parent().map(PathBuf::from).unwrap_or_default()];
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path = env::join_paths(path).unwrap_or_default();
    Step::new(&python, &arguments).env("PATH", path).run()
}

/// Generates what [`stubs`] leaves out, and fails where the result differs from what is committed.
pub(crate) fn check_after_stubs() -> Result<(), Failure> {
    build::workspace()?;
    Step::new(build::program("examples").join(CLIENTS), &["."]).run()?;
    let differs = Failure::new(
        "the generated code does not match the protocol's files",
        "run `cargo xtask generate`, and commit the changes",
    );
    let mut arguments = vec!["status", "--porcelain", "--untracked-files=all", "--"];
    arguments.extend(DIRECTORIES);
    arguments.extend(FILES);
    match Step::new("git", &arguments).output() {
        Some(changes) if changes.is_empty() => Ok(()),
        Some(changes) => {
            eprintln!("{changes}");
            Err(differs)
        }
        None => Err(Failure::new("git cannot tell what has changed", "run this in a clone of the repository")),
    }
}

/// Installs the tools that make Python's code into their own environment, and returns its interpreter.
fn python() -> Result<PathBuf, Failure> {
    Ok(venv("client/python/requirements-generate.txt", "target/tools/python")?.join("python"))
}
