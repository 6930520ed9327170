//! Checks everything that a program can check without running the product.

use std::path::PathBuf;

use crate::{
    buf, build,
    install::{go, venv},
    prose,
    step::{Failure, Step},
};

/// The version of actionlint.
const ACTIONLINT: &str = "v1.7.12";

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

/// Checks what needs no compiler: the protocol's files, the dependencies, the workflows and the prose.
pub(crate) fn files() -> Result<(), Failure> {
    buf::lint()?;
    dependencies()?;
    workflows()?;
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

/// Checks all dependencies for known vulnerabilities and yanked versions. Needs the RustSec database from GitHub.
pub(crate) fn advisories() -> Result<(), Failure> {
    Step::new(tool("cargo-deny")?, &["--locked", "--workspace", "check", "advisories"])
        .advice("update the dependency (`cargo update --package NAME`)")
        .run()
}

/// Checks the workflows in .github: that GitHub can read them (actionlint), and that they give away nothing (zizmor).
/// Runs zizmor's checks that need no network; .github/workflows/zizmor.yml runs all.
fn workflows() -> Result<(), Failure> {
    // Without shellcheck and pyflakes, which would check more where they happen to be installed.
    Step::new(go("github.com/rhysd/actionlint/cmd/actionlint", ACTIONLINT)?, &["-shellcheck=", "-pyflakes="])
        .advice("fix what it names in .github/workflows")
        .run()?;
    let audit = ["--offline", "--persona=pedantic", "--strict-collection", "--no-progress", "--quiet", ".github"];
    Step::new(tool("zizmor")?, &audit).advice("fix what it names in .github; each finding links to its remedy").run()
}

/// Returns the path of a tool that `xtask/lint/requirements.txt` pins. They are native programs that PyPI distributes.
fn tool(name: &str) -> Result<PathBuf, Failure> {
    Ok(venv("xtask/lint/requirements.txt", "target/tools/lint")?.join(name))
}
