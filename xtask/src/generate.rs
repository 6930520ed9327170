//! Generates the clients' code from the protocol: stubs with buf (`buf.gen.yaml`), for Python with grpcio-tools, and small
//! files with the policy of refusals and calls (`proto/examples/client_policies.rs`).
//!
//! The output is committed, so that using a client takes none of these tools.

use std::{env, fs, path::PathBuf};

use crate::{
    buf,
    step::{Failure, Step, changed, root},
};

/// Directories that hold nothing but generated code.
const DIRECTORIES: [&str; 4] = [
    "client/python/src/teamwire/v1",
    "client/typescript/src/gen",
    "client/go/teamwire",
    "client/java/src/generated/java",
];

/// Generated files that lie among others.
const FILES: [&str; 4] = [
    "docs/protocol.md",
    "client/python/src/teamwire/_policy.py",
    "client/go/policy.go",
    "client/java/src/main/java/io/teamwire/Policy.java",
];

/// The protocol's files, without their extension.
const PROTOS: [&str; 7] = ["history", "message", "options", "reason", "request", "task", "team"];

const PROTOC: &str = "com.google.protobuf:protoc:4.33.1";
const PROTOC_GEN_GRPC_JAVA: &str = "io.grpc:protoc-gen-grpc-java:1.76.0";

/// Generates everything.
pub(crate) fn run() -> Result<(), Failure> {
    let buf = buf::install()?;
    npm("client/typescript")?;
    maven_tool(PROTOC, "protoc")?;
    maven_tool(PROTOC_GEN_GRPC_JAVA, "protoc-gen-grpc-java")?;
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
    Step::new(&python, &arguments).env("PATH", path).run()?;
    Step::new("cargo", &["run", "--quiet", "--package", "teamwire-proto", "--example", "client_policies", "--", "."])
        .advice("put right what the compiler names in proto/")
        .run()
}

/// Generates everything, and fails where the result differs from what is committed.
pub(crate) fn check() -> Result<(), Failure> {
    run()?;
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

/// Installs what a `package-lock.json` pins, where it is not there.
pub(crate) fn npm(directory: &str) -> Result<(), Failure> {
    let lock = root().join(directory).join("package-lock.json");
    // npm writes the second file when it is done.
    let done = root().join(directory).join("node_modules/.package-lock.json");
    if changed(&lock) <= changed(&done) {
        return Ok(());
    }
    Step::new("npm", &["ci", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund"])
        .advice("npm comes with Node.js 20 or newer (Debian and Ubuntu: `sudo apt-get install npm`)")
        .run()
}

/// Installs the tools that make Python's code into an environment of their own, and returns its interpreter.
fn python() -> Result<PathBuf, Failure> {
    venv("client/python/requirements-generate.txt", "target/tools/python")
}

/// Makes a Python environment with what a file of requirements pins, where it is not there, and returns its interpreter.
pub(crate) fn venv(requirements: &str, directory: &str) -> Result<PathBuf, Failure> {
    let python = root().join(directory).join("bin/python");
    let done = root().join(directory).join("done");
    if changed(&root().join(requirements)) <= changed(&done) {
        return Ok(python);
    }
    let advice = "it needs Python 3.10 or newer with venv (Debian and Ubuntu: `sudo apt-get install python3-venv`)";
    Step::new("python3", &["-m", "venv", "--clear", directory]).advice(advice).run()?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", requirements];
    Step::new(&python, &install).advice(advice).run()?;
    fs::write(&done, "").map_err(|error| Failure::new(format!("{}: {error}", done.display()), "make room"))?;
    Ok(python)
}

/// Fetches a program that is published with Maven, for this machine, where it is not there.
fn maven_tool(artifact: &str, name: &str) -> Result<(), Failure> {
    let tools = root().join("target/tools");
    let tool = tools.join(name);
    let version = tools.join(format!("{name}.version"));
    if tool.exists() && fs::read_to_string(&version).is_ok_and(|there| there == artifact) {
        return Ok(());
    }
    let os = if cfg!(target_os = "macos") { "osx" } else { "linux" };
    let arch = if cfg!(target_arch = "aarch64") { "aarch_64" } else { "x86_64" };
    let fetched = tools.join("fetched");
    let arguments = [
        "--quiet",
        "--batch-mode",
        "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
        &format!("-Dartifact={artifact}:exe:{os}-{arch}"),
        &format!("-DoutputDirectory={}", fetched.display()),
        "-Dmdep.stripVersion=true",
    ];
    Step::new("mvn", &arguments)
        .advice("it needs Maven 3.8 or newer and Java 17 (Debian and Ubuntu: `sudo apt-get install maven`)")
        .run()?;
    let failed = |error: std::io::Error| Failure::new(format!("{name} cannot be kept: {error}"), "make room");
    fs::rename(fetched.join(format!("{name}-{os}-{arch}.exe")), &tool).map_err(failed)?;
    #[cfg(unix)]
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).map_err(failed)?;
    fs::write(&version, artifact).map_err(failed)
}
