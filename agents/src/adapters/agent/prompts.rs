//! The prompts that wait for the program, and those that it is working on.

use std::{
    collections::{BTreeMap, VecDeque},
    future::pending,
    mem,
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use teamwire_client::Delivery;
use teamwire_proto::v1;
use tokio::time::{Instant, sleep_until};

use super::{
    protocol::{Prompt, PromptId},
    unsent::Taken,
};
use crate::{
    agent_text::{self, AnswerWith},
    incarnation::{Incarnation, goes_first, is_urgent},
};

/// The most text in one prompt, in bytes, unless a single message is longer.
const PROMPT_BYTES_MAX: usize = 256 * 1024;

/// How long a task may stay open after the turn that took it before the agent is reminded of it, once.
const REMINDER_DELAY: Duration = Duration::from_secs(30);

/// The longest delay before a prompt whose turn has failed is handed over again.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// After how many failures in a row the lead is notified, the first time. Then after twice as many each time, so that a
/// long outage causes few notices.
const ATTEMPTS_BEFORE_NOTICE: u32 = 3;

/// A turn that has failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// How many turns have failed in a row, whatever they were about.
    pub(super) in_a_row: u32,
    /// The delay until its prompt is handed over again.
    pub(super) after: Duration,
    /// What the lead should know, without the error. `None` means nothing yet.
    pub(super) report: Option<v1::WorkFailure>,
    /// `false` if the turn that took the prompt has taken another one as well, which has failed before.
    pub(super) is_new_turn: bool,
}

/// What a process of the program has not processed, for the next process.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// The message at which it has failed. `None` if it has failed at something else.
    pub(super) failed: Option<Box<Delivery>>,
    /// What goes into the prompts of the next process. Without the messages, if one has failed: they are delivered
    /// again.
    waiting: VecDeque<Item>,
    /// What the next prompt says besides.
    notes: Vec<String>,
    /// A task whose turn has ended, and when the agent is reminded of it.
    open_task: Option<(u64, Instant)>,
}

/// A part of a prompt.
#[derive(Debug)]
enum Item {
    Message(Box<Delivery>),
    Task(Box<v1::Claim>),
    /// The first prompt, from the person who started the runner.
    First(String),
    Reminder(String),
}

/// The prompts of one process of the program.
#[derive(Debug)]
pub(super) struct Prompts {
    /// Who the agent is and how it answers.
    welcome: String,
    /// `true` if the next prompt begins with the welcome.
    is_welcome_needed: bool,
    /// What goes into the next prompt because it was in one that failed, or did not fit into one.
    waiting: VecDeque<Item>,
    /// How many of those that wait come from prompts that failed.
    failed: usize,
    /// How many of those that wait come from prompts that the program had not taken.
    put_back: usize,
    /// `true` if a turn has failed, so waiting messages are handed over one by one, and a bad message does not hold up
    /// those before it.
    is_retrying: bool,
    /// The first message or task of the latest turn that failed, without the error.
    failing: v1::WorkFailure,
    /// How many turns in a row have failed on it.
    attempts: u32,
    /// How many turns in a row have failed.
    in_a_row: u32,
    /// What the next prompt says besides. Begins no prompt by itself.
    notes: Vec<String>,
    in_hand: BTreeMap<PromptId, Vec<Item>>,
    last_id: PromptId,
    /// When prompts are handed over again, after a turn has failed. `None` means now.
    retry_at: Option<Instant>,
    delays: ExponentialBackoff,
    /// A task whose turn has ended, and when the agent is reminded of it.
    open_task: Option<(u64, Instant)>,
}

impl Prompts {
    /// Creates the prompts of a program that has just started. `first`: what it is asked to do first; empty: nothing.
    /// `rest`: what an earlier process has not processed.
    pub(super) fn new(welcome: String, first: &str, rest: Rest) -> Self {
        let mut prompts = Self {
            welcome,
            is_welcome_needed: true,
            waiting: rest.waiting,
            failed: 0,
            put_back: 0,
            is_retrying: false,
            failing: v1::WorkFailure::default(),
            attempts: 0,
            in_a_row: 0,
            notes: rest.notes,
            in_hand: BTreeMap::new(),
            last_id: 0,
            retry_at: None,
            delays: delays(),
            open_task: rest.open_task,
        };
        prompts.begin_with(first);
        prompts
    }

