//! Writes lines to a program's standard input, a line at a time.

use std::{future::pending, mem};

use bytes::BytesMut;
use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, process::ChildStdin};

#[cfg(target_os = "linux")]
use nix::fcntl::{FcntlArg, fcntl};

use super::input_lines::{InputLine, line};

/// How much the pipe to a program takes: the least that the kernel allows, as a rule.
#[cfg(target_os = "linux")]
const PIPE_BYTES: i32 = 4_096;

/// What became of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The pipe took the line of this message.
    Message(String),
    /// The pipe took another line.
    Other,
    /// The program has closed its input; the line is dropped, and so is every later one.
    Closed,
}

/// The input of a program: the line that is being written, and one reply behind it.
///
/// Everything waits in the value itself, so that [`Input::write`] can be cancelled at any time.
#[derive(Debug)]
pub(crate) struct Input {
    /// `None` if the program reads no more.
    stdin: Option<ChildStdin>,
    unwritten: BytesMut,
    message_id: String,
    reply: Option<String>,
}

impl Input {
    /// Creates an input whose first line is `first`.
    ///
    /// What is in the pipe is ahead of a shutdown request, so the pipe takes only a few lines that the program has not read.
    pub(crate) fn new(stdin: Option<ChildStdin>, first: String) -> Self {
        #[cfg(target_os = "linux")]
        if let Some(stdin) = &stdin
            && let Err(error) = fcntl(stdin, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES))
        {
            tracing::debug!(%error, "the program's input keeps its size");
        }
        Self { stdin, unwritten: BytesMut::from(first.as_bytes()), message_id: String::new(), reply: None }
    }

    /// Returns whether the program reads on and no line is ahead of the next one.
    pub(crate) fn accepts_line(&self) -> bool {
        self.stdin.is_some() && self.unwritten.is_empty() && self.reply.is_none()
    }

    /// Starts a line. Call it only when [`Input::accepts_line`] says so.
    pub(crate) fn write_line(&mut self, line: InputLine) {
        self.unwritten.extend_from_slice(line.text.as_bytes());
        self.message_id = line.message_id;
    }

    /// Puts a reply next in line. Dropped if the program reads no more.
    pub(crate) fn reply(&mut self, reply: &Value) {
        if self.stdin.is_some() {
            self.reply.get_or_insert_default().push_str(&line(reply));
        }
    }

    /// Returns whether a reply waits behind the line that is being written.
    pub(crate) fn has_reply(&self) -> bool {
        self.reply.is_some()
    }

    /// Starts the reply that waits if nothing is being written.
    pub(crate) fn advance(&mut self) {
        if self.unwritten.is_empty()
            && let Some(reply) = self.reply.take()
        {
            self.unwritten.extend_from_slice(reply.as_bytes());
        }
    }

    /// Writes the line that was started, and waits forever if there is none. Cancel-safe.
    pub(crate) async fn write(&mut self) -> Written {
        while !self.unwritten.is_empty() {
            let Some(stdin) = &mut self.stdin else { return self.close() };
            match stdin.write_buf(&mut self.unwritten).await {
                Ok(written) if written > 0 => {}
                Ok(_) => return self.close(),
                Err(error) => {
                    tracing::debug!(%error, "the program reads no more");
                    return self.close();
                }
            }
            if self.unwritten.is_empty() {
                let message_id = mem::take(&mut self.message_id);
                return if message_id.is_empty() { Written::Other } else { Written::Message(message_id) };
            }
        }
        pending().await
    }

    /// Closes the input, so that the program reads its end. What is unwritten is dropped.
    pub(crate) fn close(&mut self) -> Written {
        self.stdin = None;
        self.unwritten.clear();
        self.reply = None;
        Written::Closed
    }
}
