//! Reads what the program writes.

use std::mem;

use super::{Agent, warn};
use crate::{
    incarnation::Incarnation,
    line_protocol::{json, lines::Piece},
};

impl Agent {
    /// Reads what the program has written. `None` if its output has ended.
    pub(super) fn listen(&mut self, piece: Option<Piece>, incarnation: &mut Incarnation<'_>) {
        match piece {
            Some(Piece::Line(line)) => match json::read(&line) {
                Some(value) if value.is_object() => self.protocol.read(value, &mut self.out),
                _ if line.trim_ascii_start().starts_with(b"{") => {
                    self.unreadable.add(&line);
                    self.answer_unreadable(incarnation);
                }
                // If the runner's output is blocked, drop the line: the protocol must continue.
                _ if incarnation.can_listen() => {
                    incarnation.pass(&line);
                    incarnation.pass(b"\n");
                }
                _ => {}
            },
            Some(Piece::Part(part)) => {
                self.unreadable.add(&part);
                if part.last() == Some(&b'\n') {
                    self.answer_unreadable(incarnation);
                }
            }
            None => self.output = None,
        }
        self.settle_outbox(incarnation);
    }

    /// Answers a line that cannot be read, so that neither side waits for the other forever.
    fn answer_unreadable(&mut self, incarnation: &mut Incarnation<'_>) {
        let gist = mem::take(&mut self.unreadable).gist();
        warn(
            incarnation,
            "The program wrote a line that is longer than 1 MiB or damaged. The runner could not read it.",
        );
        self.protocol.unreadable(&gist, &mut self.out);
    }
}
