//! Installs what the other commands only look for: the languages of the clients and the servers of the tests.

use crate::{
    install::{apt_install, in_path, may_install},
    step::{Failure, Step},
};

/// The packages of Debian and Ubuntu. What only the tests need, `cargo xtask test` installs.
const PACKAGES: [&str; 11] = [
    "curl",
    "default-jdk-headless",
    "gcc",
    "git",
    "golang-go",
    "jq",
    "libc6-dev",
    "maven",
    "nodejs",
    "npm",
    "python3-venv",
];

/// Installs all of it.
pub(crate) fn install() -> Result<(), Failure> {
    if may_install() {
        return apt_install(&PACKAGES, "install what it names from your distribution");
    }
    if in_path("brew").is_some() {
        let brew = |arguments: &[&str]| Step::new("brew", arguments).advice("`brew doctor` may know why").run();
        // Both formulas have programs named redis-*, so only one of the two can be linked into PATH.
        brew(&["install", "--quiet", "valkey"])?;
        brew(&["unlink", "--quiet", "valkey"])?;
        return brew(&["install", "--quiet", "redis"]);
    }
    Err(Failure::new(
        "this installs packages only as root on Debian or Ubuntu, or with Homebrew",
        "install the tools that `cargo xtask help` lists",
    ))
}
