//! A runner with its program.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{eventually, is_alive, signal};

/// `teamwire run` with a script. Killed when dropped, with what it has started.
pub(crate) struct Runner {
    name: String,
    home: PathBuf,
    log: PathBuf,
    process: Child,
}

impl Runner {
    pub(super) fn start(mut command: Command, name: &str, home: PathBuf) -> Self {
        let mut logs = (1..).map(|number| home.join(format!("run-{number}.log")));
        let log = logs.find(|log| !log.exists()).unwrap();
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { name: name.to_owned(), home, log, process: command.spawn().unwrap() }
    }

    /// Waits until it is connected, and its program started.
    #[track_caller]
    pub(crate) fn ready(self) -> Self {
        self.await_log("connected");
        self.await_log("started process");
        self
    }

    /// Waits until the runner says something of what happens.
    #[track_caller]
    pub(crate) fn await_log(&self, text: &str) {
        eventually(&format!("{}'s runner says \"{text}\"", self.name), || self.log().contains(text).then_some(()));
    }

    /// Returns what the runner has said, and the program outside of its protocol.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Returns the process id of the program that was started last.
    pub(crate) fn program(&self) -> u32 {
        let log = self.log();
        let line = log.lines().rev().find_map(|line| line.split("started process ").nth(1)).expect("a program");
        line.trim().parse().unwrap()
    }

    /// Returns the process id of its watchdog. `None` if it has none now.
    #[cfg(target_os = "linux")]
    pub(crate) fn watchdog(&self) -> Option<u32> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap().flatten();
        let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let children: Vec<u32> = lists
            .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
            .collect();
        let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        children.into_iter().find(|pid| name(*pid).trim() == "tw-watchdog" && is_alive(*pid))
    }

    /// Returns every process id that the programs of this name have made known.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let pids = fs::read_to_string(self.home.join("pids")).unwrap_or_default();
        pids.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    /// Returns the lines that programs of this name read, the oldest first.
    pub(crate) fn heard(&self) -> Vec<Value> {
        let heard = fs::read_to_string(self.home.join("heard")).unwrap_or_default();
        // The last one may be half written.
        heard.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until a program of this name read a certain line.
    #[track_caller]
    pub(crate) fn await_heard(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{} hears {what}", self.name);
        eventually(&what, || self.heard().into_iter().find(|line| is_it(line)))
    }

    /// Waits until a program of this name read a message with this content.
    #[track_caller]
    pub(crate) fn await_text(&self, content: &str) -> Value {
        self.await_heard(content, |line| line["content"] == content)
    }

    /// Waits for the runner's end and returns its exit code; -1 for a signal.
    #[track_caller]
    pub(crate) fn exit(mut self) -> i32 {
        let what = format!("{}'s runner ends", self.name);
        let status = eventually(&what, || self.process.try_wait().unwrap());
        status.code().unwrap_or(-1)
    }

    /// Sends the runner a signal.
    pub(crate) fn signal(&self, which: Signal) {
        signal(self.process.id(), which);
    }

    /// Ends runner and program on the spot, as a machine that fails, and waits until both are gone.
    pub(crate) fn kill(mut self) {
        let program = self.program();
        self.process.kill().unwrap();
        signal(program, Signal::SIGKILL);
        self.process.wait().unwrap();
        eventually("the program of a killed runner is gone", || (!is_alive(program)).then_some(()));
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- log of {}'s runner ---\n{}", self.name, self.log());
        }
        // What it has started is found by the mark of its world.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
