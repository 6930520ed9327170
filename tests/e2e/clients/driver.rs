//! Runs a conformance driver, a program in one of the languages; `tests/conformance/README.md` defines its protocol.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::{Value, json};

use teamwire_client::FRAMES_VARIABLE;

use super::{IN_FRAMES, RUST};
use crate::world::{PATIENCE, TEAMWIRE, World, eventually};

/// A running driver. Killed on drop.
pub(super) struct Driver {
    name: String,
    process: Child,
    /// `None` once it is closed.
    stdin: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Driver {
    /// Starts the driver of a language as a member of a world.
    pub(super) fn start(
        world: &World,
        name: &str,
        identity: &str,
        language: &str,
        environment: &BTreeMap<String, String>,
    ) -> Self {
        let mut command = world.program(identity, &path(language.trim_end_matches(IN_FRAMES)));
        command.envs(environment);
        if language.ends_with(IN_FRAMES) {
            command.env(FRAMES_VARIABLE, "0");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap_or_else(|error| panic!("the {language} driver: {error}"));
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (answer, answers) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if answer.send(line).is_err() {
                    return;
                }
            }
        });
        Self { name: name.to_owned(), stdin: process.stdin.take(), process, answers }
    }

    /// Sends a command. If the driver has died, [`answer`](Self::answer) reports it.
    pub(super) fn send(&mut self, command: &Value) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{command}").and_then(|()| stdin.flush());
        }
    }

    /// Waits for the answer to the oldest unanswered command.
    pub(super) fn answer(&self) -> Value {
        let gone = |what: &str| json!({ "failed": format!("{} {what}", self.name) });
        match self.answers.recv_timeout(PATIENCE * 2) {
            Ok(line) => serde_json::from_str(&line).unwrap_or_else(|_| gone(&format!("answered: {line}"))),
            Err(error) => gone(&format!("did not answer: {error}")),
        }
    }

    /// Closes its input, waits for it to exit, and returns its exit code.
    pub(super) fn exit(&mut self) -> Option<i32> {
        self.stdin = None;
        let what = format!("{} exits when its input ends", self.name);
        eventually(&what, || self.process.try_wait().unwrap()).code()
    }

    /// Kills it.
    pub(super) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the path of a language's driver. Cargo builds Rust's beside the binary under test.
pub(super) fn path(language: &str) -> PathBuf {
    match language {
        RUST => Path::new(TEAMWIRE).with_file_name("teamwire-conformance-driver"),
        _ => Path::new(env!("CARGO_MANIFEST_DIR")).join("client").join(language).join("conformance"),
    }
}
