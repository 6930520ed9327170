//! Drives one program for each batch of messages and for each task.
//!
//! The program reads the messages as lines until its input ends, or as a prompt, writes, and exits. Exit code 0 acknowledges the batch:
//! lines of output that are a SendMessage are sent, and the rest, unless it is blank, becomes a reply to the last
//! message of the batch that came from a member. With any other code the output is passed on and nothing is sent.
//!
//! A failed batch is retried one message at a time, so that one bad message cannot hold the others up for good. If the
//! program fails on a single message, the runner gives the message back: it opens another session and reports the
//! failure there, and the coordinator delivers the message again with a higher count. After the fifth delivery
//! (`limits.deliveries_max`), the coordinator moves it to the dead letters instead, and notifies its sender and the
//! lead. The runner waits 1, 4, 16 and then 60 s before it tries the message again. Messages behind it wait that long,
//! which keeps their order. The lead gets a notice of each failure; while it has not processed one, the notice counts
//! the later ones.
//!
//! A shutdown request overtakes the messages that wait, and is answered between batches: by the runner, which approves
//! it, or, with [`OnShutdown::Ask`], by a program that reads only the request. Exit code 0 approves, unless the program
//! has written an answer as a line; any other code rejects, with the output as the reason. It is not retried.
//!
//! Two programs that answer every reply with a reply never stop. Check `in_reply_to` in such a program.

mod given;
mod output;
mod pipes;

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    mem,
    path::Path,
    pin::pin,
    time::Duration,
};

use teamwire_client::Delivery;
use teamwire_proto::v1;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::{
    output::{Last, PendingOutput, answer, cut, reply, sort},
    pipes::Pipes,
};

use crate::{
    config::{BatchInput, OnShutdown},
    event::RunnerEvent,
    exit::{End, Exit, Why},
    incarnation::{Action, Incarnation, IncarnationEvent, delay_after, is_urgent},
};

/// The longest delay before a retry. The first is 1 s, and each is four times as long as the one before it.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(60);

type Batch = Vec<Box<Delivery>>;

/// Why the incarnation ends, and how the program that was running exited. `None` if no program was running.
type Ended = Box<(Why, Option<Exit>)>;

struct Exec<'a, 'c> {
    incarnation: &'a mut Incarnation<'c>,
    batch_messages_max: usize,
    input: BatchInput,
    /// How many of the waiting messages go alone, after a batch has failed.
    alone: usize,
    /// How many times in a row the program has failed on the message that it was given last.
    failures: u32,
    /// How many tasks in a row have failed.
    task_failures: u32,
    /// How many times in a row the program has failed, whatever it was given.
    failed_in_a_row: u32,
}

/// Runs programs through one incarnation.
pub(super) async fn run(incarnation: &mut Incarnation<'_>, batch_messages_max: usize, input: BatchInput) -> End {
    let batch_messages_max = batch_messages_max.max(1);
    let mut exec =
        Exec { incarnation, batch_messages_max, input, alone: 0, failures: 0, task_failures: 0, failed_in_a_row: 0 };
    let ended = loop {
        if let Err(ended) = exec.run_next().await {
            break ended;
        }
    };
    let (why, exit) = *ended;
    let why = exec.incarnation.settle(why).await;
    End { why, exit, ..End::default() }
}

impl Exec<'_, '_> {
    /// Waits for messages or a task, and runs one program with them.
    async fn run_next(&mut self) -> Result<(), Ended> {
        self.gather().await?;
        self.incarnation.begin_batch();
        let batch = self.batch();
        if batch.first().is_some_and(|first| is_urgent(first)) {
            return self.answer_shutdown(batch).await;
        }
        if !batch.is_empty() {
            return self.run_batch(batch).await;
        }
        match self.incarnation.next_task() {
            Some(claim) => self.run_task(&claim).await,
            None => Ok(()),
        }
    }

    /// Waits until something waits, and handles whatever else has arrived.
    async fn gather(&mut self) -> Result<(), Ended> {
        loop {
            let has_waiting = self.incarnation.has_waiting();
            tokio::select! {
                biased;
                news = self.incarnation.next() => check(news)?,
                () = std::future::ready(()), if has_waiting => return Ok(()),
            }
        }
    }

    /// Takes the next batch. A shutdown request goes alone: its answer needs a separate program.
    fn batch(&mut self) -> Batch {
        let waiting = self.incarnation.waiting();
        let is_single = self.alone > 0 || waiting.front().is_some_and(|first| is_urgent(first));
        let size = if is_single { 1 } else { self.batch_messages_max };
        let size = self.input.fitting(waiting.iter().take(size).map(|delivery| &**delivery));
        waiting.drain(..size.min(waiting.len())).collect()
    }

