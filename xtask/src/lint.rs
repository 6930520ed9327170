//! Checks everything that a program can check without running the product.

use std::path::PathBuf;

use crate::{
    buf,
    install::venv,
    prose,
    step::{Failure, Step},
};

/// Checks formatting, the protocol's files, the dependencies and the code, the quickest first.
pub(crate) fn run() -> Result<(), Failure> {
    Step::cargo(&["fmt", "--all", "--check"])
        .advice("run `cargo fmt --all`; `rustup component add rustfmt` installs a missing rustfmt")
        .run()?;
    buf::lint()?;
    dependencies()?;
    Step::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
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
