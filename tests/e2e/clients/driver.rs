//! A program in one of the languages that does what it is told; `tests/conformance/README.md` is its protocol.

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

use crate::world::{PATIENCE, TEAMWIRE, World, eventually};

/// An driver that runs. Killed when dropped.
pub(super) struct Driver {
    name: String,
    process: Child,
    /// None: it was told that nothing more comes.
    stdin: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Driver {
    /// Starts the driver of a language, in the place of a member of a world.
    pub(super) fn start(
        world: &World,
        name: &str,
        identity: &str,
        language: &str,
        environment: &BTreeMap<String, String>,
    ) -> Self {
        let mut command = world.program(identity, &path(language));
        command.envs(environment);
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

    /// Has it carry a command out. If it cannot take it, that is seen from its answer.
    pub(super) fn tell(&mut self, command: &Value) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{command}").and_then(|()| stdin.flush());
        }
    }

    /// Waits for its answer to the oldest command that it has not answered.
    pub(super) fn answer(&self) -> Value {
        let gone = |what: &str| json!({ "failed": format!("{} {what}", self.name) });
        match self.answers.recv_timeout(PATIENCE * 2) {
            Ok(line) => serde_json::from_str(&line).unwrap_or_else(|_| gone(&format!("says: {line}"))),
            Err(error) => gone(&format!("does not answer: {error}")),
        }
    }

    /// Lets it end, and returns its exit code.
    pub(super) fn exit(&mut self) -> Option<i32> {
        self.stdin = None;
        let what = format!("{} ends when nothing more comes", self.name);
        eventually(&what, || self.process.try_wait().unwrap()).code()
    }

    /// Ends it on the spot.
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

/// Returns where the driver of a language is. Rust's is built beside the binary under test.
pub(super) fn path(language: &str) -> PathBuf {
    match language {
        "rust" => Path::new(TEAMWIRE).with_file_name("teamwire-conformance-driver"),
        _ => Path::new(env!("CARGO_MANIFEST_DIR")).join("client").join(language).join("conformance"),
    }
}