    /// Runs one program with one batch, and acknowledges or retries it.
    async fn run_batch(&mut self, batch: Batch) -> Result<(), Ended> {
        for delivery in &batch {
            self.incarnation.hand_over(delivery);
        }
        let input = batch.iter().map(|delivery| self.input.message(delivery)).collect();
        let (exit, output) = self.run_program(input).await?;
        if !exit.is_success() {
            self.pass_on(output);
            self.note_failed(&exit.text());
            self.incarnation.report_failure(v1::WorkFailure {
                exit: Some(exit.report()),
                message_id: batch[0].message.id.clone(),
                messages: u32::try_from(batch.len()).unwrap_or(u32::MAX),
                ..v1::WorkFailure::default()
            });
            return self.retry(batch).await;
        }
        let (lines, text) = sort(output);
        // The last message, but the prompt only if there is no other.
        let answerable = batch
            .iter()
            .filter(|delivery| is_answerable(&delivery.message))
            .max_by_key(|delivery| !delivery.message.prompt);
        let last = match answerable.and_then(|delivery| reply(&delivery.message, &text)) {
            Some(reply) => Last::Act(Action::Send(Box::new(reply))),
            None => Last::Pass(text),
        };
        self.carry_out(PendingOutput { lines: lines.into(), last: Some(last) }).await?;
        for delivery in &batch {
            self.incarnation.processed(&delivery.message.id);
        }
        self.alone = self.alone.saturating_sub(1);
        self.failures = 0;
        self.note_succeeded();
        Ok(())
    }

    /// Notes that a program has failed.
    fn note_failed(&mut self, how: &str) {
        self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
        self.incarnation.failed_turns(self.failed_in_a_row, how);
    }

    /// Notes that a program has done its work.
    fn note_succeeded(&mut self) {
        if mem::take(&mut self.failed_in_a_row) > 0 {
            self.incarnation.failed_turns(0, "");
        }
    }

    /// Answers a shutdown request, which is a batch by itself: approves it, or lets a program decide with its exit code
    /// or with a line.
    async fn answer_shutdown(&mut self, batch: Batch) -> Result<(), Ended> {
        for delivery in batch {
            if self.incarnation.config.shutdown_answer() == OnShutdown::Approve {
                self.incarnation.approve_shutdown(delivery);
                while self.incarnation.is_approving() {
                    check(self.incarnation.next().await)?;
                }
                continue;
            }
            self.incarnation.hand_over(&delivery);
            let (exit, output) = self.run_program(self.input.message(&delivery)).await?;
            let said = answer(&delivery.message.request_id, &exit, output);
            self.carry_out(said).await?;
            self.incarnation.processed(&delivery.message.id);
        }
        Ok(())
    }

    /// Gives a failed message back to the coordinator, or puts the messages of a failed batch back to try each alone.
    /// Waits until the next attempt is due, or another message comes first.
    async fn retry(&mut self, batch: Batch) -> Result<(), Ended> {
        let failed = batch[0].message.id.clone();
        if let [delivery] = &batch[..] {
            self.alone = self.alone.max(1);
            self.failures += 1;
            self.incarnation.tell(RunnerEvent::GivenBack { message_id: failed.clone() });
            self.incarnation.set_retrying(true);
            self.incarnation.renew_session(delivery).await;
        } else {
            self.alone = batch.len();
            for delivery in batch.into_iter().rev() {
                self.incarnation.waiting().push_front(delivery);
            }
        }
        let until = Instant::now() + retry_delay(self.failures);
        self.wait_until(until, |first| first.message.id != failed).await?;
        self.incarnation.set_retrying(false);
        if self.incarnation.waiting().front().is_none_or(|first| first.message.id != failed) {
            // It is a dead letter now, or a shutdown request has overtaken it.
            self.failures = 0;
        }
        Ok(())
    }

    /// Runs one program with one task, and completes the task or gives it back.
    async fn run_task(&mut self, claim: &v1::Claim) -> Result<(), Ended> {
        let task_id = claim.task.as_ref().map_or(0, |task| task.id);
        // If the incarnation ends here, that gives the task back.
        let (exit, output) = self.run_program(self.input.task(claim)).await?;
        if exit.is_success() {
            let (lines, text) = sort(output);
            let last = Last::Complete(task_id, cut(text.trim_end().to_owned()));
            self.carry_out(PendingOutput { lines: lines.into(), last: Some(last) }).await?;
            self.incarnation.drop_task(task_id);
            self.task_failures = 0;
            self.note_succeeded();
            return Ok(());
        }
        self.pass_on(output);
        self.note_failed(&exit.text());
        self.incarnation.report_failure(v1::WorkFailure {
            exit: Some(exit.report()),
            task_id,
            ..v1::WorkFailure::default()
        });
        let detail = exit.text();
        self.incarnation.tell(RunnerEvent::TaskReleased { task_id, detail: detail.clone() });
        self.task_failures += 1;
        // Another member may do better, so this one is slower to claim the next task.
        let until = Instant::now() + delay_after(self.task_failures);
        self.incarnation.set_resting(true);
        let release = Last::Act(Action::Release(task_id, detail));
        self.carry_out(PendingOutput { lines: VecDeque::new(), last: Some(release) }).await?;
        self.incarnation.drop_task(task_id);
        self.wait_until(until, |_| true).await?;
        self.incarnation.set_resting(false);
        Ok(())
    }