    /// Returns the next prompt if something waits, and records that the program has it. Everything that waits goes into
    /// one prompt.
    pub(super) fn next(&mut self, incarnation: &mut Incarnation<'_>) -> Option<Prompt> {
        self.remind(incarnation);
        if self.retry_at.is_some_and(|at| at > Instant::now()) && !incarnation.is_interrupted() {
            return None;
        }
        self.retry_at = None;
        if self.is_retrying && !self.in_hand.is_empty() {
            return None;
        }
        // A claim may have ended meanwhile.
        self.waiting.retain(|item| item.task_id().is_none_or(|id| incarnation.has_task(id)));
        let (mut items, mut text) = (Vec::new(), String::new());
        while let Some(item) = self.next_item(incarnation) {
            if self.is_retrying && !items.is_empty() {
                self.waiting.push_front(item);
                break;
            }
            let part = item.text();
            if !items.is_empty() && text.len() + part.len() > PROMPT_BYTES_MAX {
                self.waiting.push_front(item);
                break;
            }
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&part);
            items.push(item);
        }
        if items.is_empty() {
            return None;
        }
        for note in mem::take(&mut self.notes) {
            text = format!("{text}\n\n{note}");
        }
        (self.failed, self.put_back) = (0, 0);
        if mem::take(&mut self.is_welcome_needed) {
            text = format!("{}\n\n{text}", self.welcome);
        }
        self.last_id += 1;
        self.in_hand.insert(self.last_id, items);
        Some(Prompt { id: self.last_id, text })
    }

    /// Records that the turn that took a prompt has ended, and acknowledges its messages. Returns the shutdown request
    /// that was among them, and the messages that expect something.
    pub(super) fn processed(
        &mut self,
        id: PromptId,
        incarnation: &mut Incarnation<'_>,
    ) -> (Option<String>, Vec<Taken>) {
        let (mut asked, mut taken) = (None, Vec::new());
        for item in self.in_hand.remove(&id).unwrap_or_default() {
            match item {
                Item::Message(delivery) => {
                    incarnation.processed(&delivery.message.id);
                    taken.extend(Taken::of(&delivery.message));
                    if is_urgent(&delivery) {
                        asked = Some(delivery.message.request_id.clone());
                    }
                }
                task @ Item::Task(_) => {
                    self.open_task = task.task_id().map(|id| (id, Instant::now() + REMINDER_DELAY));
                }
                Item::First(_) => incarnation.carried.session.is_begun = true,
                Item::Reminder(_) => {}
            }
        }
        self.is_retrying &= !self.waiting.is_empty();
        self.attempts = 0;
        self.in_a_row = 0;
        self.delays = delays();
        (asked, taken)
    }

    /// Returns whether the program has a prompt in hand.
    pub(super) fn is_in_turn(&self) -> bool {
        !self.in_hand.is_empty()
    }

    /// Returns the prompts that the program has in hand, in order.
    pub(super) fn in_hand(&self) -> Vec<PromptId> {
        self.in_hand.keys().copied().collect()
    }

    /// Reminds the agent of a request to shut down, ahead of what waits.
    pub(super) fn remind_of_shutdown(&mut self, request_id: &str) {
        self.waiting.push_front(Item::Reminder(agent_text::shutdown_reminder(request_id)));
    }

    /// Has the next prompt say something besides.
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Tells the agent something, ahead of what waits.
    pub(super) fn tell(&mut self, text: String) {
        self.waiting.push_front(Item::Reminder(text));
    }

    /// Reminds the agent that it has sent nothing to the senders of what it has read.
    pub(super) fn remind_of_unsent(&mut self, senders: &[String]) {
        self.waiting.push_back(Item::Reminder(agent_text::unsent_reminder(senders)));
    }

    /// Puts a prompt back that the program has not taken.
    pub(super) fn put_back(&mut self, id: PromptId) {
        // The program may have lost the welcome.
        self.is_welcome_needed |= id == 1;
        // Prompts come back in the order of their numbers.
        for item in self.in_hand.remove(&id).into_iter().flatten() {
            self.waiting.insert(self.put_back, item);
            self.put_back += 1;
        }
    }

    /// Puts a prompt back that was not processed. `None` if the prompt is not in hand.
    pub(super) fn failed(&mut self, id: PromptId) -> Option<Failure> {
        let items = self.in_hand.remove(&id)?;
        let first = items.first().map(Item::in_report).unwrap_or_default();
        self.is_retrying = true;
        self.in_a_row = self.in_a_row.saturating_add(1);
        let in_a_row = self.in_a_row;
        // Prompts fail in the order of their numbers.
        for item in items {
            self.waiting.insert(self.failed, item);
            self.failed += 1;
        }
        if let Some(at) = self.retry_at {
            let after = at.saturating_duration_since(Instant::now());
            return Some(Failure { in_a_row, after, report: None, is_new_turn: false });
        }
        self.attempts = if first == self.failing { self.attempts.saturating_add(1) } else { 1 };
        self.failing = first.clone();
        let is_due = self.attempts.is_multiple_of(ATTEMPTS_BEFORE_NOTICE)
            && (self.attempts / ATTEMPTS_BEFORE_NOTICE).is_power_of_two();
        let report = is_due.then_some(v1::WorkFailure { attempts: self.attempts, ..first });
        let delay = self.delays.next().unwrap_or(RETRY_DELAY_MAX);
        self.retry_at = Some(Instant::now() + delay);
        // The program may have lost the welcome.
        self.is_welcome_needed |= id == 1;
        Some(Failure { in_a_row, after: delay, report, is_new_turn: true })
    }

    /// Takes what waits, for the next process of the program. Nothing has failed.
    pub(super) fn into_waiting(mut self) -> Rest {
        // Every process begins with it anyway.
        self.waiting.retain(|item| !matches!(item, Item::First(_)));
        Rest { failed: None, waiting: self.waiting, notes: self.notes, open_task: self.open_task }
    }

    /// Takes what was not processed, in order. What failed last comes first.
    pub(super) fn into_rest(self) -> Rest {
        let mut waiting: VecDeque<Item> = self.in_hand.into_values().flatten().chain(self.waiting).collect();
        // Every process begins with it anyway.
        waiting.retain(|item| !matches!(item, Item::First(_)));
        match waiting.pop_front() {
            Some(Item::Message(failed)) => {
                waiting.retain(|item| !matches!(item, Item::Message(_)));
                Rest { failed: Some(failed), waiting, ..Rest::default() }
            }
            Some(other) => {
                waiting.push_front(other);
                Rest { waiting, ..Rest::default() }
            }
            None => Rest::default(),
        }
    }

    /// Returns what fails, as a report names it, without the error.
    pub(super) fn failing(&self) -> v1::WorkFailure {
        v1::WorkFailure { attempts: self.attempts, ..self.failing.clone() }
    }

    /// Takes the next part. A shutdown request and what ended the turn overtake the parts of failed prompts.
    fn next_item(&mut self, incarnation: &mut Incarnation<'_>) -> Option<Item> {
        let overtakes = incarnation.waiting().front().is_some_and(|first| goes_first(first));
        if overtakes { next_item(incarnation) } else { self.waiting.pop_front().or_else(|| next_item(incarnation)) }
    }

    /// Puts the first prompt ahead of all others. Empty if there is none.
    pub(super) fn begin_with(&mut self, first: &str) {
        if !first.is_empty() {
            self.waiting.push_front(Item::First(first.to_owned()));
        }
    }

    /// Records that the program's context no longer contains the welcome.
    pub(super) fn repeat_welcome(&mut self) {
        self.is_welcome_needed = true;
    }

    /// Waits until there may be another prompt: a failed one may be handed over again, or a reminder is due.
    /// Cancel-safe.
    pub(super) async fn due(&self) {
        let reminder = self.open_task.map(|(_, at)| at);
        match self.retry_at.into_iter().chain(reminder).min() {
            Some(at) => sleep_until(at).await,
            None => pending().await,
        }
    }

    /// Adds a reminder of a task that was closed neither in its turn nor for a while after it.
    fn remind(&mut self, incarnation: &Incarnation<'_>) {
        let Some((id, at)) = self.open_task else { return };
        if !incarnation.has_task(id) {
            self.open_task = None;
        } else if at <= Instant::now() && self.in_hand.is_empty() {
            self.open_task = None;
            self.waiting.push_back(Item::Reminder(agent_text::task_reminder(id)));
        } else if at <= Instant::now() {
            self.open_task = Some((id, Instant::now() + REMINDER_DELAY));
        }
    }
}

