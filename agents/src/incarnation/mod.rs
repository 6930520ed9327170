//! One incarnation of the member: from its Join to the end of its program.
//!
//! [`Incarnation`] owns everything that changes during that time: the session, the messages that wait, the messages and
//! tasks in flight, the call in progress for the program, and the call that claims the next task. An adapter holds it
//! and alternates between [`Incarnation::next`], which handles what the coordinator sends, and its own program.

mod activity;
mod answers;
mod background;
mod heartbeat;
mod in_flight;
mod intake;
mod own_requests;
mod passthrough;
mod program;
mod program_output;
mod program_session;
mod recent_ids;
mod refusals;
mod responder;
mod task_claimer;
mod telemetry;
mod transcript;
mod welcome;
mod work;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde_json::Value;
use teamwire_client::{Client, Delivery, Retry, SubscribeOptions, Subscription};
use teamwire_proto::v1;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::{
    activity::ActivityReporter, background::Background, heartbeat::InHand, in_flight::InFlight, intake::Approval,
    own_requests::OwnRequests, responder::Responder, task_claimer::TaskClaimer, telemetry::Telemetry, work::Tracker,
};
pub(crate) use self::{
    activity::{BudgetNews, EndedTurn, ProgramState},
    intake::{goes_first, is_urgent},
    passthrough::Passthrough,
    program::Additions,
    program_session::ProgramSession,
    refusals::{Next, Refusals},
    responder::Action,
    task_claimer::delay_after,
};
use crate::{
    config::{Mode, RunnerConfig},
    event::RunnerEvent,
    exit::Why,
    hurry::Hurry,
    line_protocol::input_lines::{self, InputLine},
    process::Boundary,
    transcript::Transcript,
};

/// How many messages a session delivers without acknowledgement.
const WINDOW_MESSAGES: usize = 64;

/// How long the session waits for an agent program that starts. Then it opens, so that the runner learns if the member
/// is stopped.
const READY_PATIENCE: Duration = Duration::from_secs(30);

/// How long the last acknowledgements may take when a session ends. The coordinator delivers messages that are not
/// acknowledged by then again.
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);

/// How long the last report of activity may take when a session ends.
const LAST_REPORT_DEADLINE: Duration = Duration::from_secs(2);

/// How long it may take to look up whether a shutdown was approved.
const LOOK_UP_DEADLINE: Duration = Duration::from_secs(10);

/// One incarnation of the member.
pub(crate) struct Incarnation<'a> {
    pub(crate) config: &'a RunnerConfig,
    /// Cancelled: the runner must end.
    pub(crate) stop: CancellationToken,
    /// Begun: the runner must end without a grace period.
    pub(crate) hurry: Hurry,
    /// What the next incarnation continues with.
    pub(crate) carried: &'a mut CarriedState,
    own_requests: OwnRequests,
    boundary: Arc<Boundary>,
    client: Client,
    joined: v1::JoinResponse,
    options: SubscribeOptions,
    subscription: Subscription,
    /// Cancelled: the session may open.
    may_open: CancellationToken,
    /// When the session was lost. `None` if it is open, or the first one has yet to open.
    lost_at: Option<Instant>,
    in_flight: InFlight,
    /// Messages that were not handed over yet, shutdown requests first. The credit of the session bounds them.
    waiting: VecDeque<Box<Delivery>>,
    /// Tasks that were claimed and not handed over yet.
    claims: VecDeque<v1::Claim>,
    task_claimer: TaskClaimer,
    /// The approvals that the runner itself is sending.
    approvals: JoinSet<Approval>,
    /// The runner has approved the member's shutdown. The end of the session follows.
    has_approved: bool,
    responder: Responder,
    /// Whether the program is writing a line that is too long and was refused. The rest of it is dropped.
    is_dropping: bool,
    /// Whether the program is writing a line that is too long, of which the beginning was read.
    is_within_long: bool,
    /// The last report to the lead that the program failed.
    failure_report: Option<Background<()>>,
    reporter: ActivityReporter,
    /// How many turns of the program have ended.
    turns: u64,
    /// What the current process of the program has used.
    used: v1::Usage,
    /// What the processes before it have used in this life.
    used_earlier: v1::Usage,
    transcript: Option<Arc<Transcript>>,
    /// Records turns for OpenTelemetry. `None` if the program has none.
    telemetry: Option<Telemetry>,
    /// Follows the member's work in its repository. `None` if the program does not work in one.
    work: Option<Arc<Tracker>>,
    following: Option<Background<()>>,
    /// How much the member has in hand.
    in_hand: watch::Receiver<InHand>,
    /// Merges of what was approved.
    merges: JoinSet<()>,
    /// Answers to those who ask for what only the runner has.
    answers: JoinSet<()>,
    _heartbeat: Background<()>,
}