    /// Waits, and handles what arrives. Returns early if the first waiting message must not wait any longer.
    async fn wait_until(&mut self, until: Instant, is_due: impl Fn(&Delivery) -> bool) -> Result<(), Ended> {
        while !self.incarnation.waiting().front().is_some_and(|first| is_due(first)) {
            tokio::select! {
                biased;
                news = self.incarnation.next() => check(news)?,
                () = sleep_until(until) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Runs one program with its input, until it exits or must be ended. Returns what it has written, as lines.
    async fn run_program(&mut self, input: String) -> Result<(Exit, Vec<Vec<u8>>), Ended> {
        let incarnation = &mut *self.incarnation;
        let welcome = incarnation.welcome().await;
        let (input, additions) = self.input.hand_over(&welcome, input);
        let mut process =
            incarnation.start_program(&welcome, additions).await.map_err(|exit| Box::new((Why::Exited, Some(exit))))?;
        let program = Path::new(incarnation.config.command.first().map_or(OsStr::new(""), OsString::as_os_str));
        let program = program.file_name().unwrap_or_default().display();
        incarnation.activity(format!("started {program}, process {}", process.pid()));
        let mut pipes = Pipes::new(&mut process, input);
        let why = loop {
            let can_listen = incarnation.can_listen();
            tokio::select! {
                biased;
                news = incarnation.next() => if let IncarnationEvent::End(why) = news { break why },
                _ = process.wait() => break Why::Exited,
                moved = pipes.step(can_listen) => pipes.apply(moved, incarnation),
            }
        };
        let exit = {
            let mut ending = pin!(incarnation.end_program(&mut process, &why, CancellationToken::new()));
            loop {
                tokio::select! {
                    exit = &mut ending => break exit,
                    () = pipes.go_on(incarnation) => {}
                }
            }
        };
        incarnation.program_ended(&exit);
        let ended = format!("{} after {:.1} s", exit.text(), exit.duration.as_secs_f32());
        if !matches!(why, Why::Exited) {
            incarnation.activity(ended);
            return Err(Box::new((why, Some(exit))));
        }
        while pipes.output.is_some() {
            pipes.go_on(incarnation).await;
        }
        // Report this after the program's output.
        incarnation.activity(ended);
        Ok((exit, pipes.kept))
    }

    /// Carries out what a program has said. The program is gone, so whatever is refused only goes to the runner's
    /// events.
    async fn carry_out(&mut self, mut said: PendingOutput) -> Result<(), Ended> {
        let (patience, hurry) = (self.incarnation.config.report_patience, self.incarnation.hurry.clone());
        let is_task = matches!(said.last, Some(Last::Complete(..) | Last::Act(Action::Release(..))));
        while said.go_on(self.incarnation) {
            if let Err(ended) = check(self.incarnation.next().await) {
                let is_stopped = matches!(ended.0, Why::Stopped);
                let mut is_done = false;
                if is_task || is_stopped {
                    // The program has done its work; what it said must still arrive.
                    let rest = async {
                        while said.go_on(self.incarnation) {
                            self.incarnation.finish_current().await;
                        }
                    };
                    is_done = matches!(hurry.bound(timeout(patience, rest)).await, Some(Ok(())));
                }
                if is_done && is_stopped {
                    // The batch or task is processed. The caller notes that, and meets the stop with its next wait.
                    return Ok(());
                }
                return Err(ended);
            }
        }
        Ok(())
    }

    /// Passes on the output of a failed program.
    fn pass_on(&mut self, output: Vec<Vec<u8>>) {
        for line in output {
            self.incarnation.pass(&line);
            self.incarnation.pass(b"\n");
        }
    }
}

/// Returns how long to wait after this many failures in a row.
fn retry_delay(failures: u32) -> Duration {
    Duration::from_secs(4_u64.saturating_pow(failures.saturating_sub(1))).min(RETRY_DELAY_MAX)
}

/// Fails with the reason to end, if the event is [`IncarnationEvent::End`].
fn check(news: IncarnationEvent) -> Result<(), Ended> {
    match news {
        IncarnationEvent::End(why) => Err(Box::new((why, None))),
        IncarnationEvent::Reply(reply) => {
            tracing::debug!(%reply, "reply to a program that has exited");
            Ok(())
        }
        IncarnationEvent::Changed => Ok(()),
    }
}

/// Returns whether the sender can get a reply: the operator and the coordinator have no inbox.
fn is_answerable(message: &v1::Message) -> bool {
    message.sender.as_ref().is_some_and(|sender| sender.kind() == v1::SenderKind::Member)
}
