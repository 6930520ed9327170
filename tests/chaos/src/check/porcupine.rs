//! A second opinion: gives a history to the program in `tests/linearizability`, which has Porcupine judge it.

use std::{env, io, path::Path, process::Command};

use super::{PROMISES, Violation};

/// The environment variable that names the program. `cargo xtask` builds it, and sets this.
pub const VARIABLE: &str = "TEAMWIRE_TEST_LINEARIZABILITY";

/// Returns the violations that Porcupine finds in the history in a directory, and its summary. `None` if no program is
/// named.
pub fn judge(directory: &Path) -> io::Result<Option<(Vec<Violation>, String)>> {
    let Some(program) = env::var_os(VARIABLE) else { return Ok(None) };
    let output = Command::new(program).arg(directory).output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = || io::Error::other(format!("{printed}{}", String::from_utf8_lossy(&output.stderr)));
    let summary = printed.lines().last().ok_or_else(failed)?.to_owned();
    match output.status.code() {
        Some(0) => return Ok(Some((Vec::new(), summary))),
        Some(1) => {}
        _ => return Err(failed()),
    }
    let mut violations: Vec<Violation> = Vec::new();
    for line in printed.lines().take_while(|line| **line != summary) {
        if let Some((promise, detail)) = line.strip_prefix("BROKEN: ").and_then(|broken| broken.split_once(": ")) {
            let spec = PROMISES.iter().find(|spec| format!("{:?}", spec.promise) == promise).ok_or_else(failed)?;
            violations.push(Violation { promise: spec.promise, detail: format!("Porcupine: {detail}") });
        } else if let Some(last) = violations.last_mut() {
            last.detail += &format!("\n{line}");
        }
    }
    Ok(Some((violations, summary)))
}