/// What outlives an incarnation, for use by the next one.
pub(crate) struct CarriedState {
    pub(crate) passthrough: Passthrough,
    /// The program's own session, which a restarted program resumes.
    pub(crate) session: ProgramSession,
    /// Whether a program was ready to work in this incarnation or an earlier one.
    pub(crate) was_ready: bool,
    /// Until when the last calls of an incarnation may be retried. `None` if it has not come to them.
    pub(crate) last_calls_by: Option<Instant>,
}

/// What [`Incarnation::next`] brings.
pub(crate) enum IncarnationEvent {
    /// The program must end.
    End(Why),
    /// The reply to something that the program wrote.
    Reply(Value),
    /// The waiting messages and tasks, or the actions that are possible now, have changed.
    Changed,
}

impl<'a> Incarnation<'a> {
    /// Starts the heartbeat of a member that has joined, and opens its session. The session of an agent program opens
    /// once the program is ready: see [`Incarnation::note_ready`].
    pub(crate) fn begin(
        config: &'a RunnerConfig,
        client: Client,
        joined: v1::JoinResponse,
        carried: &'a mut CarriedState,
        boundary: Arc<Boundary>,
        stop: CancellationToken,
        hurry: Hurry,
    ) -> Self {
        let (in_hand, seen) = watch::channel(InHand::default());
        let heartbeat = heartbeat::run(client.clone(), seen.clone(), config.heartbeat_interval, config.idle_after);
        let options = SubscribeOptions { instance_id: Uuid::new_v4().to_string(), ..SubscribeOptions::default() };
        let may_open = CancellationToken::new();
        if !matches!(config.mode, Mode::Agent(_)) {
            may_open.cancel();
            carried.was_ready = true;
        }
        let opens = may_open.clone();
        let subscription = client.subscribe_after(
            async move {
                let _ = timeout(READY_PATIENCE, opens.cancelled()).await;
            },
            options.clone(),
        );
        let mut begun = Self {
            config,
            stop,
            hurry,
            carried,
            own_requests: OwnRequests::default(),
            boundary,
            in_flight: InFlight::new(subscription.acks(), in_hand, matches!(config.mode, Mode::Exec { .. })),
            task_claimer: TaskClaimer::new(client.clone(), config.takes_tasks),
            responder: Responder::new(client.clone(), config.working_directory()),
            reporter: ActivityReporter::new(client.clone()),
            turns: 0,
            used: v1::Usage::default(),
            used_earlier: v1::Usage::default(),
            transcript: transcript::open(config, &joined),
            telemetry: Telemetry::new(config, &joined),
            work: None,
            following: None,
            in_hand: seen,
            merges: JoinSet::new(),
            answers: JoinSet::new(),
            client,
            joined,
            options,
            subscription,
            may_open,
            lost_at: None,
            waiting: VecDeque::new(),
            claims: VecDeque::new(),
            approvals: JoinSet::new(),
            has_approved: false,
            is_dropping: false,
            is_within_long: false,
            failure_report: None,
            _heartbeat: background::start(heartbeat),
        };
        begun.take_over_usage();
        begun
    }

    /// Records that the program is ready to work, so that the session opens. That approves the order that the member
    /// was started for, if there is one.
    pub(crate) fn note_ready(&mut self) {
        self.carried.was_ready = true;
        self.may_open.cancel();
    }

    /// Waits for news: from the coordinator, of a call in progress, or that the runner must stop. Cancel-safe.
    pub(crate) async fn next(&mut self) -> IncarnationEvent {
        loop {
            let news = tokio::select! {
                biased;
                () = self.stop.cancelled() => Some(IncarnationEvent::End(Why::Stopped)),
                event = self.subscription.next() => self.take_in(event),
                Some(approval) = self.approvals.join_next() => {
                    if let Ok(approval) = approval {
                        self.conclude_approval(&approval);
                    }
                    Some(IncarnationEvent::Changed)
                }
                done = self.responder.done() => Some(IncarnationEvent::Reply(self.conclude(done))),
                () = self.carried.passthrough.write() => Some(IncarnationEvent::Changed),
                found = self.task_claimer.next(&self.in_flight) => self.take_in_task(found),
            };
            if let Some(news) = news {
                return news;
            }
        }
    }

