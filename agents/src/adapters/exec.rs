//! The mode in which each batch of messages has a program of its own.
//!
//! The program reads the messages as lines until its input ends, writes, and exits. With exit code 0 the batch is
//! acknowledged; lines of its output that are a SendMessage are sent, and the rest, if it is not blank, goes as a reply
//! to the last message of the batch that a member has sent. With any other code its output is let through and nothing
//! is sent.
//!
//! A batch that fails is tried again, now one message at a time so that one bad message holds up no others for good: up
//! to three times, after 1, 2 and 4 s. Then the runner ends its session and opens another one, in which the coordinator
//! delivers the message again with a higher count, until after the fifth session it goes to the dead letters and its
//! sender is told. Messages behind it wait that long; order is kept.
//!
//! Two programs that answer every reply with a reply will never stop: who writes such a program looks at `in_reply_to`.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde_json::Value;
use teamwire_proto::v1::{self, message::Body};
use tokio::{
    io::AsyncWriteExt,
    process::ChildStdin,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::{
    adapters::{
        lines::{Lines, Piece},
        output_parser::OutputLine,
    },
    runner::{
        RunnerEvent,
        exit::{End, Exit, Why},
        in_flight::InFlight,
        incarnation::{Incarnation, Next, line},
        responder::Responder,
        task_claimer::{self, TaskClaimer},
    },
};
use teamwire_client::{Delivery, SubscribeOptions, Subscription, message};

/// How often a message is tried again within one session.
const RETRIES_MAX: u32 = 3;

/// The delay before the first of them. It doubles.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How much of a program's output makes a reply; below the coordinator's usual limit. The rest is left out.
const REPLY_BYTES_MAX: usize = 60 * 1024;

/// How much of a program's output is kept. The rest is let through.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

type Batch = Vec<Box<Delivery>>;

struct Exec<'a> {
    life: &'a Incarnation<'a>,
    subscription: Subscription,
    in_flight: Arc<InFlight>,
    options: SubscribeOptions,
    /// What has come and was not processed: as much as may be unacknowledged in a session.
    waiting: VecDeque<Box<Delivery>>,
    answers: JoinSet<()>,
    /// How many of those that wait go alone, after a batch has failed.
    alone: usize,
    /// How often the first of those that wait has failed.
    failures: u32,
    tasks: TaskClaimer,
    /// How many tasks in a row have failed.
    task_failures: u32,
}

/// What to do next.
enum Work {
    Messages,
    Task(Box<v1::Claim>),
}

/// How a program ended.
enum Ran {
    Ended(Exit, Vec<Vec<u8>>),
    Cut(Why, Exit),
    NotStarted(Exit),
}

/// How a batch went.
enum Outcome {
    Done,
    Failed,
    End(Why, Option<Exit>),
}

/// Runs programs through one life.
pub(crate) async fn run(life: &Incarnation<'_>, batch_messages_max: usize) -> End {
    let options = SubscribeOptions { instance_id: Uuid::new_v4().to_string(), ..SubscribeOptions::default() };
    let subscription = life.client.subscribe(options.clone());
    let in_flight = life.in_flight(&subscription);
    let tasks = life.taker(&in_flight);
    let mut exec = Exec {
        life,
        subscription,
        in_flight,
        tasks,
        task_failures: 0,
        options,
        waiting: VecDeque::new(),
        answers: JoinSet::new(),
        alone: 0,
        failures: 0,
    };
    let (why, exit) = exec.batches(batch_messages_max.max(1)).await;
    let why = life.settle(why, &exec.subscription, &exec.in_flight).await;
    End { why, exit, is_outcome_unknown: false }
}

