//! Fuzzes the parsers of untrusted input: runs the targets of `fuzz/` one after the other, and installs what they need.

use std::fs;

use crate::step::{Failure, Step, root};

/// How long each target runs by default, in seconds.
const SECONDS_DEFAULT: &str = "60";

/// The time limit for one input, in seconds.
const TIMEOUT: &str = "-timeout=25";

/// The memory limit for one input, in MiB.
const MEMORY_MAX: &str = "-rss_limit_mb=2048";

/// Runs one target or all. `arguments`: `[--seconds N] [TARGET]`.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failure> {
    let (seconds, named) = match *arguments {
        ["--seconds", seconds] => (seconds, None),
        ["--seconds", seconds, target] => (seconds, Some(target)),
        [target] => (SECONDS_DEFAULT, Some(target)),
        [] => (SECONDS_DEFAULT, None),
        _ => return Err(usage(format!("`{}` is not understood", arguments.join(" ")))),
    };
    if seconds.parse::<u32>().is_err() {
        return Err(usage(format!("`{seconds}` is not a number of seconds")));
    }
    let targets = targets()?;
    if let Some(unknown) = named.filter(|named| !targets.iter().any(|target| target == named)) {
        return Err(usage(format!("there is no target `{unknown}`; there are {}", targets.join(", "))));
    }
    install()?;
    let most = format!("-max_total_time={seconds}");
    for target in targets.iter().filter(|target| named.is_none_or(|named| named == *target)) {
        eprintln!("xtask: fuzzing {target} for {seconds} s");
        // libFuzzer writes new inputs into the first directory, which is not committed, and only reads the second.
        let found = root().join("fuzz/target/found").join(target);
        fs::create_dir_all(&found).map_err(|error| Failure::io(&found, &error))?;
        let (found, kept) = (found.to_string_lossy(), format!("fuzz/corpus/{target}"));
        // Without a sanitizer: there is no unsafe code for it to watch, and it would take most of the time.
        let fuzz = ["fuzz", "run", "--sanitizer", "none", target, &found, &kept, "--", &most, TIMEOUT, MEMORY_MAX];
        nightly(&fuzz).advice("it names the failing input; docs/testing.md says what to do with it").run()?;
    }
    Ok(())
}

fn usage(what: String) -> Failure {
    Failure::new(what, "cargo xtask fuzz [--seconds N] [TARGET]")
}

/// Returns the names of all targets.
fn targets() -> Result<Vec<String>, Failure> {
    let directory = root().join("fuzz/fuzz_targets");
    let failed =
        |error| Failure::new(format!("{}: {error}", directory.display()), "run this in a clone of the repository");
    let mut targets = Vec::new();
    for file in fs::read_dir(&directory).map_err(failed)? {
        let name = file.map_err(failed)?.file_name();
        targets.extend(name.to_string_lossy().strip_suffix(".rs").map(ToOwned::to_owned));
    }
    targets.sort();
    Ok(targets)
}

/// Installs a nightly compiler and cargo-fuzz if they are missing.
fn install() -> Result<(), Failure> {
    if !nightly(&["--version"]).succeeds() {
        Step::new("rustup", &["toolchain", "install", "nightly", "--profile", "minimal"])
            .advice("libFuzzer needs a nightly compiler; rustup.rs installs rustup")
            .run()?;
    }
    if !nightly(&["fuzz", "--version"]).succeeds() {
        nightly(&["install", "cargo-fuzz", "--locked", "--version", "^0.13"]).run()?;
    }
    Ok(())
}

/// Creates a step that runs the nightly cargo, whichever toolchain runs this program.
fn nightly(arguments: &[&str]) -> Step {
    Step::new("rustup", &[&["run", "nightly", "cargo"], arguments].concat())
}
