//! What a command has said.

use std::process::ExitStatus;

use serde_json::Value;

/// What a command has said, and how it ended.
pub(crate) struct Output {
    what: String,
    /// The exit code; -1 for one that a signal ended.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Output {
    pub(super) fn new(what: String, status: ExitStatus, stdout: String, stderr: String) -> Self {
        Self { what, code: status.code().unwrap_or(-1), stdout, stderr }
    }

    /// Asserts that it ended well.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        self.exits(0)
    }

    /// Asserts how it ended.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}{}", self.what, self.stdout, self.stderr);
        self
    }

    /// Asserts that its standard error names something.
    #[track_caller]
    pub(crate) fn complains_of(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{}: nothing of \"{text}\" in: {}", self.what, self.stderr);
        self
    }

    /// Asserts that its standard output contains something.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{}: nothing of \"{text}\" in: {}", self.what, self.stdout);
        self
    }

    /// Returns its standard output, one object of JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, self.stdout))
    }

    /// Returns its standard output, one object of JSON a line.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// Asserts that it failed. Returns the error that it printed as JSON.
    #[track_caller]
    pub(crate) fn exits_with_error(self) -> Value {
        assert_ne!(self.code, 0, "{}\n{}{}", self.what, self.stdout, self.stderr);
        self.error()
    }

    /// Returns the error that it printed as JSON.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let said: Value = serde_json::from_str(&self.stderr)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, self.stderr));
        said["error"].clone()
    }
}