    /// Waits for the call that is under way for the program, or for its output to be passed on. Cancel-safe.
    ///
    /// Unlike [`Incarnation::next`], it accepts nothing new from the coordinator. Returns the reply for the program, if
    /// there is one. Waits forever if nothing is under way.
    pub(crate) async fn finish_current(&mut self) -> Option<Value> {
        tokio::select! {
            done = self.responder.done() => Some(self.conclude(done)),
            () = self.carried.passthrough.write() => None,
        }
    }

    /// Returns whether something that the program said is still being carried out or passed on.
    pub(crate) fn is_busy(&self) -> bool {
        self.responder.is_busy() || !self.carried.passthrough.is_empty()
    }

    /// Returns whether the next line of the program's output may be read.
    pub(crate) fn can_listen(&self) -> bool {
        !self.is_busy()
    }

    /// Records that a new program starts, with the messages that it is handed from now on.
    pub(crate) fn begin_batch(&mut self) {
        self.in_flight.begin_batch();
        (self.is_dropping, self.is_within_long) = (false, false);
    }

    /// Returns the next message or task as a line, and records that the program has it.
    pub(crate) fn next_line(&mut self) -> Option<InputLine> {
        if let Some(delivery) = self.waiting.pop_front() {
            self.hand_over(&delivery);
            return Some(input_lines::message(&delivery));
        }
        self.next_task().map(|claim| input_lines::task(&claim))
    }

    /// Returns the messages that wait, the next one first.
    pub(crate) fn waiting(&mut self) -> &mut VecDeque<Box<Delivery>> {
        &mut self.waiting
    }

    /// Returns the ids of the team and the name of the member.
    pub(crate) fn ids(&self) -> Option<(String, String)> {
        let (team, member) = (self.joined.team.as_ref()?, self.joined.member.as_ref()?);
        Some((team.id.clone(), member.name.clone()))
    }

