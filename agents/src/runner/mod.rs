//! Runs a program as a member of a team, and answers for it.
//!
//! The runner joins, keeps the subscription, hands messages to the program, acknowledges what the program has proven to
//! have processed, ends the program with all that it has started when its shutdown is approved, and reports how it
//! ended. The program notices nothing of a coordinator that restarts. It ends only for a reason of its own, because the
//! member may not go on (approved, stopped by force, superseded, team deleted, credential refused), or because the
//! runner was told to end; never because a shutdown request has arrived.
//!
//! # What a program reads and writes in [`Mode::Stdin`]
//!
//! Its input is lines of JSON. The first is `{"type": "welcome", "team": …, "member": …, "incarnation": …}`. Each
//! message is the object of [`dialect::write`](teamwire_proto::dialect::write()) with `text`, the form in which an agent reads it,
//! and `delivery_count`. Of its output, these lines are for the runner, and all others are let through:
//! - `{"ack": "MESSAGE_ID"}`, or a list of ids: the message is processed;
//! - a SendMessage in either dialect: it is sent. With `in_reply_to`, or as the answer to a request, it also says that
//!   the message it answers is processed. The program is told `{"type": "sent", "message_id": …, "request": …}`, or
//!   `{"type": "error", "reason": …, "field": …, "message": …, "request": …}`, where `request` is what it wrote. A line
//!   that the program was given, written as it was read, is not sent.
//!
//! Lines that the program has not taken are overtaken by a shutdown request. A coordinator has at most 64 messages
//! unacknowledged in a session: a program that never acknowledges gets 64, and then nothing, a shutdown request
//! included; it can be stopped by force.
//!
//! With [`RunnerConfig::takes_tasks`], a line `{"type": "task", "task_id": …, "subject": …, "description": …, "metadata":
//! …, "attempt": …, "claim_token": …, "text": …}` is a task that was taken for the program while it had nothing in hand.
//! It says `{"complete": TASK_ID, "result": "…"}` when it is done, or `{"release": TASK_ID, "reason": "…"}` to give it
//! back, and is told `{"type": "completed", …}`, `{"type": "released", …}` or an error; `teamwire task complete` does as
//! well. A program that must have a plan approved first reads `"plan_required": true` in its welcome.
//!
//! # In [`Mode::Exec`]
//!
//! Each batch of messages has a program of its own, which reads the messages as the same lines (without a welcome) until
//! its input ends. When it exits with code 0, the batch is processed; lines of its output that are a SendMessage are
//! sent, and the rest goes as a reply to the last of the senders. A batch that fails is tried again, one message at a
//! time, up to three times; then the session is renewed, so that the coordinator counts a further delivery and, after
//! the fifth, gives the message up and tells its sender.
//!
//! A task that was taken has a program of its own in the same way: it reads the line of the task, and with exit code 0 the
//! task is completed with what it has printed as the result; with any other it goes back to the board.
//!
//! # What is proven
//!
//! | | a message counts as processed when | it is lost when |
//! |---|---|---|
//! | [`AckPolicy::ExplicitOrReply`] | the program says so or answers | never; it may come twice |
//! | [`AckPolicy::Written`] | the line is in the program's pipe | the program ends before it reads the line |
//! | [`Mode::Exec`] | the program exits with 0 | never; it may come twice |
//!
//! # What is ended with the program
//!
//! Its process group, its descendants wherever they have gone, and what bears its mark in the environment. If the
//! runner itself is killed, the kernel kills the program, but not what the program has started; a container or a
//! systemd unit around the runner does.

mod config;
mod event;
pub(crate) mod exit;
mod heartbeat;
pub(crate) mod in_flight;
pub(crate) mod incarnation;
mod recent;
pub(crate) mod responder;
pub(crate) mod task_claimer;

use std::{mem, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use teamwire_proto::v1;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Mutex, watch},
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::{
    exit::{End, Exit, Why, not_joined},
    heartbeat::Work,
    incarnation::Incarnation,
    responder::Output,
};
use crate::adapters::{exec, stdin};
use teamwire_client::{Client, Error, Retry};

