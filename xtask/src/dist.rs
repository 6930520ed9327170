//! Makes a release: programs, packages and their sums. docs/releasing.md describes it.
//!
//! The work is done by `xtask/dist/dist.py`, with the Python packages that are pinned beside it, and by
//! cargo-cyclonedx, which cargo builds in the version below.

use std::path::PathBuf;

use crate::{
    charts,
    install::venv,
    step::{Failure, Step, root},
};

/// The version of cargo-cyclonedx.
const CYCLONEDX: &str = "0.5.9";

/// Makes a release, as the options say.
pub(crate) fn make(options: &[&str]) -> Result<(), Failure> {
    // Only a whole release has bills of materials.
    if options.contains(&"--quick") || options.contains(&"--only-program") {
        return script(options)?.run();
    }
    let cyclonedx = cyclonedx()?;
    script(options)?.env("CYCLONEDX", cyclonedx).run()
}

/// Makes a release and installs it, and then packs a build for tests twice, which must make the same bytes.
pub(crate) fn check() -> Result<(), Failure> {
    make(&["--verify"])?;
    let teamwire = charts::teamwire()?;
    let teamwire = teamwire.to_string_lossy();
    script(&["--quick", "--check-reproducible", "--stand-ins", "--binary", &teamwire])?.run()
}

/// Returns the script with all that it needs except cargo-cyclonedx.
fn script(options: &[&str]) -> Result<Step, Failure> {
    let python = venv("xtask/dist/requirements.txt", "target/tools/dist")?.join("python");
    // -B: no compiled files beside the sources.
    Ok(Step::new(python, &[&["-B", "xtask/dist/dist.py"], options].concat()).advice("fix what it names"))
}

/// Returns the directory of cargo-cyclonedx. Builds it unless this version was built before.
fn cyclonedx() -> Result<PathBuf, Failure> {
    let directory = root().join(format!("target/tools/cargo-cyclonedx-{CYCLONEDX}"));
    let programs = directory.join("bin");
    if !programs.join("cargo-cyclonedx").exists() {
        let root = directory.to_string_lossy();
        let arguments = ["install", "cargo-cyclonedx", "--version", CYCLONEDX, "--locked", "--quiet", "--root", &root];
        Step::cargo(&arguments).advice("it needs the network, and takes some minutes the first time").run()?;
    }
    Ok(programs)
}
