//! Runs a program as a member of a team, and answers on its behalf.
//!
//! The runner joins, keeps the subscription open, hands messages to the program, acknowledges what the program has
//! proven to have processed, ends the program and everything it has started when its shutdown is approved, and reports
//! how it exited. The program does not notice when a coordinator restarts. It ends only when it exits by itself, when
//! the member cannot continue (shutdown approved, left, stopped by force, superseded, team deleted, credential
//! refused), or when the runner is asked to stop; never because a shutdown request has arrived.
//!
//! # What a program reads and writes in [`Mode::Stdin`](crate::Mode::Stdin)
//!
//! Its input is lines of JSON. The first is `{"type": "welcome", "team": …, "member": …, "incarnation": …}`. Each
//! message is the object of [`dialect::write`](teamwire_proto::dialect::write()) plus `text`, the form in which an
//! agent reads it, and `delivery_count`. Of its output, these lines are for the runner; all others are passed on:
//! - `{"ack": "MESSAGE_ID"}`, or a list of ids: the message is processed.
//! - A SendMessage in either dialect: it is sent. With `in_reply_to`, or as the answer to a request, it also
//!   acknowledges the message that it answers. The program reads `{"type": "sent", "message_id": …, "request": …}`, or
//!   `{"type": "error", "reason": …, "field": …, "message": …, "request": …}`, where `request` is what it wrote. A line
//!   that the program merely echoes is not sent.
//! - `{"activity": "…"}` and `{"usage": {…}}`: what the program does and uses, for people who watch.
//!
//! When its shutdown is approved, the program reads the end of its input, and has [`RunnerConfig::wrap_up`] to finish
//! and exit before it gets SIGTERM.
//!
//! A session has at most 64 unacknowledged messages: a program that never acknowledges gets 64, and then nothing but a
//! shutdown request. That also overtakes lines that the program has not read.
//!
//! With [`RunnerConfig::takes_tasks`], a line `{"type": "task", "task_id": …, "subject": …, "description": …,
//! "metadata": …, "attempt": …, "claim_token": …, "text": …}` is a task that the runner claimed while the program had
//! nothing in hand. The program writes `{"complete": TASK_ID, "result": "…"}` when it is done, or `{"release": TASK_ID,
//! "reason": "…"}` to give it back, and reads `{"type": "completed", …}`, `{"type": "released", …}` or an error.
//! `teamwire task complete` works as well. A program that must have a plan approved first reads `"plan_required": true`
//! in its welcome.
//!
//! # In [`Mode::Exec`](crate::Mode::Exec)
//!
//! Each batch of messages gets a program, which reads the messages as the same lines (without a welcome) until its
//! input ends. Exit code 0 means that the batch is processed; lines of output that are a SendMessage are sent, and the
//! rest is a reply to the last sender. A batch that fails is retried one message at a time. Each time the program fails
//! on a single message, the runner renews the session, and the coordinator counts another delivery. After the fifth, it
//! moves the message to the dead letters, and notifies its sender and the lead.
//!
//! The runner approves a shutdown request between two batches, without a program. With
//! [`OnShutdown::Ask`](crate::OnShutdown::Ask), a program reads the request alone: exit code 0 approves it, and any
//! other rejects it with the output as the reason, unless a line of the output answers it.
//!
//! A claimed task gets a program in the same way. It reads the line of the task; exit code 0 completes the task with
//! the output as its result, and any other puts the task back on the board.
//!
//! # What counts as processed
//!
//! | | a message is processed when | it is lost when |
//! |---|---|---|
//! | [`AckPolicy::ExplicitOrReply`](crate::AckPolicy::ExplicitOrReply) | the program says so or answers | never; it may be delivered twice |
//! | [`AckPolicy::Written`](crate::AckPolicy::Written) | the pipe took the line | the program ends before it reads the line |
//! | [`Mode::Exec`](crate::Mode::Exec) | the program exits with 0 | never; it may be delivered twice |
//!
//! # What ends with the program
//!
//! Its process group, its descendants wherever they have gone, and every process with its mark in the environment; in a
//! cgroup ([`Containment`](crate::Containment)), everything in it. If the runner itself is killed, its watchdog kills
//! the same ([`RunnerConfig::watchdog`]). Without a watchdog the kernel kills the program, but not what the program has
//! started.

