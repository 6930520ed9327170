//! The Rust client's conformance driver; `tests/conformance/README.md` defines its protocol.

use std::time::Duration;

use serde_json::{Map, Value, json};
use teamwire_client::{
    Client, Closed, Error, Event, Identity, SubscribeOptions, Subscription, dialect, join, join_host,
    v1::{self, message::Body},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, stdin},
    time::timeout,
};

/// How long `next` and `wait_decision` wait by default.
const PATIENCE_SECONDS: u64 = 20;

#[tokio::main]
async fn main() {
    let mut driver = Driver::default();
    let mut lines = BufReader::new(stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let command = serde_json::from_str(&line).unwrap_or_default();
        println!("{}", driver.answer(&command).await);
    }
}

#[derive(Default)]
struct Driver {
    client: Option<Client>,
    inbox: Option<Subscription>,
}

impl Driver {
    async fn answer(&mut self, command: &Value) -> Value {
        match self.run(command).await {
            Ok(done) => json!({ "ok": done }),
            Err(Error::Refused(refusal)) => {
                let code = format!("{:?}", refusal.reason.code());
                let mut refused = json!({
                    "reason": refusal.reason.as_str(),
                    "code": screaming(&code),
                    "message": refusal.message,
                    "retryable": refusal.reason.is_retryable(),
                });
                if let Some(field) = refusal.field {
                    refused["field"] = field.into();
                }
                json!({ "refused": refused })
            }
            Err(error) => json!({ "failed": error.to_string() }),
        }
    }

