//! Checks everything that a program can check without running the product.

use std::path::PathBuf;

use crate::{
    buf, build,
    install::venv,
    prose,
    step::{Failure, Step},
};

/// Checks everything, the quickest first.
pub(crate) fn run() -> Result<(), Failure> {
    format()?;
    files()?;
    clippy()
}

/// Checks the formatting of the code.
pub(crate) fn format() -> Result<(), Failure> {
    let advice = "run `cargo fmt --all`, in bench/ too; `rustup component add rustfmt` installs a missing rustfmt";
    let of_all = ["fmt", "--all", "--check"];
    Step::cargo(&of_all).advice(advice).run()?;
    Step::cargo(&[&of_all[..], &["--manifest-path", "bench/Cargo.toml"]].concat()).advice(advice).run()
}

/// Checks what needs no compiler: the protocol's files, the dependencies and the prose.
pub(crate) fn files() -> Result<(), Failure> {
    buf::lint()?;
    dependencies()?;
    prose()
}

/// Checks the code.
pub(crate) fn clippy() -> Result<(), Failure> {
    build::cargo("clippy", &["--all-targets", "--", "-D", "warnings"])
        .advice("fix what it names; `rustup component add clippy` installs a missing clippy")
        .run()
}

/// Checks the spelling and the phrases. Reports both before it fails.
pub(crate) fn prose() -> Result<(), Failure> {
    let spelling = Step::new(tool("typos")?, &["--format", "brief"])
        .advice("`target/tools/lint/bin/typos --write-changes` corrects them; typos.toml lists the exceptions")
        .run();
    prose::check().and(spelling)
}

/// Checks the licenses and sources of all dependencies by `deny.toml`. Leaves out the advisories, which need GitHub.
fn dependencies() -> Result<(), Failure> {
    let deny = tool("cargo-deny")?;
    Step::new(deny, &["--locked", "--workspace", "check", "licenses", "bans", "sources"])
        .advice("replace the dependency, or allow it in deny.toml and say why")
        .run()
}

/// Returns the path of a tool that `xtask/lint/requirements.txt` pins. They are native programs that PyPI distributes.
fn tool(name: &str) -> Result<PathBuf, Failure> {
    Ok(venv("xtask/lint/requirements.txt", "target/tools/lint")?.join(name))
}