impl Exec<'_> {
    /// Runs batch after batch until there is a reason to end, and returns how the last program ended if it was ended.
    async fn batches(&mut self, batch_messages_max: usize) -> (Why, Option<Exit>) {
        loop {
            match self.gather().await {
                Ok(Work::Messages) => {}
                Ok(Work::Task(claim)) => {
                    if let Outcome::End(why, exit) = self.work_on(&claim).await {
                        return (why, exit);
                    }
                    continue;
                }
                Err(why) => return (why, None),
            }
            let batch = self.batch(batch_messages_max);
            match self.run(&batch).await {
                Outcome::Done => {
                    for delivery in &batch {
                        self.in_flight.ack(&delivery.message.id);
                    }
                    self.alone = self.alone.saturating_sub(1);
                    self.failures = 0;
                }
                Outcome::Failed => {
                    if let Some(why) = self.retry(batch).await {
                        return (why, None);
                    }
                }
                Outcome::End(why, exit) => return (why, exit),
            }
        }
    }

    /// Waits until something waits, and takes what else is there. An error is the reason to end.
    async fn gather(&mut self) -> Result<Work, Why> {
        loop {
            let is_something = !self.waiting.is_empty();
            let event = tokio::select! {
                biased;
                () = self.life.stop.cancelled() => return Err(Why::Stopped),
                event = self.subscription.next() => event,
                Some(_) = self.answers.join_next() => continue,
                () = std::future::ready(()), if is_something => return Ok(Work::Messages),
                claim = self.tasks.next() => return Ok(Work::Task(Box::new(claim))),
            };
            if let Some(why) = self.take(event) {
                return Err(why);
            }
        }
    }

    /// Puts what has come among what waits, shutdown requests first. Some: the reason to end.
    fn take(&mut self, event: Option<Result<teamwire_client::Event, teamwire_client::Error>>) -> Option<Why> {
        match self.life.decide(event, &self.in_flight, &mut self.answers) {
            Next::Hand(delivery) if is_urgent(&delivery) => {
                // The failures are counted for the first.
                self.failures = 0;
                self.waiting.push_front(delivery);
            }
            Next::Hand(delivery) => self.waiting.push_back(delivery),
            Next::Wait => {}
            Next::End(why) => return Some(why),
        }
        None
    }

    /// Takes the next batch. A shutdown request goes alone: its answer is worth a program of its own.
    fn batch(&mut self, batch_messages_max: usize) -> Batch {
        let is_single = self.alone > 0 || self.waiting.front().is_some_and(|first| is_urgent(first));
        let size = if is_single { 1 } else { batch_messages_max.min(self.waiting.len()) };
        self.waiting.drain(..size).collect()
    }

    /// Puts a failed batch back and waits, or gives it back to the coordinator. Some: the reason to end.
    async fn retry(&mut self, batch: Batch) -> Option<Why> {
        if batch.len() > 1 {
            self.alone = batch.len();
        } else {
            self.failures += 1;
        }
        if self.failures > RETRIES_MAX {
            let message_id = batch[0].message.id.clone();
            self.life.tell(RunnerEvent::GivenBack { message_id });
            // Let what was processed be known first, so that it does not come again.
            let _ = timeout(Duration::from_secs(5), self.subscription.flush_acks()).await;
            self.subscription = self.life.client.subscribe(self.options.clone());
            self.in_flight = self.life.in_flight(&self.subscription);
            self.waiting.clear();
            self.failures = 0;
            self.alone = self.alone.max(1);
            return None;
        }
        for delivery in batch.into_iter().rev() {
            self.waiting.push_front(delivery);
        }
        let mut delay = Box::pin(sleep(RETRY_DELAY * 2_u32.pow(self.failures.saturating_sub(1))));
        loop {
            let event = tokio::select! {
                biased;
                () = self.life.stop.cancelled() => return Some(Why::Stopped),
                event = self.subscription.next() => event,
                () = &mut delay => return None,
            };
            if let Some(why) = self.take(event) {
                return Some(why);
            }
        }
    }

    /// Runs one program with one batch.
    async fn run(&mut self, batch: &Batch) -> Outcome {
        for delivery in batch {
            self.in_flight.hand(&delivery.message);
            self.life.tell_handed(delivery);
        }
        let responder = self.life.responder(&self.in_flight);
        match self.converse(batch.iter().map(|delivery| line(delivery)).collect(), &responder).await {
            // No message is at fault, and no other would fare better.
            Ran::NotStarted(exit) => Outcome::End(Why::Exited, Some(exit)),
            Ran::Cut(why, exit) => Outcome::End(why, Some(exit)),
            Ran::Ended(exit, output) if exit.is_success() => self.speak(&responder, output, batch).await,
            Ran::Ended(_, output) => {
                pass_on(output, &responder).await;
                Outcome::Failed
            }
        }
    }

    /// Runs one program with one task, and completes it or gives it back.
    async fn work_on(&mut self, claim: &v1::Claim) -> Outcome {
        let id = claim.task.as_ref().map_or(0, |task| task.id);
        let responder = self.life.responder(&self.in_flight);
        let exit = match self.converse(task_claimer::line(claim), &responder).await {
            Ran::NotStarted(exit) => return Outcome::End(Why::Exited, Some(exit)),
            // The end of the life gives the task back.
            Ran::Cut(why, exit) => return Outcome::End(why, Some(exit)),
            Ran::Ended(exit, output) if exit.is_success() => {
                let (said, text) = sort(output);
                for line in &said {
                    responder.say(line).await;
                }
                // A program that has said so itself has dealt with it.
                if self.in_flight.task_token(id).is_some() {
                    responder.complete(id, cut(text.trim_end().to_owned()), Value::Null).await;
                }
                self.in_flight.drop_task(id);
                self.task_failures = 0;
                return Outcome::Done;
            }
            Ran::Ended(exit, output) => {
                pass_on(output, &responder).await;
                exit
            }
        };
        let detail = exit.text();
        self.life.tell(RunnerEvent::TaskReleased { task_id: id, detail: detail.clone() });
        self.task_failures += 1;
        // Whoever else is there may do better: this one is slower to take the next.
        let until = Instant::now() + task_claimer::delay_after(self.task_failures);
        self.in_flight.rest(true);
        responder.release(id, detail, Value::Null).await;
        self.in_flight.drop_task(id);
        let outcome = self.rest(until).await;
        self.in_flight.rest(false);
        outcome
    }

    /// Waits, and goes on taking what comes.
    async fn rest(&mut self, until: Instant) -> Outcome {
        loop {
            let event = tokio::select! {
                biased;
                () = self.life.stop.cancelled() => return Outcome::End(Why::Stopped, None),
                event = self.subscription.next() => event,
                () = sleep_until(until) => return Outcome::Done,
            };
            if let Some(why) = self.take(event) {
                return Outcome::End(why, None);
            }
            if !self.waiting.is_empty() {
                return Outcome::Done;
            }
        }
    }

    /// Runs one program with its input, until it ends or must be ended.
    async fn converse(&mut self, input: String, responder: &Responder) -> Ran {
        let mut process = match self.life.start().await {
            Ok(process) => process,
            Err(exit) => return Ran::NotStarted(exit),
        };
        let _writing = process.take_stdin().map(|stdin| AbortOnDropHandle::new(tokio::spawn(write(stdin, input))));
        let reading = process.take_stdout().map(|stdout| {
            let responder = responder.clone();
            AbortOnDropHandle::new(tokio::spawn(async move { read(Lines::new(stdout), &responder).await }))
        });
        let why = loop {
            let event = tokio::select! {
                biased;
                () = self.life.stop.cancelled() => break Some(Why::Stopped),
                event = self.subscription.next() => event,
                _ = process.wait() => break None,
                Some(_) = self.answers.join_next() => continue,
            };
            if let Some(why) = self.take(event) {
                break Some(why);
            }
        };
        if let Some(why) = why {
            let exit = self.life.end(&mut process, &why).await;
            return Ran::Cut(why, exit);
        }
        let exit = self.life.end(&mut process, &Why::Exited).await;
        let output = match reading {
            Some(reading) => reading.await.unwrap_or_default(),
            None => Vec::new(),
        };
        Ran::Ended(exit, output)
    }

    /// Sends what the program has written. What is refused is told to whoever watches the runner: the program is gone.
    async fn speak(&mut self, responder: &Responder, output: Vec<Vec<u8>>, batch: &Batch) -> Outcome {
        let last = batch.iter().rev().find(|delivery| is_answerable(&delivery.message));
        let (said, text) = sort(output);
        let reply = last.and_then(|delivery| reply(&delivery.message, &text));
        let speaking = async {
            for line in &said {
                if let Some(told) = responder.say(line).await {
                    tracing::debug!(%told, "said");
                }
            }
            match reply {
                Some(reply) => {
                    responder.send(reply, Value::Null).await;
                }
                None => responder.pass(text.as_bytes()).await,
            }
        };
        let mut speaking = Box::pin(speaking);
        loop {
            let event = tokio::select! {
                biased;
                () = &mut speaking => return Outcome::Done,
                () = self.life.stop.cancelled() => {
                    // The program is through; what it said must still arrive.
                    let _ = timeout(self.life.config.report_patience, &mut speaking).await;
                    return Outcome::End(Why::Stopped, None);
                }
                event = self.subscription.next() => event,
            };
            if let Some(why) = self.take(event) {
                return Outcome::End(why, None);
            }
        }
    }
}

