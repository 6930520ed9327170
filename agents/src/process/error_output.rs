//! The error output of a program: passed on, and its last lines kept for the report of its exit.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

/// How many bytes of a line are kept and passed on together.
const LINE_BYTES_MAX: u64 = 8 * 1024;

/// How many characters of the last lines are kept: what the detail of an exit report may have.
const CHARS_MAX: usize = 200;

/// How long to wait for the end of the output once every process has ended that the runner knows of.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// What separates lines in a detail, which is a single line.
const BETWEEN: &str = " / ";

/// Passes the error output of a program on, line by line.
#[derive(Debug)]
pub(super) struct ErrorOutput {
    last: Arc<Mutex<LastLines>>,
    passing: AbortOnDropHandle<()>,
}

impl ErrorOutput {
    /// Passes everything on from `from` to `to`.
    pub(super) fn pass<R, W>(from: R, to: W) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let last = Arc::<Mutex<LastLines>>::default();
        let passing = AbortOnDropHandle::new(tokio::spawn(pass(BufReader::new(from), to, Arc::clone(&last))));
        Self { last, passing }
    }

    /// Waits for the end of the output, and returns its last lines as a single one.
    pub(super) async fn finish(&mut self) -> String {
        // A process that has left the program's boundary may hold it open.
        let _ = timeout(END_PATIENCE, &mut self.passing).await;
        self.last.lock().text()
    }
}

async fn pass(mut from: impl AsyncBufRead + Unpin, mut to: impl AsyncWrite + Unpin, last: Arc<Mutex<LastLines>>) {
    let mut line = Vec::new();
    let mut continues = false;
    loop {
        line.clear();
        let read = (&mut from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
        if !read.is_ok_and(|bytes| bytes > 0) {
            return;
        }
        // A long line comes in pieces, which may end within a character. Its first piece says enough.
        if !continues {
            last.lock().push(&String::from_utf8_lossy(whole_chars(&line)));
        }
        continues = !line.ends_with(b"\n");
        // If the output is closed, the program must not notice.
        let _ = to.write_all(&line).await;
        let _ = to.flush().await;
    }
}

/// Returns bytes without a character at their end that is cut.
fn whole_chars(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// The last lines of an output, as many as fit into a detail.
#[derive(Debug, Default)]
struct LastLines {
    lines: VecDeque<String>,
    chars: usize,
}

impl LastLines {
    fn push(&mut self, line: &str) {
        let plain = strip(line);
        let line: String = plain.trim().chars().take(CHARS_MAX).collect();
        if line.is_empty() {
            return;
        }
        self.chars += size(&line);
        self.lines.push_back(line);
        while self.chars > CHARS_MAX + BETWEEN.len()
            && let Some(first) = self.lines.pop_front()
        {
            self.chars -= size(&first);
        }
    }

    fn text(&self) -> String {
        Vec::from(self.lines.clone()).join(BETWEEN)
    }
}

fn size(line: &str) -> usize {
    line.chars().count() + BETWEEN.len()
}

/// Removes the escape sequences of terminals, and every other control character.
fn strip(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.as_str().starts_with('[') => {
                // Up to and including the letter that names the sequence.
                chars.by_ref().skip(1).find(|c| ('@'..='~').contains(c));
            }
            '\t' => plain.push(' '),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn detail_of(output: &str) -> (String, Vec<u8>) {
        let (to, mut passed) = tokio::io::duplex(1024 * 1024);
        let mut errors = ErrorOutput::pass(std::io::Cursor::new(output.to_owned().into_bytes()), to);
        let detail = errors.finish().await;
        let mut bytes = Vec::new();
        passed.read_to_end(&mut bytes).await.expect("readable");
        (detail, bytes)
    }

    #[tokio::test]
    async fn everything_is_passed_on_and_the_last_lines_make_the_detail() {
        let output = "starting\n\n\u{1b}[31merror:\u{1b}[0m unknown option\n(Did you mean --debug?)";
        let (detail, passed) = detail_of(output).await;
        assert_eq!(detail, "starting / error: unknown option / (Did you mean --debug?)");
        assert_eq!(passed, output.as_bytes());
    }

    #[tokio::test]
    async fn a_detail_is_bounded() {
        let (detail, _) = detail_of(&(0..1000).map(|n| format!("line {n}\n")).collect::<String>()).await;
        assert!(detail.chars().count() <= CHARS_MAX && detail.ends_with("line 998 / line 999"), "{detail}");
        let long = "€".repeat(50_000);
        let (detail, passed) = detail_of(&long).await;
        assert_eq!(detail, "€".repeat(CHARS_MAX));
        assert_eq!(passed, long.as_bytes());
        assert_eq!(detail_of("").await.0, "");
    }
}