    /// Returns whether a message waits that ends the turn of the program.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.waiting.iter().any(|delivery| delivery.message.interrupt)
    }

    /// Removes the next claimed task from those that wait, and returns it.
    pub(crate) fn next_task(&mut self) -> Option<v1::Claim> {
        self.claims.pop_front()
    }

    /// Returns whether a message or a task waits.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.claims.is_empty()
    }

    /// Records that the program was handed a message.
    pub(crate) fn hand_over(&mut self, delivery: &Delivery) {
        self.in_flight.hand_over(&delivery.message);
        if let Some(telemetry) = &self.telemetry {
            telemetry.message(&delivery.message);
        }
        if self.in_flight.unacknowledged() == WINDOW_MESSAGES {
            self.tell(RunnerEvent::WindowFull { messages: WINDOW_MESSAGES });
        }
        let (message_id, delivery_count) = (delivery.message.id.clone(), delivery.delivery_count);
        self.tell(RunnerEvent::Handed { message_id, delivery_count });
    }

    /// Acknowledges a message that the program has proven to have processed.
    pub(crate) fn processed(&mut self, message_id: &str) {
        self.in_flight.processed(message_id);
    }

    /// Returns whether a task that was handed over is not closed yet.
    pub(crate) fn has_task(&self, task_id: u64) -> bool {
        self.in_flight.task_token(task_id).is_some()
    }

    /// Records that a task is closed.
    pub(crate) fn drop_task(&mut self, task_id: u64) {
        self.in_flight.drop_task(task_id);
    }

    /// Records that the program waits for messages, or has ended a turn. From now on, the member is idle unless the
    /// program has something in hand. `done_last`: one line of up to 200 characters about what it did last; empty:
    /// nothing.
    pub(crate) fn note_turn_ended(&mut self, done_last: &str) {
        self.in_flight.note_turn_ended(done_last);
    }

    /// Sets whether the runner waits before it tries a message again. Until then, the member does not become idle.
    pub(crate) fn set_retrying(&mut self, is_retrying: bool) {
        self.in_flight.set_retrying(is_retrying);
    }

    /// Sets whether the member claims no task for now.
    pub(crate) fn set_resting(&mut self, is_resting: bool) {
        self.in_flight.set_resting(is_resting);
    }

    /// Reports to the lead that the program failed. Replaces an earlier report that has not arrived yet.
    pub(crate) fn report_failure(&mut self, failure: v1::WorkFailure) {
        let client = self.client.clone();
        let request = v1::HeartbeatRequest { failure: Some(failure), ..v1::HeartbeatRequest::default() };
        self.failure_report = Some(background::start(async move {
            if let Err(error) = client.heartbeat(request).await {
                tracing::debug!(%error, "the failure was not reported");
            }
        }));
    }

    /// Gives everything that is not acknowledged back to the coordinator, which delivers it again in a new session. For
    /// the message at which the program has failed, that counts as another delivery; after the last one, it becomes a
    /// dead letter.
    pub(crate) async fn renew_session(&mut self, failed: &Delivery) {
        // First confirm the messages that were processed, so that they are not delivered again.
        let _ = timeout(FLUSH_DEADLINE, self.subscription.flush()).await;
        let options = SubscribeOptions { failed_sequences: vec![failed.sequence], ..self.options.clone() };
        self.subscription = self.client.subscribe(options);
        self.in_flight.renew(self.subscription.acks());
        self.waiting.clear();
        self.own_requests = OwnRequests::default();
    }

    /// Finishes the incarnation: flushes the last acknowledgements and the activity, and checks whether the shutdown
    /// was approved after all. Returns the reason to report.
    pub(crate) async fn settle(&mut self, why: Why) -> Why {
        self.begin_last_calls(&why);
        let hurry = self.hurry.clone();
        let why = match why {
            Why::Exited | Why::Stopped if hurry.bound(self.is_shutdown_approved()).await == Some(true) => Why::Approved,
            why => why,
        };
        // The end of the session overtakes the reply to the runner's own approval, which acknowledges the request.
        while matches!(why, Why::Approved)
            && let Some(Ok(Some(Ok(approval)))) = hurry.bound(timeout(FLUSH_DEADLINE, self.approvals.join_next())).await
        {
            self.conclude_approval(&approval);
        }
        if why.is_agreed() || matches!(why, Why::Exited | Why::Stopped) {
            let flushed = hurry.bound(timeout(FLUSH_DEADLINE, self.subscription.flush())).await;
            if !matches!(flushed, Some(Ok(Ok(())))) {
                tracing::debug!(?flushed, "the last acknowledgements were not confirmed");
            }
        }
        self.keep_work().await;
        self.finish_merges().await;
        let _ = hurry.bound(timeout(LAST_REPORT_DEADLINE, self.reporter.finish())).await;
        if let Some(mut report) = self.failure_report.take() {
            let _ = hurry.bound(timeout(LAST_REPORT_DEADLINE, background::finished(&mut report))).await;
        }
        if !self.carried.passthrough.is_empty() {
            let _ = hurry.bound(timeout(FLUSH_DEADLINE, self.carried.passthrough.write())).await;
        }
        why
    }

    /// Notes that only the last calls are left to make, and returns until when they may be retried. Says so if the
    /// coordinator is unreachable.
    pub(crate) fn begin_last_calls(&mut self, why: &Why) -> Instant {
        if let Some(by) = self.carried.last_calls_by {
            return by;
        }
        let patience = self.config.report_patience;
        if self.lost_at.is_some() && why.is_reported() && self.hurry.wait_for_coordinator() {
            self.tell(RunnerEvent::ReportDelayed { patience });
        }
        *self.carried.last_calls_by.insert(Instant::now() + patience)
    }

    /// Reports an event to the `on_event` callback.
    pub(crate) fn tell(&self, event: RunnerEvent) {
        self.record_event(&event);
        (self.config.on_event)(&event);
    }

    /// Returns whether a shutdown that the program was asked for is approved. The program may have approved it through
    /// the command line and exited before the coordinator's last frame came.
    async fn is_shutdown_approved(&mut self) -> bool {
        let client = self.client.clone().with_retry(Retry::within(LOOK_UP_DEADLINE));
        for request_id in self.in_flight.shutdown_requests().to_vec() {
            let request = v1::GetRequestRequest { team: String::new(), request_id: request_id.clone() };
            let reply = timeout(LOOK_UP_DEADLINE, client.get_request(request)).await;
            let state = match reply {
                Ok(Ok(v1::GetRequestResponse { request: Some(request) })) => request.state(),
                _ => v1::RequestState::Unspecified,
            };
            if state == v1::RequestState::Approved {
                self.in_flight.answered(&request_id);
                return true;
            }
        }
        false
    }
}
