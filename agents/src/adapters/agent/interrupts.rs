//! Ends the turn of the program, because the lead says so or a budget is used up.
//!
//! The lead's message comes next. What the turn took counts as processed, or the agent would begin it again; what
//! the program had not taken by then is handed over again. A program that does not end its turn is ended itself, and the
//! next process resumes its session.

use std::{collections::HashSet, future::pending, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{
    Agent,
    protocol::{PromptId, TurnEnd},
};
use crate::{event::RunnerEvent, incarnation::Incarnation};

/// How long the program may take to end its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the turn is to end, and what it took.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    /// Until when the program must end its turn. `None` if it was not asked to.
    end_by: Option<Instant>,
    /// The turn was given up, and has its end.
    has_given_up: bool,
    taken: HashSet<PromptId>,
}

impl Interrupts {
    /// Returns whether the runner has asked the program to end its turn, and the turn has not ended.
    pub(super) fn is_pending(&self) -> bool {
        self.end_by.is_some()
    }

    /// Waits until the program should have ended its turn, and has not. Cancel-safe.
    pub(super) async fn ignored(&self) {
        match self.end_by {
            Some(at) => sleep_until(at).await,
            None => pending().await,
        }
    }

    /// Records that a prompt has ended, however it did.
    pub(super) fn ended(&mut self, id: PromptId) {
        self.taken.remove(&id);
    }
}

impl Agent {
    /// Has the program end its turn if a message waits that asks for it.
    pub(super) fn interrupt_if_asked(&mut self, incarnation: &Incarnation<'_>) {
        if !self.interrupts.is_pending() && self.is_working() && incarnation.is_interrupted() {
            self.interrupt();
            incarnation.tell(RunnerEvent::Interrupted);
        }
    }

    /// Returns whether the program is in a turn that can be ended.
    pub(super) fn is_working(&self) -> bool {
        self.prompts.is_in_turn() && !self.is_turn_over
    }

    /// Has the program end its turn.
    pub(super) fn interrupt(&mut self) {
        if !self.interrupts.is_pending() {
            self.interrupts.end_by = Some(Instant::now() + PATIENCE);
            self.protocol.interrupt(&mut self.out);
        }
    }

    /// Records that a prompt has reached the model. If the program begins what it had queued when its turn was
    /// interrupted, that turn is to end as well: it is handed over again later.
    pub(super) fn taken(&mut self, id: PromptId) {
        let has_begun_another = std::mem::take(&mut self.is_turn_over);
        if self.interrupts.is_pending() && has_begun_another {
            self.interrupts.end_by = None;
            return self.interrupt();
        }
        self.interrupts.taken.insert(id);
    }

    /// Records that a turn has ended.
    pub(super) fn turn_ended(&mut self, end: &TurnEnd, incarnation: &mut Incarnation<'_>) {
        self.is_turn_over = true;
        if self.interrupts.has_given_up {
            return;
        }
        self.unsent.wrote(&end.final_text);
        incarnation.turn_ended(self.turns.end(end));
    }

    /// Handles a prompt whose turn has ended because it was interrupted.
    pub(super) fn interrupted(&mut self, id: PromptId, incarnation: &mut Incarnation<'_>) {
        self.unsent.turn_failed();
        if self.interrupts.taken.contains(&id) {
            return self.processed(id, incarnation);
        }
        self.prompts.put_back(id);
        self.prompt_ended(id);
    }

    /// Ends a turn that the program does not end.
    pub(super) fn give_up_turn(&mut self, incarnation: &mut Incarnation<'_>) {
        if !self.is_turn_over {
            let cut_short = "the program did not end it when it was interrupted".to_owned();
            self.turn_ended(&TurnEnd { cut_short, ..TurnEnd::default() }, incarnation);
        }
        self.interrupts.has_given_up = true;
        for id in self.prompts.in_hand() {
            self.interrupted(id, incarnation);
        }
    }

    /// Acknowledges what a prompt held, whose turn has ended.
    pub(super) fn processed(&mut self, id: PromptId, incarnation: &mut Incarnation<'_>) {
        let (asked, taken) = self.prompts.processed(id, incarnation);
        self.reminders.turn_ended(asked);
        self.unsent.took(taken);
        self.prompt_ended(id);
        incarnation.keep_program_session();
        self.refusals.succeeded();
        incarnation.failed_turns(0, "");
        incarnation.note_turn_ended(&self.done_last);
    }

    /// Concludes the turn if no prompt is left in it.
    fn prompt_ended(&mut self, id: PromptId) {
        self.interrupts.ended(id);
        if self.prompts.is_in_turn() {
            return;
        }
        match self.interrupts.end_by.take() {
            Some(_) => self.unsent.forget(),
            None => self.unsent.turn_ended(),
        }
    }
}
