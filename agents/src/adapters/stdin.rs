//! Drives one long-lived program that reads messages as lines on its standard input.

use std::{pin::pin, time::Duration};

use tokio::{
    process::ChildStdout,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    config::AckPolicy,
    exit::{End, Exit, Why},
    incarnation::{Additions, Incarnation, IncarnationEvent},
    line_protocol::{
        input::{Input, Written},
        lines::{Lines, Piece, next_piece},
    },
    process::Process,
};

/// How long to wait for the program's last lines once its shutdown is approved.
const LAST_LINES_DEADLINE: Duration = Duration::from_secs(5);

/// Runs the program through one incarnation.
pub(super) async fn run(incarnation: &mut Incarnation<'_>, ack: AckPolicy) -> End {
    let welcome = incarnation.welcome().await;
    let mut process = match incarnation.start_program(&welcome, Additions::default()).await {
        Ok(process) => process,
        Err(exit) => return End { why: Why::Exited, exit: Some(exit), ..End::default() },
    };
    let mut conversation = Conversation {
        input: Input::new(process.take_stdin(), welcome.line),
        output: process.take_stdout().map(Lines::new),
        ack,
    };
    let why = conversation.hold(incarnation, &mut process).await;
    let exit = conversation.end_program(incarnation, &mut process, &why).await;
    let last_calls_by = incarnation.begin_last_calls(&why);
    // The program's last lines are on their way to the coordinator; its approval may be among them.
    let patience = match why {
        Why::Exited | Why::Stopped => last_calls_by.saturating_duration_since(Instant::now()),
        Why::Approved | Why::Left => LAST_LINES_DEADLINE,
        Why::HandedOver | Why::IgnoredInterrupt | Why::Closed(_) | Why::Refused(_) => Duration::ZERO,
    };
    let hurry = incarnation.hurry.clone();
    let is_heard = matches!(hurry.bound(timeout(patience, conversation.drain(incarnation))).await, Some(Ok(())));
    let why = incarnation.settle(why).await;
    End { why, exit: Some(exit), is_outcome_unknown: !is_heard, ..End::default() }
}

/// The conversation between the runner and the program.
///
/// While the coordinator cannot be reached, or while the program does not read its replies, the program's output is not
/// read either, so that its messages keep their order and nothing grows without bound.
struct Conversation {
    input: Input,
    /// `None` if the program has closed its output.
    output: Option<Lines<ChildStdout>>,
    ack: AckPolicy,
}

/// One thing that the program did.
enum Exchange {
    /// It wrote something. `None` if its output has ended.
    Printed(Option<Piece>),
    /// It took a line of input, or closed its input.
    Took(Written),
}

impl Conversation {
    /// Hands messages and tasks over until there is a reason to end.
    async fn hold(&mut self, incarnation: &mut Incarnation<'_>, process: &mut Process) -> Why {
        loop {
            // One line at a time: a shutdown request overtakes every message that is not being written yet.
            if self.input.accepts_line()
                && let Some(line) = incarnation.next_line()
            {
                self.input.write_line(line);
            }
            let can_listen = incarnation.can_listen();
            tokio::select! {
                biased;
                news = incarnation.next() => match news {
                    IncarnationEvent::End(why) => return why,
                    IncarnationEvent::Reply(reply) => self.input.reply(&reply),
                    IncarnationEvent::Changed => {}
                },
                _ = process.wait() => return Why::Exited,
                exchange = self.exchange(can_listen) => self.apply(exchange, incarnation),
            }
        }
    }

    /// Ends the program, and keeps listening to it meanwhile. If the member has agreed, first closes its input.
    async fn end_program(&mut self, incarnation: &mut Incarnation<'_>, process: &mut Process, why: &Why) -> Exit {
        if why.is_agreed() {
            self.input.close();
        }
        let mut ending = pin!(incarnation.end_program(process, why, CancellationToken::new()));
        let exit = loop {
            tokio::select! {
                exit = &mut ending => break exit,
                () = self.step(incarnation) => {}
            }
        };
        incarnation.program_ended(&exit);
        exit
    }

    /// Listens until the program's output has ended and everything it said is carried out.
    async fn drain(&mut self, incarnation: &mut Incarnation<'_>) {
        while self.output.is_some() || incarnation.is_busy() {
            self.step(incarnation).await;
        }
    }

    /// Takes one step in carrying out what the program says. Hands nothing new over. Cancel-safe.
    async fn step(&mut self, incarnation: &mut Incarnation<'_>) {
        let can_listen = incarnation.can_listen();
        tokio::select! {
            reply = incarnation.finish_current() => if let Some(reply) = reply { self.input.reply(&reply) },
            exchange = self.exchange(can_listen) => self.apply(exchange, incarnation),
        }
    }

    /// Waits until the program writes or reads something. Cancel-safe.
    async fn exchange(&mut self, can_listen: bool) -> Exchange {
        self.input.advance();
        let can_listen = can_listen && !self.input.has_reply();
        tokio::select! {
            piece = next_piece(&mut self.output), if can_listen => Exchange::Printed(piece),
            written = self.input.write() => Exchange::Took(written),
        }
    }

    fn apply(&mut self, exchange: Exchange, incarnation: &mut Incarnation<'_>) {
        match exchange {
            Exchange::Printed(Some(Piece::Line(line))) => {
                if let Some(reply) = incarnation.handle_line(&line) {
                    self.input.reply(&reply);
                }
            }
            Exchange::Printed(Some(Piece::Part(part))) => {
                if let Some(reply) = incarnation.handle_part(&part) {
                    self.input.reply(&reply);
                }
            }
            Exchange::Printed(None) => self.output = None,
            Exchange::Took(Written::Message(id)) if self.ack == AckPolicy::Written => incarnation.processed(&id),
            Exchange::Took(_) => {}
        }
    }
}
