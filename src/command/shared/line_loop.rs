//! The loop of a built-in program under `teamwire run`: it reads lines from the runner and answers them.

use std::io::{BufRead as _, Write as _};

use serde_json::Value;

use crate::failure::Failure;

/// Writes what `answers` returns for each line of JSON, until the input ends. Ignores lines that are not JSON.
pub(in crate::command) fn answer_lines(mut answers: impl FnMut(&Value) -> Vec<Value>) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = serde_json::from_str::<Value>(&line?) else { continue };
        for answer in answers(&line) {
            writeln!(out, "{answer}")?;
        }
        out.flush()?;
    }
    Ok(())
}