    async fn run(&mut self, command: &Value) -> Result<Value, Error> {
        let text = |name: &str| command[name].as_str().unwrap_or_default();
        let seconds = Duration::from_secs(command["seconds"].as_u64().unwrap_or(PATIENCE_SECONDS));
        let word = text("do");
        match word {
            "connect" => {
                let identity = match text("credential") {
                    "" => Identity::find()?,
                    given => Identity { credential: Some(given.to_owned()), ..Identity::from_env() },
                };
                let identity = match text("address") {
                    "" => identity,
                    address => identity.with_address(address)?,
                };
                return Ok(self.enter(Client::from_identity(&identity)?));
            }
            "join" => return Ok(self.enter(join(text("string"), text("name")).await?)),
            "join_host" => return Ok(self.enter(join_host(text("string"), text("name")).await?)),
            _ => {}
        }
        let client = self.client.as_ref().ok_or_else(|| Error::Context("connect or join first".to_owned()))?;
        Ok(match word {
            "create_team" => {
                let lead = client.create_team(text("name"), text("lead")).await?;
                self.enter(lead)
            }
            "get_team" => {
                let team = client.get_team(v1::GetTeamRequest::default()).await?.team.unwrap_or_default();
                json!({ "name": team.name, "lead": team.lead })
            }
            "invite" => {
                let invited = client.invite(text("name")).await?;
                let expires_at = invited.expires_at.unwrap_or_default().seconds;
                json!({ "join_token": invited.join_token, "join_string": invited.join_string, "expires_at": expires_at })
            }
            "invite_host" => {
                let invited = client.invite_host(text("name")).await?;
                json!({ "join_token": invited.join_token, "join_string": invited.join_string })
            }
            "spawn" => {
                let (name, profile) = (text("name").to_owned(), text("profile").to_owned());
                let (prompt, host) = (text("prompt").to_owned(), text("host").to_owned());
                let request = v1::SpawnRequest { name, profile, prompt, host, ..Default::default() };
                let ordered = client.spawn(request).await?;
                let (member, order) = (ordered.member.unwrap_or_default(), ordered.request.unwrap_or_default());
                let state = lower(member.state().as_str_name(), "MEMBER_STATE_");
                json!({ "request_id": order.id, "state": state, "host": order.approver })
            }
            "hosts" => client.all_hosts().await?.into_iter().map(host).collect::<Map<_, _>>().into(),
            "update_host" => {
                let updated = client.update_host(offer(command)).await?;
                json!({ "host": updated.host.unwrap_or_default().name })
            }
            "take_order" => {
                let taken = client.take_order(text("request_id")).await?;
                let order = taken.request.unwrap_or_default();
                let profile = order.spawn.unwrap_or_default().profile;
                json!({ "member": order.member, "profile": profile, "join_token": taken.join_token })
            }
            "refuse_order" => {
                let (request_id, reason) = (text("request_id").to_owned(), text("reason").to_owned());
                let try_another_host = command["try_another_host"].as_bool().unwrap_or_default();
                let refusal = v1::RefuseOrderRequest { request_id, reason, try_another_host };
                decision(&client.refuse_order(refusal).await?.request.unwrap_or_default())
            }
            "report_exit" => {
                let code = command["code"].as_i64().and_then(|code| i32::try_from(code).ok());
                let exit = Some(v1::ExitReport { code, ..Default::default() });
                client.report_exit(v1::ReportExitRequest { request_id: text("request_id").to_owned(), exit }).await?;
                json!({})
            }
            "shutdown" => {
                let ended = client.shutdown(text("name"), text("reason"), seconds).await?;
                let mut shown = decision(&ended.request);
                if let Some(code) = ended.exit.and_then(|exit| exit.code) {
                    shown["code"] = code.into();
                }
                shown
            }
            "force_stop" => {
                let member = client.force_stop(text("name"), text("reason")).await?;
                json!({ "state": lower(member.state().as_str_name(), "MEMBER_STATE_") })
            }
            "hand_over" => json!({ "lead": client.hand_over(text("name")).await?.lead }),
            "delete_team" => {
                client.delete_team(text("name")).await?;
                json!({})
            }
            "submit_plan" => json!({ "request_id": client.submit_plan(text("plan"), text("summary")).await? }),
            "answer_plan" => {
                let approve = command["approve"].as_bool().unwrap_or_default();
                sent(client.answer_plan(text("name"), text("request_id"), approve, text("feedback")).await?)
            }
            "request_permission" => {
                let id = client.request_permission(text("name"), text("tool"), text("summary"), text("detail")).await?;
                json!({ "request_id": id })
            }
            "answer_permission" => {
                let approve = command["approve"].as_bool().unwrap_or_default();
                sent(client.answer_permission(text("request_id"), approve, text("reason")).await?)
            }
            "answer_review" => {
                let approve = command["approve"].as_bool().unwrap_or_default();
                sent(client.answer_review(text("request_id"), approve, text("reason"), "").await?)
            }
            "withdraw_request" => decision(&client.withdraw_request(text("request_id")).await?),
            "send" => {
                let mut request = dialect::read(&command["message"].to_string())?;
                request.idempotency_key = text("key").to_owned();
                sent(client.send(request).await?)
            }
            "approve_shutdown" => sent(client.approve_shutdown(text("request_id")).await?),
            "reject_shutdown" => sent(client.reject_shutdown(text("request_id"), text("reason")).await?),
            "subscribe" => {
                self.inbox = Some(client.subscribe(SubscribeOptions::default()));
                json!({})
            }
            "next" => next(self.inbox.as_mut(), seconds).await?,
            "ack" => {
                self.inbox.as_ref().inspect(|inbox| inbox.ack(text("message_id")));
                json!({})
            }
            "flush" => {
                if let Some(inbox) = &self.inbox {
                    inbox.flush().await?;
                }
                json!({})
            }
            "wait_decision" => decision(&client.wait_decision(text("request_id"), seconds).await?),
            "list_history" => {
                let page_size =
                    command["page_size"].as_u64().and_then(|size| u32::try_from(size).ok()).unwrap_or_default();
                let page = client.list_history(v1::ListHistoryRequest { page_size, ..Default::default() }).await?;
                json!({ "items": page.entries.len(), "more": !page.next_page_token.is_empty() })
            }
            "list_inbox" => {
                let page_size =
                    command["page_size"].as_u64().and_then(|size| u32::try_from(size).ok()).unwrap_or_default();
                let page = client.list_inbox(v1::ListInboxRequest { page_size, ..Default::default() }).await?;
                json!({ "items": page.deliveries.len(), "more": !page.next_page_token.is_empty() })
            }
            "receipts" => {
                let request = v1::GetMessageRequest { message_id: text("message_id").to_owned(), team: String::new() };
                let receipts = client.get_message(request).await?.receipts;
                let state = |receipt: &v1::Receipt| lower(receipt.state().as_str_name(), "RECEIPT_STATE_");
                receipts.iter().map(|receipt| (receipt.recipient.clone(), state(receipt))).collect::<Map<_, _>>().into()
            }
            "create_task" => {
                let blocked_by = command["blocked_by"].as_array().into_iter().flatten().filter_map(Value::as_u64);
                let request = v1::CreateTaskRequest {
                    subject: text("subject").to_owned(),
                    blocked_by: blocked_by.collect(),
                    reviewer: text("reviewer").to_owned(),
                    ..Default::default()
                };
                json!({ "task_id": client.create_task(request).await?.task.unwrap_or_default().id })
            }
            "claim_next" => match client.claim_next_task(Duration::ZERO).await? {
                Some(v1::Claim { task, token, .. }) => {
                    let task = task.unwrap_or_default();
                    json!({ "task_id": task.id, "subject": task.subject, "claim_token": token })
                }
                None => json!({}),
            },
            "complete_task" => {
                let request = v1::CompleteTaskRequest {
                    task_id: command["task_id"].as_u64().unwrap_or_default(),
                    claim_token: text("claim_token").to_owned(),
                    ..Default::default()
                };
                client.complete_task(request).await?;
                json!({})
            }
            "members" => {
                let members = client.members().await?;
                let state = |member: &v1::Member| lower(member.state().as_str_name(), "MEMBER_STATE_");
                members.iter().map(|member| (member.name.clone(), state(member))).collect::<Map<_, _>>().into()
            }
            "leave" => {
                let code = command["code"].as_i64().and_then(|code| i32::try_from(code).ok());
                client.leave(code.unwrap_or_default()).await?;
                json!({})
            }
            unknown => return Err(Error::Context(format!("unknown command \"{unknown}\""))),
        })
    }