pub use config::{AckPolicy, Mode, OnEvent, OnJoined, OnShutdown, Restart, RunnerConfig};
pub use event::RunnerEvent;
pub use exit::{NOT_PERMITTED, OK, OUTCOME_UNKNOWN, RunnerExit, UNREACHABLE, USAGE};

/// How long a program must have run for its failure to be the first one again.
const SETTLED_AFTER: Duration = Duration::from_secs(60);

/// Runs a program as a member of a team.
#[derive(Debug)]
pub struct Runner {
    config: RunnerConfig,
    stop: CancellationToken,
    hurry: CancellationToken,
}

impl Runner {
    /// Makes a runner, which does nothing yet.
    pub fn new(config: RunnerConfig) -> Self {
        Self { config, stop: CancellationToken::new(), hurry: CancellationToken::new() }
    }

    /// Returns what ends the runner as SIGTERM does, when it is cancelled.
    pub fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Joins and runs the program, and returns when it and all that it has started are gone and its end is reported.
    ///
    /// Must be called within a Tokio runtime. Makes the whole process a child subreaper.
    pub async fn run(mut self) -> RunnerExit {
        #[cfg(target_os = "linux")]
        if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
            tracing::warn!(%error, "descendants that leave their parents cannot be followed");
        }
        let _signals = self
            .config
            .handles_signals
            .then(|| AbortOnDropHandle::new(tokio::spawn(listen_to_signals(self.stop.clone(), self.hurry.clone()))));
        let output = mem::replace(&mut self.config.output, Box::new(tokio::io::sink()));
        let output: Output = Arc::new(Mutex::new(output));
        let client = match Client::connect_with(&self.config.address, self.config.tls.clone()) {
            Ok(client) => client.with_retry(self.config.retry),
            Err(error) => return not_joined(&error),
        };
        let mut credential = mem::take(&mut self.config.credential);
        let mut patience = Retry::within(self.config.start_patience);
        let mut restarts = Restarts::new(self.config.restart);
        loop {
            let joining = self.join(&client, &credential, patience);
            let joined = tokio::select! {
                joined = joining => joined,
                () = self.stop.cancelled() => return stopped_while_joining(),
            };
            let (client, joined) = match joined {
                Ok(joined) => joined,
                Err(error) => return not_joined(&error),
            };
            credential.clone_from(&joined.credential);
            patience = self.config.retry;
            let began = Instant::now();
            let end = self.live(client.clone(), joined, &output).await;
            match restarts.next(&end, began.elapsed()) {
                Some(delay) if !self.stop.is_cancelled() => {
                    // Not reported: the next life begins with this one's credential, which cancels what was asked of
                    // the dead program and is never answered by its successor.
                    (self.config.on_event)(&RunnerEvent::Restarting { after: delay });
                    tokio::select! {
                        () = sleep(delay) => {}
                        () = self.stop.cancelled() => return self.report(&client, &end).await,
                    }
                }
                _ => return self.report(&client, &end).await,
            }
        }
    }

    /// Begins a life, and returns it with the client that bears its credential.
    async fn join(
        &self,
        client: &Client,
        credential: &str,
        patience: Retry,
    ) -> Result<(Client, v1::JoinResponse), Error> {
        let request = v1::JoinRequest {
            name: self.config.name.clone(),
            attributes: Some(self.config.attributes.clone()),
            ..Default::default()
        };
        let joined = client.with_credential(credential)?.with_retry(patience).join(request).await?;
        (self.config.on_joined)(&joined, client);
        let member = joined.member.clone().unwrap_or_default();
        (self.config.on_event)(&RunnerEvent::Joined {
            team: joined.team.clone().unwrap_or_default().name,
            member: member.name,
            incarnation: member.incarnation,
        });
        Ok((client.with_credential(&joined.credential)?, joined))
    }

    /// Lives one life.
    async fn live(&self, client: Client, joined: v1::JoinResponse, output: &Output) -> End {
        let (work, seen) = watch::channel(Work::default());
        let presence = heartbeat::run(client.clone(), seen, self.config.heartbeat_interval, self.config.idle_after);
        let _presence = AbortOnDropHandle::new(tokio::spawn(presence));
        let life = Incarnation {
            config: &self.config,
            client,
            joined,
            output: output.clone(),
            work,
            stop: self.stop.clone(),
            hurry: self.hurry.clone(),
        };
        match self.config.mode {
            Mode::Stdin { ack } => stdin::run(&life, ack).await,
            Mode::Exec { batch_messages_max } => exec::run(&life, batch_messages_max).await,
        }
    }

    /// Reports the end of a life and returns how the runner ends.
    async fn report(&self, client: &Client, end: &End) -> RunnerExit {
        if !end.is_reported() {
            return end.runner_exit(false);
        }
        let exit = end.exit.clone().unwrap_or(Exit { code: Some(0), ..Exit::default() });
        let request = v1::LeaveRequest { exit: Some(exit.report()) };
        // The credential of this life proves who reports. A session that a reconnect has opened without the runner
        // learning of it must not keep the exit from being told.
        let client = client.without_session().with_retry(Retry::within(self.config.report_patience));
        let is_report_lost = tokio::select! {
            left = client.leave(request) => match left {
                Ok(_) => false,
                // Refused means that somebody else has ended this life, or has begun another one.
                Err(Error::Refused(refusal)) => refusal.reason.is_retryable(),
                Err(error) => {
                    tracing::warn!(%error, "the exit could not be reported");
                    true
                }
            },
            () = self.hurry.cancelled() => true,
        };
        end.runner_exit(is_report_lost)
    }
}

