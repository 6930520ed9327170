//! Turns the program's permission requests and plans into requests to the team, and returns the answers. Answers by itself
//! what a permission rule of the team permits.

use std::{collections::HashMap, future::pending, time::Duration};

use teamwire_client::{Client, Error, Reason, Retry, message};
use teamwire_proto::{
    permission_rule,
    v1::{self, RequestState, send_request::Body},
    word,
};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Agent,
    describe::{ACTIVITY_CHARS_MAX, first_line},
    protocol::{Decision, PermissionRequest},
    spending,
};
use crate::{agent_text::escaped, config::Permissions, event::RunnerEvent, incarnation::Incarnation};

/// How long one wait for a decision lasts. The request's own deadline ends it earlier.
const WAIT: Duration = Duration::from_secs(3_600);

/// How long to wait before the next question while no member is left that could answer.
const ANSWERER_LOST_WAIT: Duration = Duration::from_secs(5);

/// How long it may take to withdraw the requests of a process that is gone.
const WITHDRAWAL_DEADLINE: Duration = Duration::from_secs(5);

/// How many answers may wait for the loop. A call with a further answer waits until there is room.
const ANSWERS_MAX: usize = 32;

/// The outcome of a permission request or a plan.
#[derive(Debug)]
pub(super) enum Answered {
    /// The request with this id was made for it. `None` if none could be made.
    Asked(Option<String>),
    /// It was decided.
    Decided(String, Decision),
    /// This permission rule permits it.
    Permitted(String, Box<v1::PermissionRule>),
}

/// The permission requests and plans of a program that are not decided yet.
#[derive(Debug)]
pub(super) struct PermissionRequests {
    asking: JoinSet<()>,
    /// Cancelled when the program no longer waits.
    by_key: HashMap<String, CancellationToken>,
    /// How many of them are being made: their ids are not known yet.
    unnamed: usize,
    sender: mpsc::Sender<Answered>,
    answers: mpsc::Receiver<Answered>,
}

impl Default for PermissionRequests {
    fn default() -> Self {
        let (sender, answers) = mpsc::channel(ANSWERS_MAX);
        Self { asking: JoinSet::new(), by_key: HashMap::new(), unnamed: 0, sender, answers }
    }
}

impl PermissionRequests {
    /// Submits a plan to the team's lead.
    pub(super) fn ask_for_plan(&mut self, key: String, plan: String, incarnation: &mut Incarnation<'_>) {
        let summary = plan.lines().map(|line| line.trim_matches(['#', ' '])).find(|line| !line.is_empty());
        let summary = line(summary.unwrap_or_default(), "A plan");
        self.ask(key, message::plan_approval_request(plan, summary), incarnation);
    }

    /// Asks the approver for permission.
    pub(super) fn ask_for_permission(&mut self, asked: PermissionRequest, incarnation: &mut Incarnation<'_>) {
        let (tool, summary) = (line(&asked.tool, "a tool"), line(&asked.summary, &asked.tool));
        let approver = &incarnation.config.agent.approver;
        let mut request = message::permission_request(approver, tool, summary, cut(asked.detail));
        if let Some(Body::PermissionRequest(body)) = &mut request.body {
            body.tool_use = asked.tool_use;
        }
        self.ask(asked.key, request, incarnation);
    }

    /// Asks the lead for something that the runner itself needs.
    pub(super) fn ask_the_lead(&mut self, asked: PermissionRequest, incarnation: &mut Incarnation<'_>) {
        let request = message::permission_request("", asked.tool, line(&asked.summary, ""), asked.detail);
        self.ask(asked.key, request, incarnation);
    }

    /// The program no longer waits for a decision: withdraws the request.
    pub(super) fn withdraw(&mut self, key: &str) {
        if let Some(withdrawn) = self.by_key.remove(key) {
            withdrawn.cancel();
        }
    }