impl Item {
    /// Returns the id of a task.
    fn task_id(&self) -> Option<u64> {
        match self {
            Self::Task(claim) => claim.task.as_ref().map(|task| task.id),
            _ => None,
        }
    }

    /// Returns how a failure report names it.
    fn in_report(&self) -> v1::WorkFailure {
        let message_id = match self {
            Self::Message(delivery) => delivery.message.id.clone(),
            _ => String::new(),
        };
        v1::WorkFailure { task_id: self.task_id().unwrap_or_default(), message_id, ..v1::WorkFailure::default() }
    }

    fn text(&self) -> String {
        match self {
            Self::Message(delivery) => {
                agent_text::delivered_message(&delivery.message, delivery.delivery_count, AnswerWith::Tool)
            }
            Self::Task(claim) => agent_text::claim(claim, AnswerWith::Tool),
            Self::First(text) | Self::Reminder(text) => text.clone(),
        }
    }
}

/// Takes the next message or task that waits, and records that the program has it.
fn next_item(incarnation: &mut Incarnation<'_>) -> Option<Item> {
    if let Some(delivery) = incarnation.waiting().pop_front() {
        incarnation.hand_over(&delivery);
        return Some(Item::Message(delivery));
    }
    incarnation.next_task().map(|claim| Item::Task(Box::new(claim)))
}

fn delays() -> ExponentialBackoff {
    ExponentialBuilder::new().with_max_delay(RETRY_DELAY_MAX).without_max_times().build()
}
