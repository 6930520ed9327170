//! Type-checks the programs and their tests for macOS, on Debian.
//!
//! Rust compiles for macOS anywhere, but crates that contain C need a C compiler with Apple's headers, and rustup's
//! builds of the standard library may be out of reach. So root makes a small Debian below `target/tools`, with a
//! compiler that comes with the sources of its standard library, and zig, which has those headers. It takes 4 GB.

use std::fs;

use crate::{
    install::{apt_install, in_path, may_install},
    step::{Failure, Step, root},
};

/// Where the Debian is.
const DEBIAN: &str = "target/tools/macos";

/// What the Debian consists of, besides its packages.
const REQUIREMENTS: &str = "xtask/macos/requirements.txt";

const TARGETS: [&str; 2] = ["aarch64-apple-darwin", "x86_64-apple-darwin"];

/// What a Mac builds to run the tests.
const CHECK: [&str; 5] = ["check", "--locked", "--workspace", "--all-features", "--all-targets"];

const ADVICE: &str = "this needs root on Debian or Ubuntu; remove target/tools/macos to start again";

/// Checks both targets. Takes half an hour the first time.
pub(crate) fn check() -> Result<(), Failure> {
    install()?;
    TARGETS.into_iter().try_for_each(|target| cargo(target, &CHECK))
}

/// Runs cargo for a target. Its mounts end with it.
fn cargo(target: &str, arguments: &[&str]) -> Result<(), Failure> {
    let run = ["--mount", "sh", "xtask/macos/run.sh", DEBIAN, target];
    Step::new("unshare", &[&run[..], arguments].concat())
        .without_variables_of_this_package()
        .advice("make it compile on macOS, or limit it with #[cfg(target_os = \"linux\")]")
        .run()
}

/// Makes the Debian unless it is there.
fn install() -> Result<(), Failure> {
    let read = |file: &str| fs::read_to_string(root().join(file)).ok();
    if read(&format!("{DEBIAN}/done")).is_some() && read(&format!("{DEBIAN}/requirements.txt")) == read(REQUIREMENTS) {
        return Ok(());
    }
    if !may_install() {
        return Err(Failure::new("the check for macOS makes a Debian in a directory", ADVICE));
    }
    if in_path("debootstrap").is_none() {
        apt_install(&["debootstrap"], ADVICE)?;
    }
    Step::new("sh", &["xtask/macos/install.sh", DEBIAN, REQUIREMENTS]).advice(ADVICE).run()
}
