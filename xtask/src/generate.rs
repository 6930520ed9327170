//! Makes the clients' code out of the protocol: with buf (`buf.gen.yaml`), and for Python with grpcio-tools.
//!
//! What it makes is committed, so that who uses a client needs none of these tools.

use std::{env, fs, path::PathBuf};

use crate::{
    buf,
    install::{npm, venv},
    step::{Failure, Step, root},
};

/// What holds nothing but made code, and is made anew.
const MADE: [&str; 3] = ["client/python/src/teamwire/v1", "client/typescript/src/gen", "client/go/teamwire"];

/// The protocol's files, as protoc is told them. Python's is run from the directory that its packages are in.
const PROTOS: [&str; 5] = ["history", "message", "request", "task", "team"];

/// Makes all of it.
pub(crate) fn run() -> Result<(), Failure> {
    let buf = buf::install()?;
    npm("client/typescript")?;
    let python = python()?;

    for directory in MADE {
        let _ = fs::remove_dir_all(root().join(directory));
    }
    Step::new(buf, &["generate"]).advice("it needs Go 1.24 or newer, and network access the first time").run()?;
    let out = "client/python/src";
    fs::create_dir_all(root().join(out)).map_err(|error| Failure::new(format!("{out}: {error}"), "make room"))?;
    let files: Vec<_> = PROTOS.iter().map(|name| format!("teamwire/v1/{name}.proto")).collect();
    let outs = ["python", "grpc_python", "mypy", "mypy_grpc"].map(|kind| format!("--{kind}_out={out}"));
    let mut arguments = vec!["-m", "grpc_tools.protoc", "--proto_path=proto"];
    arguments.extend(outs.iter().chain(&files).map(String::as_str));
    // The plugins of mypy-protobuf stand beside the interpreter.
    let mut path = vec![python.parent().map(PathBuf::from).unwrap_or_default()];
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path = env::join_paths(path).unwrap_or_default();
    Step::new(&python, &arguments).env("PATH", path).run()
}

/// Makes everything anew, and fails where that differs from what is committed.
pub(crate) fn check() -> Result<(), Failure> {
    run()?;
    let differs = Failure::new(
        "the generated code is not what the protocol's files make",
        "run `cargo xtask generate`, and commit what it changes",
    );
    let mut arguments = vec!["status", "--porcelain", "--untracked-files=all", "--"];
    arguments.extend(MADE);
    match Step::new("git", &arguments).output() {
        Some(changes) if changes.is_empty() => Ok(()),
        Some(changes) => {
            eprintln!("{changes}");
            Err(differs)
        }
        None => Err(Failure::new("git cannot tell what has changed", "run this in a clone of the repository")),
    }
}

/// Installs the tools that make Python's code into an environment of their own, and returns its interpreter.
fn python() -> Result<PathBuf, Failure> {
    Ok(venv("client/python/requirements-generate.txt", "target/tools/python")?.join("python"))
}
