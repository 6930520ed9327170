//! One life of a member: what all modes share of it.

use std::{process::Stdio, sync::Arc, time::Duration};

use serde_json::{Value, json};
use teamwire_proto::v1::{self, message::Body};
use tokio::{process::Command, sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    OnShutdown, RunnerConfig, RunnerEvent,
    exit::{Exit, Why},
    heartbeat::Work,
    in_flight::InFlight,
    responder::{Output, Responder},
    task_claimer::TaskClaimer,
};
use crate::process::Process;
use teamwire_client::{
    ADDRESS_VARIABLE, CA_VARIABLE, CERT_VARIABLE, CREDENTIAL_VARIABLE, Client, Closed, Delivery, Error, Event,
    JOIN_VARIABLE, KEY_VARIABLE, MEMBER_VARIABLE, Pem, Reason, Retry, Subscription, TEAM_VARIABLE, dialect,
};

use crate::text;

/// How long the last acknowledgements may take when a life ends. What is not acknowledged then comes again.
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);

/// How long the question may take whether a shutdown was approved.
const ASK_DEADLINE: Duration = Duration::from_secs(10);

/// A life of the member, from its Join on.
pub(crate) struct Incarnation<'a> {
    pub(crate) config: &'a RunnerConfig,
    pub(crate) client: Client,
    pub(crate) joined: v1::JoinResponse,
    pub(crate) output: Output,
    pub(crate) work: watch::Sender<Work>,
    /// The runner was told to end.
    pub(crate) stop: CancellationToken,
    /// It was told twice.
    pub(crate) hurry: CancellationToken,
}

/// What to do about an event.
pub(crate) enum Next {
    /// Hand a message over.
    Hand(Box<Delivery>),
    /// Go on.
    Wait,
    /// End.
    End(Why),
}