fn is_urgent(delivery: &Delivery) -> bool {
    matches!(delivery.message.body, Some(Body::ShutdownRequest(_)))
}

/// Returns whether a reply can be addressed to whoever sent the message: the operator and the coordinator have no inbox.
fn is_answerable(message: &v1::Message) -> bool {
    message.sender.as_ref().is_some_and(|sender| sender.kind() == v1::SenderKind::Member)
}

/// Parts lines that are meant for the runner from the text.
fn sort(output: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, String) {
    let (mut said, mut text) = (Vec::new(), String::new());
    for line in output {
        let line_text = String::from_utf8_lossy(&line);
        match OutputLine::of(&line_text) {
            OutputLine::Other => {
                text.push_str(&line_text);
                text.push('\n');
            }
            OutputLine::Ack(_) | OutputLine::Complete(..) | OutputLine::Release(..) | OutputLine::Send(..) => {
                said.push(line)
            }
        }
    }
    (said, text)
}

/// Makes a reply out of a text. None: it is blank.
fn reply(to: &v1::Message, text: &str) -> Option<v1::SendRequest> {
    let text = text.trim_end();
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    let summary: String = first.trim().chars().filter(|c| !c.is_control()).take(200).collect();
    let summary = if summary.is_empty() { "A reply".to_owned() } else { summary };
    let content = cut(text.to_owned());
    let recipient = to.sender.as_ref().map(|sender| sender.name.clone()).unwrap_or_default();
    let in_reply_to = to.id.clone();
    Some(v1::SendRequest { in_reply_to, ..message::direct(recipient, summary, content) })
}