    /// Withdraws all requests: the process that waited for them is gone. Returns the ids of those that were being made,
    /// as far as they are known by now.
    pub(super) async fn withdraw_all(mut self) -> Vec<Option<String>> {
        self.by_key.values().for_each(CancellationToken::cancel);
        let mut named = Vec::new();
        let withdrawing = async {
            loop {
                tokio::select! {
                    biased;
                    Some(answered) = self.answers.recv() => if let Answered::Asked(id) = answered {
                        named.push(id);
                    },
                    done = self.asking.join_next() => if done.is_none() {
                        break;
                    },
                }
            }
        };
        if timeout(WITHDRAWAL_DEADLINE, withdrawing).await.is_err() {
            tracing::debug!("not every request of a process that is gone was withdrawn");
        }
        named.resize(self.unnamed, None);
        named
    }

    /// Waits for the next answer. Cancel-safe.
    pub(super) async fn next(&mut self) -> Answered {
        while self.asking.try_join_next().is_some() {}
        let Some(answered) = self.answers.recv().await else { return pending().await };
        match &answered {
            Answered::Asked(_) => self.unnamed -= 1,
            Answered::Decided(key, _) | Answered::Permitted(key, _) => _ = self.by_key.remove(key),
        }
        answered
    }

    fn ask(&mut self, key: String, request: v1::SendRequest, incarnation: &mut Incarnation<'_>) {
        incarnation.begin_own_request();
        self.unnamed += 1;
        let (client, sender) = (incarnation.client(), self.sender.clone());
        let withdrawn = CancellationToken::new();
        self.by_key.insert(key.clone(), withdrawn.clone());
        self.asking.spawn(async move {
            let rule = tokio::select! {
                rule = rule_for(&client, &request) => rule,
                () = withdrawn.cancelled() => None,
            };
            if rule.is_some() || withdrawn.is_cancelled() {
                let _ = sender.send(Answered::Asked(None)).await;
                if let Some(rule) = rule {
                    let _ = sender.send(Answered::Permitted(key, Box::new(rule))).await;
                }
                return;
            }
            let asked = make(&client, request).await;
            let request_id = asked.as_ref().ok().map(|asked| asked.request_id.clone());
            let _ = sender.send(Answered::Asked(request_id)).await;
            let decision = match asked {
                Ok(reply) => tokio::select! {
                    decision = decision(&client, &reply.request_id) => decision,
                    () = withdrawn.cancelled() => return withdraw(&client, reply.request_id).await,
                },
                Err(error) => Decision::Deny(failure(&error)),
            };
            let _ = sender.send(Answered::Decided(key, decision)).await;
        });
    }
}

/// How long the coordinator may take to find a permission rule. Then the approver is asked.
const RULE_DEADLINE: Duration = Duration::from_secs(10);

/// Returns the permission rule that permits what a program asks for, once its use is recorded. The coordinator looks it
/// up now, so no rule answers that was revoked before. Returns `None` if there is no such rule, or the coordinator does not
/// answer.
async fn rule_for(client: &Client, request: &v1::SendRequest) -> Option<v1::PermissionRule> {
    let Some(Body::PermissionRequest(asked)) = &request.body else { return None };
    let (tool, tool_use) = (asked.tool.clone(), asked.tool_use.clone()?);
    let client = client.clone().with_retry(Retry::none());
    let call = client.use_permission_rule(v1::UsePermissionRuleRequest { tool, tool_use: Some(tool_use.clone()) });
    let rule = timeout(RULE_DEADLINE, call).await.ok()?.ok()?.rule?;
    // A coordinator of another version may read rules in another way.
    permission_rule::permits(&rule, &rule.member, &asked.tool, &tool_use).then_some(rule)
}

/// Makes a request. The lead is asked in place of an approver that has not joined yet, as in place of one that has
/// exited.
async fn make(client: &Client, mut request: v1::SendRequest) -> Result<v1::SendResponse, Error> {
    let asked = client.send(request.clone()).await;
    match (&asked, &mut request.body) {
        (Err(error), Some(Body::PermissionRequest(ask)))
            if error.reason() == Some(Reason::AgentNotFound) && !ask.recipient.is_empty() =>
        {
            ask.recipient.clear();
            client.send(request).await
        }
        _ => asked,
    }
}

