//! The pipes of a program that reads one input and then exits.

use tokio::process::ChildStdout;

use crate::{
    incarnation::Incarnation,
    line_protocol::{
        input::Input,
        lines::{Lines, Piece},
        output_parser::OutputLine,
    },
    process::Process,
};

/// How much of a program's output is kept. The rest is passed on.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The pipes of a program that reads one input and then exits.
pub(super) struct Pipes {
    input: Input,
    /// `None` if the program has closed its output.
    pub(super) output: Option<Lines<ChildStdout>>,
    /// The lines that the program wrote.
    pub(super) kept: Vec<Vec<u8>>,
    kept_bytes: usize,
}

/// What has moved through a pipe.
pub(super) enum Moved {
    In,
    Out(Option<Piece>),
}

impl Pipes {
    pub(super) fn new(process: &mut Process, input: String) -> Self {
        let output = process.take_stdout().map(Lines::new);
        Self { input: Input::new(process.take_stdin(), input), output, kept: Vec::new(), kept_bytes: 0 }
    }

    /// Moves some input or output. Cancel-safe.
    pub(super) async fn step(&mut self, can_listen: bool) -> Moved {
        let read = async {
            match &mut self.output {
                Some(lines) => lines.next().await.unwrap_or_else(|error| {
                    tracing::debug!(%error, "cannot read the program's output");
                    None
                }),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // A program that closes its input early has read enough.
            _ = self.input.write() => Moved::In,
            piece = read, if can_listen => Moved::Out(piece),
        }
    }

    pub(super) fn apply(&mut self, moved: Moved, incarnation: &mut Incarnation<'_>) {
        match moved {
            Moved::In => drop(self.input.close()),
            // Reported while the program runs. Other lines wait for its exit code.
            Moved::Out(Some(Piece::Line(line))) if is_report(&line) => drop(incarnation.handle_line(&line)),
            Moved::Out(Some(Piece::Line(line))) if self.kept_bytes + line.len() <= OUTPUT_BYTES_MAX => {
                self.kept_bytes += line.len() + 1;
                self.kept.push(line);
            }
            Moved::Out(Some(Piece::Line(line))) => {
                incarnation.pass(&line);
                incarnation.pass(b"\n");
            }
            // The program does not read replies.
            Moved::Out(Some(Piece::Part(part))) => drop(incarnation.handle_part(&part)),
            Moved::Out(None) => self.output = None,
        }
    }

    /// Moves some input or output while the incarnation accepts nothing new. Cancel-safe.
    pub(super) async fn go_on(&mut self, incarnation: &mut Incarnation<'_>) {
        let can_listen = incarnation.can_listen();
        tokio::select! {
            _ = incarnation.finish_current() => {}
            moved = self.step(can_listen) => self.apply(moved, incarnation),
        }
    }
}

fn is_report(line: &[u8]) -> bool {
    matches!(OutputLine::parse(line), OutputLine::Activity(_) | OutputLine::Usage(_))
}