impl Incarnation<'_> {
    /// Starts the program with pipes at its input and output, and with what it needs to speak for itself.
    pub(crate) async fn start(&self) -> Result<Process, Exit> {
        let config = self.config;
        let Some((program, arguments)) = config.command.split_first() else {
            return Err(Exit::not_started(&std::io::Error::other("no command is given")));
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(config.environment.iter().map(|(name, value)| (name, value)));
        command.env(ADDRESS_VARIABLE, self.client.address()).env(CREDENTIAL_VARIABLE, &self.joined.credential);
        let tls = self.client.tls();
        for (variable, pem) in [(CA_VARIABLE, tls.ca), (CERT_VARIABLE, tls.cert), (KEY_VARIABLE, tls.key)] {
            match pem {
                // The program may run elsewhere.
                Some(Pem::File(path)) => command.env(variable, std::path::absolute(&path).unwrap_or(path)),
                Some(Pem::Text(text)) => command.env(variable, text),
                None => command.env_remove(variable),
            };
        }
        command.env_remove(JOIN_VARIABLE).env(TEAM_VARIABLE, self.team()).env(MEMBER_VARIABLE, self.member());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        if let Some(directory) = &config.directory {
            command.current_dir(directory);
        }
        let process =
            Process::start(command, config.claims_orphans).await.map_err(|error| Exit::not_started(&error))?;
        self.tell(RunnerEvent::Started { pid: process.pid() });
        Ok(process)
    }

    pub(crate) fn in_flight(&self, subscription: &Subscription) -> Arc<InFlight> {
        Arc::new(InFlight::new(subscription.acks(), self.work.clone()))
    }

    pub(crate) fn responder(&self, in_flight: &Arc<InFlight>) -> Responder {
        Responder {
            client: self.client.clone(),
            in_flight: in_flight.clone(),
            output: self.output.clone(),
            on_event: self.config.on_event.clone(),
        }
    }

    /// Decides what to do about an event of the subscription. Answers that the runner gives itself are put among
    /// `answers`.
    pub(crate) fn decide(
        &self,
        event: Option<Result<Event, Error>>,
        in_flight: &Arc<InFlight>,
        answers: &mut JoinSet<()>,
    ) -> Next {
        match event {
            Some(Ok(Event::Delivery(delivery))) => self.sort(delivery, in_flight, answers),
            Some(Ok(Event::Opened(opened))) => {
                self.tell(RunnerEvent::Connected { backlog: opened.backlog });
                Next::Wait
            }
            Some(Ok(Event::Lost { detail })) => {
                self.tell(RunnerEvent::Disconnected { detail });
                Next::Wait
            }
            Some(Ok(Event::ShutdownApproved { request_id })) => {
                in_flight.answered(&request_id);
                Next::End(Why::Approved)
            }
            Some(Ok(Event::Closed(closed))) => Next::End(Why::Closed(closed)),
            Some(Err(error)) => Next::End(Why::Refused(error)),
            // A kind of event that a later client adds.
            Some(Ok(_)) => Next::Wait,
            None => Next::End(Why::Closed(Closed::Dropped)),
        }
    }

    fn sort(&self, delivery: Box<Delivery>, in_flight: &Arc<InFlight>, answers: &mut JoinSet<()>) -> Next {
        let request_id = delivery.message.request_id.clone();
        if !matches!(delivery.message.body, Some(Body::ShutdownRequest(_))) {
            return Next::Hand(delivery);
        }
        self.tell(RunnerEvent::ShutdownRequested { request_id: request_id.clone() });
        in_flight.asked_to_end(&request_id);
        if self.config.on_shutdown == OnShutdown::Ask {
            return Next::Hand(delivery);
        }
        let (client, on_event) = (self.client.clone(), self.config.on_event.clone());
        answers.spawn(async move {
            match client.approve_shutdown(&request_id).await {
                Ok(_) => delivery.ack(),
                Err(error) => {
                    // There is nothing to answer any more.
                    let too_late = [
                        Reason::RequestExpired,
                        Reason::RequestCancelled,
                        Reason::AlreadyDecided,
                        Reason::RequestNotFound,
                    ];
                    if error.reason().is_some_and(|reason| too_late.contains(&reason)) {
                        delivery.ack();
                    }
                    on_event(&RunnerEvent::NotSent { detail: error.to_string() });
                }
            }
        });
        Next::Wait
    }

    /// Ends the program as its reason demands.
    pub(crate) async fn end(&self, process: &mut Process, why: &Why) -> Exit {
        match why {
            // What it has left behind is ended in the same way.
            Why::Exited => {}
            Why::Approved => self.tell_ending("the shutdown was approved"),
            Why::Stopped => self.tell_ending("the runner was told to end"),
            Why::Closed(closed) => self.tell_ending(&closed.to_string()),
            Why::Refused(error) => self.tell_ending(&error.to_string()),
        }
        let exit = match why {
            Why::Closed(Closed::MemberStopped) => process.kill().await,
            _ => process.end(self.config.grace, &self.hurry).await,
        };
        self.tell(RunnerEvent::Exited { code: exit.code, signal: exit.signal });
        exit
    }

    /// Settles what is open when a life ends: was the shutdown approved after all, and the last acknowledgements.
    pub(crate) async fn settle(&self, why: Why, subscription: &Subscription, in_flight: &InFlight) -> Why {
        let why = match why {
            Why::Exited | Why::Stopped if self.approved(in_flight).await => Why::Approved,
            why => why,
        };
        if matches!(why, Why::Approved | Why::Exited | Why::Stopped) {
            let flushed = timeout(FLUSH_DEADLINE, subscription.flush_acks()).await;
            if !matches!(flushed, Ok(Ok(()))) {
                tracing::debug!(?flushed, "the last acknowledgements were not confirmed");
            }
        }
        why
    }

    /// Returns whether a shutdown that the program was asked for is approved. It may have said so through the command
    /// line and ended before the coordinator's last frame came.
    async fn approved(&self, in_flight: &InFlight) -> bool {
        let client = self.client.clone().with_retry(Retry::within(ASK_DEADLINE));
        for request_id in in_flight.shutdowns() {
            let asked = v1::GetRequestRequest { team: String::new(), request_id: request_id.clone() };
            let answer = timeout(ASK_DEADLINE, client.get_request(asked)).await;
            let state = match answer {
                Ok(Ok(v1::GetRequestResponse { request: Some(request) })) => request.state(),
                _ => v1::RequestState::Unspecified,
            };
            if state == v1::RequestState::Approved {
                in_flight.answered(&request_id);
                return true;
            }
        }
        false
    }

    /// Returns the first line that a program reads.
    pub(crate) fn welcome(&self) -> Value {
        let incarnation = self.joined.member.as_ref().map(|member| member.incarnation).unwrap_or_default();
        let mut welcome =
            json!({"type": "welcome", "team": self.team(), "member": self.member(), "incarnation": incarnation});
        if self.joined.member.as_ref().is_some_and(|member| member.plan_required) {
            welcome["plan_required"] = json!(true);
            welcome["text"] = json!(text::plan_required());
        }
        welcome
    }

    /// Returns what takes tasks for this life, where that was asked for.
    pub(crate) fn taker(&self, in_flight: &Arc<InFlight>) -> TaskClaimer {
        if !self.config.takes_tasks {
            return TaskClaimer::none();
        }
        TaskClaimer::start(self.client.clone(), in_flight.clone(), self.config.on_event.clone())
    }

    pub(crate) fn team(&self) -> &str {
        self.joined.team.as_ref().map(|team| team.name.as_str()).unwrap_or_default()
    }

    pub(crate) fn member(&self) -> &str {
        self.joined.member.as_ref().map(|member| member.name.as_str()).unwrap_or_default()
    }

    pub(crate) fn tell(&self, progress: RunnerEvent) {
        (self.config.on_event)(&progress);
    }

    pub(crate) fn tell_handed(&self, delivery: &Delivery) {
        let (message_id, delivery_count) = (delivery.message.id.clone(), delivery.delivery_count);
        self.tell(RunnerEvent::Handed { message_id, delivery_count });
    }

    fn tell_ending(&self, why: &str) {
        self.tell(RunnerEvent::Ending { why: why.to_owned() });
    }
}

/// Writes a message as the line that a program reads.
pub(crate) fn line(delivery: &Delivery) -> String {
    let mut line = dialect::write(&delivery.message);
    line["text"] = json!(text::teammate_message(&delivery.message));
    line["delivery_count"] = json!(delivery.delivery_count);
    format!("{line}\n")
}