fn stopped_while_joining() -> RunnerExit {
    let detail = "The runner was told to end while it was joining. It may have become a member, which is called lost \
                  when its lease has run out.";
    RunnerExit { code: OUTCOME_UNKNOWN, detail: detail.to_owned() }
}

/// Tells the runner to end at the first signal, and to hurry at the second.
async fn listen_to_signals(stop: CancellationToken, hurry: CancellationToken) {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let Ok([mut terminate, mut interrupt, mut hangup]) = listeners(kinds) else {
        return tracing::warn!("signals cannot be listened to");
    };
    for told in [stop, hurry] {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        told.cancel();
    }
}

fn listeners(kinds: [SignalKind; 3]) -> std::io::Result<[tokio::signal::unix::Signal; 3]> {
    let [terminate, interrupt, hangup] = kinds.map(signal);
    Ok([terminate?, interrupt?, hangup?])
}

/// Decides whether and when a program is started again.
struct Restarts {
    policy: Restart,
    failures: u32,
    delays: ExponentialBackoff,
}

impl Restarts {
    fn new(policy: Restart) -> Self {
        Self { policy, failures: 0, delays: Self::delays() }
    }

    /// Returns how long to wait before the next start. None: there is none.
    fn next(&mut self, end: &End, ran: Duration) -> Option<Duration> {
        let Restart::OnFailure { failures_max } = self.policy else { return None };
        let has_failed = matches!(end.why, Why::Exited) && end.exit.as_ref().is_some_and(|exit| !exit.is_success());
        if !has_failed {
            return None;
        }
        if ran >= SETTLED_AFTER {
            *self = Self::new(self.policy);
        }
        self.failures += 1;
        (self.failures < failures_max.max(1)).then(|| self.delays.next()).flatten()
    }

    fn delays() -> ExponentialBackoff {
        ExponentialBuilder::new().with_max_delay(Duration::from_secs(60)).without_max_times().build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(why: Why, code: i32) -> End {
        End { why, exit: Some(Exit { code: Some(code), ..Exit::default() }), is_outcome_unknown: false }
    }

    #[test]
    fn only_failures_are_restarted_and_only_so_often() {
        let mut restarts = Restarts::new(Restart::OnFailure { failures_max: 4 });
        assert_eq!(restarts.next(&end(Why::Exited, 0), Duration::ZERO), None);
        assert_eq!(restarts.next(&end(Why::Approved, 1), Duration::ZERO), None);
        for seconds in [1, 2, 4] {
            assert_eq!(restarts.next(&end(Why::Exited, 1), Duration::ZERO), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(restarts.next(&end(Why::Exited, 1), Duration::ZERO), None);
        assert_eq!(restarts.next(&end(Why::Exited, 1), SETTLED_AFTER), Some(Duration::from_secs(1)));
        assert_eq!(Restarts::new(Restart::Never).next(&end(Why::Exited, 1), Duration::ZERO), None);
    }
}