mod restarts;
mod signals;

use std::{env, mem, pin::pin, sync::Arc, time::Duration};

use teamwire_client::{Client, Error, Retry};
use teamwire_proto::{credential::Credential, v1};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::restarts::Restarts;
use crate::{
    adapters,
    config::RunnerConfig,
    event::RunnerEvent,
    exit::{End, Exit, RunnerExit, Why, exit_code, not_joined, not_ready},
    hurry::Hurry,
    incarnation::{CarriedState, Incarnation, Passthrough, ProgramSession},
    process::{Boundary, check_program},
};

/// How long the report of an exit may take before the runner says that it waits for it.
const DELAY_TOLD_AFTER: Duration = Duration::from_secs(1);

/// Runs a program as a member of a team.
#[derive(Debug)]
pub struct Runner {
    config: RunnerConfig,
    stop: CancellationToken,
    hurry: Hurry,
}

impl Runner {
    /// Creates a runner, which does nothing yet.
    pub fn new(config: RunnerConfig) -> Self {
        Self { config, stop: CancellationToken::new(), hurry: Hurry::default() }
    }

    /// Returns a token that ends the runner, as SIGTERM does, when it is cancelled.
    pub fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Joins and runs the program. Returns when the program and everything it has started are gone and its exit is
    /// reported.
    ///
    /// Must be called within a Tokio runtime. Makes the whole process a child subreaper.
    pub async fn run(mut self) -> RunnerExit {
        #[cfg(target_os = "linux")]
        if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
            tracing::warn!(%error, "cannot follow descendants that leave their parents");
        }
        // A restart must find the directory again by its path, not as one that was removed.
        self.config.directory = self.config.directory.take().or_else(|| env::current_dir().ok());
        let _signals = self
            .config
            .handles_signals
            .then(|| AbortOnDropHandle::new(tokio::spawn(signals::listen(self.stop.clone(), self.hurry.clone()))));
        if let Err(exit) = self.check_program() {
            return exit;
        }
        let boundary = match Boundary::prepare(&self.config) {
            Ok(boundary) => Arc::new(boundary),
            Err(why) => return no_cgroup(&why),
        };
        if let Some(detail) = boundary.weakness() {
            (self.config.on_event)(&RunnerEvent::Uncontained { detail });
        }
        let passthrough = Passthrough::new(mem::replace(&mut self.config.output, Box::new(tokio::io::sink())));
        let session = ProgramSession::default();
        let mut carried = CarriedState { passthrough, session, was_ready: false, last_calls_by: None };
        let client = match Client::connect_with(&self.config.address, self.config.tls.clone()) {
            Ok(client) => client.with_retry(self.config.retry),
            Err(error) => return not_joined(&error),
        };
        // A join token makes another member, which has no earlier runner.
        let mut may_resume = matches!(Credential::parse(&self.config.credential), Ok(Credential::Member { .. }));
        let mut credential = mem::take(&mut self.config.credential);
        let mut patience = Retry::within(self.config.start_patience);
        let mut restarts = Restarts::new(self.config.restart);
        let mut previous_exit = None;
        loop {
            let joined = tokio::select! {
                joined = self.join(&client, &credential, patience, previous_exit.take()) => joined,
                () = self.stop.cancelled() => return stopped_while_joining(),
            };
            let (client, joined) = match joined {
                Ok(joined) => joined,
                Err(error) => return not_joined(&error),
            };
            credential.clone_from(&joined.credential);
            patience = self.config.retry;
            let began = Instant::now();
            if mem::take(&mut may_resume) {
                carried.session = ProgramSession::left(&self.config, &joined);
                if let Some(session_id) = carried.session.id.clone() {
                    (self.config.on_event)(&RunnerEvent::SessionResumed { session_id });
                }
            }
            let end = self.live(client.clone(), joined.clone(), boundary.clone(), &mut carried).await;
            let last_calls_by = carried.last_calls_by.take();
            let was_ordered = joined.member.as_ref().is_some_and(|member| !member.spawned_on.is_empty());
            if was_ordered && !carried.was_ready && matches!(end.why, Why::Exited) {
                // Its host refuses the order, with what the program wrote. A report would cancel the order.
                return not_ready(&end.exit.unwrap_or_default());
            }
            let Some(delay) = restarts.next(&end, began.elapsed()).filter(|_| !self.stop.is_cancelled()) else {
                if !end.why.leaves_member() {
                    ProgramSession::forget(&self.config, &joined);
                }
                return self.report(&client, &end, last_calls_by).await;
            };
            self.hurry.wait_no_longer();
            // The next incarnation reports this exit when it joins with this credential. Joining cancels the requests
            // made to the dead program, which its successor will never answer. Until then the member stays in the team.
            previous_exit = end.exit.as_ref().map(Exit::report);
            (self.config.on_event)(&RunnerEvent::Restarting { after: delay });
            tokio::select! {
                () = sleep(delay) => {}
                () = self.stop.cancelled() => return self.report(&client, &end, None).await,
            }
        }
    }

    fn check_program(&self) -> Result<(), RunnerExit> {
        let program = self.config.command.first().ok_or_else(|| RunnerExit {
            code: exit_code::USAGE,
            detail: "There is no program to run. Name one.".to_owned(),
        })?;
        check_program(program, self.config.path(), self.config.directory.as_deref())
    }

    /// Begins an incarnation, and returns a client with its credential.
    async fn join(
        &self,
        client: &Client,
        credential: &str,
        patience: Retry,
        previous_exit: Option<v1::ExitReport>,
    ) -> Result<(Client, v1::JoinResponse), Error> {
        let request = v1::JoinRequest {
            name: self.config.name.clone(),
            attributes: Some(self.config.attributes.clone()),
            previous_exit,
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

    /// Runs one incarnation until it ends.
    async fn live(
        &self,
        client: Client,
        joined: v1::JoinResponse,
        boundary: Arc<Boundary>,
        carried: &mut CarriedState,
    ) -> End {
        let (stop, hurry) = (self.stop.clone(), self.hurry.clone());
        let mut incarnation = Incarnation::begin(&self.config, client, joined, carried, boundary, stop, hurry);
        incarnation.follow_work().await;
        adapters::run(self.config.mode, &mut incarnation).await
    }

    /// Reports the end of an incarnation, and returns how the runner ends. `by`: until when to try. If `None`, it tries
    /// for the whole [`RunnerConfig::report_patience`].
    async fn report(&self, client: &Client, end: &End, by: Option<Instant>) -> RunnerExit {
        if !end.why.is_reported() {
            return end.runner_exit(false);
        }
        let patience = by.map_or(self.config.report_patience, |by| by.saturating_duration_since(Instant::now()));
        let exit = end.exit.clone().unwrap_or_else(Exit::without_program);
        let request = v1::LeaveRequest { exit: Some(exit.report()), ..v1::LeaveRequest::default() };
        // The credential alone proves who reports. So the report names no session. Otherwise the coordinator would
        // refuse it if it had opened a newer session that the runner does not know of.
        let client = client.without_session().with_retry(Retry::within(patience));
        let mut call = pin!(self.hurry.bound(client.leave(request)));
        let reported = match timeout(DELAY_TOLD_AFTER, &mut call).await {
            Ok(reported) => reported,
            Err(_) => {
                if self.hurry.wait_for_coordinator() {
                    (self.config.on_event)(&RunnerEvent::ReportDelayed { patience });
                }
                call.await
            }
        };
        let is_report_lost = match reported {
            Some(Ok(_)) => false,
            // Any other refusal means that this incarnation was ended by another call, or replaced.
            Some(Err(Error::Refused(refusal))) => refusal.reason.is_retryable() || !refusal.reason.is_outcome_known(),
            Some(Err(error)) => {
                tracing::warn!(%error, "the exit could not be reported");
                true
            }
            None => true,
        };
        end.runner_exit(is_report_lost)
    }
}

fn no_cgroup(why: &str) -> RunnerExit {
    let detail = format!(
        "This runner cannot create a cgroup: {why}. Use `--containment watchdog`, or run it in a unit that systemd \
                          delegates. The member has not joined."
    );
    RunnerExit { code: exit_code::USAGE, detail }
}

fn stopped_while_joining() -> RunnerExit {
    let detail = "The runner was asked to stop while it was joining. If the coordinator has accepted the join, it reports the \
                  member as lost when the lease expires.";
    RunnerExit { code: exit_code::OUTCOME_UNKNOWN, detail: detail.to_owned() }
}
