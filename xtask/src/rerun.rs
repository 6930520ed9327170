//! Runs tests, and runs those that failed once more, alone.
//!
//! A test with real processes can fail because the machine was busy. A test that passes alone does not fail the run, but
//! it is reported as flaky, and more than [`FLAKY_MAX`] of them do fail it. A flaky test is a bug: mend it.

use std::{collections::BTreeSet, io::Write as _};

use crate::step::{Failure, Step};

/// How many tests may pass only when they run alone.
const FLAKY_MAX: usize = 3;

/// Runs `cargo test` with these arguments. `prepare`: sets the environment of a step.
pub(crate) fn test(arguments: &[&str], prepare: impl Fn(Step) -> Step) -> Result<(), Failure> {
    let first = prepare(Step::cargo(&[&["test", "--no-fail-fast"], arguments].concat())).run_captured()?;
    if first.is_success {
        return Ok(());
    }
    let (failed, targets) = (failed_tests(&first.stdout), failed_targets(&first.stderr));
    let failure = |what: String| Failure::new(what, "`cargo test --package PACKAGE NAME` runs one test again");
    if failed.is_empty() || targets.is_empty() || failed.len() > FLAKY_MAX {
        return Err(failure(format!("tests failed: {}", list(&failed))));
    }
    eprintln!("xtask: running alone what failed: {}", list(&failed));
    let mut failed_again = failed.clone();
    for target in targets {
        let filter: Vec<&str> = failed.iter().map(String::as_str).collect();
        // For all packages, like the first run: for one alone, cargo would build the dependencies with other features.
        let arguments =
            [&["test", "--locked", "--workspace"], &target[..], &["--", "--exact", "--test-threads=1"], &filter]
                .concat();
        let again = prepare(Step::cargo(&arguments)).run_captured()?;
        failed_again.retain(|name| !has_passed(&again.stdout, name));
    }
    if !failed_again.is_empty() {
        return Err(failure(format!("tests failed twice: {}", list(&failed_again))));
    }
    eprintln!("xtask: FLAKY, passed only alone; mend what makes them so: {}", list(&failed));
    // The last lines printed are the summary of a test run.
    let _ = std::io::stderr().flush();
    println!("test result: ok. All tests passed, {} of them only when run again alone.", failed.len());
    Ok(())
}

fn list(names: &BTreeSet<String>) -> String {
    if names.is_empty() { "see above".to_owned() } else { names.iter().cloned().collect::<Vec<_>>().join(", ") }
}

/// Returns the names in the lists of failures that test runners print.
fn failed_tests(stdout: &str) -> BTreeSet<String> {
    let failed = |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
    let listed =
        stdout.split("\nfailures:\n").flat_map(|part| part.lines().map_while(|line| line.strip_prefix("    ")));
    stdout.lines().filter_map(failed).chain(listed.map(str::to_owned)).filter(|name| !name.contains(' ')).collect()
}

/// Returns the targets that cargo names at the end, each as the arguments that select it within its package.
fn failed_targets<'a>(stderr: &'a str) -> Vec<Vec<&'a str>> {
    let target = |line: &'a str| {
        let arguments = line.trim().strip_prefix('`')?.strip_suffix('`')?;
        arguments.starts_with("-p ").then(|| arguments.split(' ').skip(2).collect())
    };
    stderr.lines().filter_map(target).collect()
}

fn has_passed(stdout: &str, name: &str) -> bool {
    stdout.lines().any(|line| line == format!("test {name} ... ok"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STDOUT: &str = "running 3 tests\ntest a::one ... ok\ntest a::two ... FAILED\ntest a::three has said much\nok\n\n\
        failures:\n\n---- a::two stdout ----\n    an indented line of its output\n\nfailures:\n    a::two\n    a::four\n\n\
        test result: FAILED. 1 passed; 1 failed\n";
    const STDERR: &str = "error: test failed, to rerun pass `-p teamwire --test e2e`\nerror: 2 targets failed:\n    \
        `-p teamwire --test e2e`\n    `-p teamwire-server --lib`\n";

    #[test]
    fn failures_are_read_from_the_output() {
        let failed: Vec<String> = failed_tests(STDOUT).into_iter().collect();
        assert_eq!(failed, ["a::four", "a::two"]);
        assert_eq!(failed_targets(STDERR), [vec!["--test", "e2e"], vec!["--lib"]]);
        assert!(has_passed(STDOUT, "a::one") && !has_passed(STDOUT, "a::two"));
    }
}