    /// Continues as this client.
    fn enter(&mut self, client: Client) -> Value {
        let client = self.client.insert(client);
        json!({ "member": client.name(), "team": client.team() })
    }
}

fn offer(command: &Value) -> v1::HostOffer {
    let start = command["start_seconds"].as_i64().unwrap_or(60);
    let profile = v1::HostProfile {
        name: command["profile"].as_str().unwrap_or_default().to_owned(),
        start_deadline: Some(prost_types::Duration { seconds: start, nanos: 0 }),
        ..Default::default()
    };
    let slots = command["slots"].as_u64().and_then(|slots| u32::try_from(slots).ok());
    v1::HostOffer { profiles: vec![profile], slots: slots.unwrap_or_default(), ..Default::default() }
}

fn host(host: v1::Host) -> (String, Value) {
    let state = lower(host.state().as_str_name(), "MEMBER_STATE_");
    let slots = host.offer.unwrap_or_default().slots;
    (host.name, json!({ "state": state, "slots": slots, "slots_used": host.slots_used }))
}

fn decision(request: &v1::Request) -> Value {
    json!({ "state": lower(request.state().as_str_name(), "REQUEST_STATE_"), "reason": request.reason })
}

/// Waits for the next message or the end of the subscription; skips its other events.
async fn next(inbox: Option<&mut Subscription>, patience: Duration) -> Result<Value, Error> {
    let inbox = inbox.ok_or_else(|| Error::Context("subscribe first".to_owned()))?;
    let next = async {
        loop {
            match inbox.next().await.ok_or(Error::Closed(Closed::Dropped))?? {
                Event::Delivery(delivery) => {
                    let mut message = dialect::write(&delivery.message);
                    message["delivery_count"] = delivery.delivery_count.into();
                    if let Some(kind) = message.pointer("/notice/kind").cloned() {
                        message["notice"] = kind;
                    }
                    if let Some(Body::SpawnOrder(order)) = &delivery.message.body {
                        message["member"] = order.member.clone().into();
                        message["profile"] = order.terms.clone().unwrap_or_default().profile.into();
                    }
                    return Ok(json!({ "message": message }));
                }
                Event::Closed(closed @ (Closed::Refused(_) | Closed::Dropped)) => return Err(Error::Closed(closed)),
                _ => {}
            }
            if let Some(end) = inbox.end() {
                return Ok(json!({ "ended": end.reason.as_str(), "request_id": end.request_id }));
            }
        }
    };
    timeout(patience, next).await.unwrap_or_else(|_| Ok(json!({ "nothing": true })))
}

fn sent(reply: v1::SendResponse) -> Value {
    let v1::SendResponse { message_id, request_id, recipients, replayed, warnings, .. } = reply;
    json!({
        "message_id": message_id,
        "request_id": request_id,
        "recipients": recipients,
        "replayed": replayed,
        "warnings": warnings,
    })
}

/// Returns the name of an enum's value as the protocol writes it.
fn lower(name: &str, prefix: &str) -> Value {
    name.trim_start_matches(prefix).to_ascii_lowercase().into()
}

/// Writes `NotFound` as `NOT_FOUND`.
fn screaming(code: &str) -> String {
    let mut text = String::new();
    for (at, c) in code.char_indices() {
        if at > 0 && c.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(c.to_ascii_uppercase());
    }
    text
}