/// The longest detail of a permission request, in bytes. Leaves room for a note that the detail was truncated.
const DETAIL_BYTES_MAX: usize = 60 * 1024;

/// The most characters of one line in a request.
const LINE_CHARS_MAX: usize = 200;

/// Returns the first line of a text, as far as a request takes it.
fn line(text: &str, otherwise: &str) -> String {
    let line = first_line(text, LINE_CHARS_MAX);
    if line.is_empty() { first_line(otherwise, LINE_CHARS_MAX) } else { line }
}

/// Returns a detail as far as a request takes it.
fn cut(mut detail: String) -> String {
    if detail.len() > DETAIL_BYTES_MAX {
        let all = detail.len();
        detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
        detail.push_str(&format!("\n[The runner has cut this after {} of {all} bytes.]", detail.len()));
    }
    detail
}

/// Withdraws a permission request. A plan cannot be withdrawn: the next one replaces it.
async fn withdraw(client: &Client, request_id: String) {
    if let Err(error) = client.withdraw(v1::WithdrawRequest { request_id, ..Default::default() }).await {
        tracing::debug!(%error, "the request was not withdrawn");
    }
}

/// Waits until a request is decided.
async fn decision(client: &Client, request_id: &str) -> Decision {
    loop {
        let request = match client.wait_decision(request_id, WAIT).await {
            Ok(request) => request,
            // It may come back, and the operator can answer, too. The request itself expires.
            Err(error) if error.reason() == Some(Reason::AnswererLost) => {
                sleep(ANSWERER_LOST_WAIT).await;
                continue;
            }
            Err(error) => {
                withdraw(client, request_id.to_owned()).await;
                return Decision::Deny(failure(&error));
            }
        };
        let by = request.decided_by.as_ref().map_or("the lead", |by| by.name.as_str());
        return match request.state() {
            RequestState::Pending => continue,
            RequestState::Approved => Decision::Allow,
            RequestState::Rejected if request.reason.is_empty() => Decision::Deny(format!("{by} said no.")),
            // Escaped, so that no reason can pass itself off as a message.
            RequestState::Rejected => Decision::Deny(format!("{by} said no: {}", escaped(&request.reason))),
            RequestState::Expired => Decision::Deny("No one answered in time, so this counts as a no.".to_owned()),
            RequestState::Cancelled | RequestState::Unspecified => {
                Decision::Deny("The request was cancelled, so this counts as a no.".to_owned())
            }
        };
    }
}

fn failure(error: &Error) -> String {
    format!("The team could not be asked, so this counts as a no. {error}")
}

impl Agent {
    pub(super) fn permission_wanted(&mut self, request: PermissionRequest, incarnation: &mut Incarnation<'_>) {
        let what = first_line(&word::permission(&request.tool, &request.detail, &request.summary), ACTIVITY_CHARS_MAX);
        match incarnation.config.agent.permissions {
            Permissions::Ask => {
                incarnation.tell(RunnerEvent::PermissionAsked { what });
                self.permission_requests.ask_for_permission(request, incarnation);
            }
            Permissions::Allow => self.protocol.decide(&request.key, Decision::Allow, &mut self.out),
            Permissions::Deny => {
                incarnation.tell(RunnerEvent::PermissionRefused { what });
                let why = "This teammate may not do that: its runner refuses all permissions.".to_owned();
                self.protocol.decide(&request.key, Decision::Deny(why), &mut self.out);
            }
        }
    }

    pub(super) fn apply(&mut self, answered: Answered, incarnation: &mut Incarnation<'_>) {
        match answered {
            Answered::Asked(request_id) => incarnation.note_own_request(request_id),
            Answered::Permitted(key, rule) => {
                let extent = permission_rule::extent(&rule);
                incarnation
                    .tell(RunnerEvent::PermittedByRule { rule: rule.id, what: format!("{} {extent}", rule.tool) });
                self.protocol.decide(&key, Decision::Allow, &mut self.out);
            }
            Answered::Decided(key, decision) if key == spending::KEY => self.more_decided(&decision, incarnation),
            Answered::Decided(key, decision) => self.protocol.decide(&key, decision, &mut self.out),
        }
    }
}