/// Leaves out what is too much for a reply or a result.
fn cut(mut text: String) -> String {
    if text.len() > REPLY_BYTES_MAX {
        text.truncate(text.floor_char_boundary(REPLY_BYTES_MAX));
        text.push_str("\n[the rest was left out]");
    }
    text
}

/// Lets the output of a program that has failed through.
async fn pass_on(output: Vec<Vec<u8>>, responder: &Responder) {
    for line in output {
        responder.pass(&[&line[..], b"\n"].concat()).await;
    }
}

async fn write(mut stdin: ChildStdin, input: String) {
    // A program that does not read to the end has read enough.
    let _ = stdin.write_all(input.as_bytes()).await;
}

/// Reads a program's output; what is too much of it is let through.
async fn read<R: tokio::io::AsyncRead + Unpin>(mut lines: Lines<R>, responder: &Responder) -> Vec<Vec<u8>> {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    loop {
        match lines.next().await {
            Ok(Some(Piece::Line(line))) if bytes + line.len() <= OUTPUT_BYTES_MAX => {
                bytes += line.len() + 1;
                kept.push(line);
            }
            Ok(Some(Piece::Line(line))) => responder.pass(&[&line[..], b"\n"].concat()).await,
            Ok(Some(Piece::Part(part))) => responder.pass(&part).await,
            Ok(None) => return kept,
            Err(error) => {
                tracing::debug!(%error, "the program's output cannot be read");
                return kept;
            }
        }
    }
}
