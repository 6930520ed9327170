//! The Rust client's conformance driver; `tests/conformance/README.md` defines its protocol.

use std::time::Duration;

use serde_json::{Map, Value, json};
use teamwire_client::{Client, Closed, Error, Event, Identity, SubscribeOptions, Subscription, dialect, v1};
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
                let identity = Identity::find()?;
                let client = self.client.insert(Client::from_identity(&identity)?);
                let team = client.get_team(v1::GetTeamRequest::default()).await?.team.unwrap_or_default();
                return Ok(json!({ "member": identity.member, "team": team.name }));
            }
            "join" => {
                let (client, joined) = Client::join_by(text("string"), text("name")).await?;
                self.client = Some(client);
                let (team, member) = (joined.team.unwrap_or_default(), joined.member.unwrap_or_default());
                return Ok(json!({ "member": member.name, "team": team.name }));
            }
            _ => {}
        }
        let client = self.client.as_ref().ok_or_else(|| Error::Context("connect or join first".to_owned()))?;
        Ok(match word {
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
                    inbox.flush_acks().await?;
                }
                json!({})
            }
            "wait_decision" => {
                let request = client.wait_decision(text("request_id"), seconds).await?;
                json!({ "state": lower(request.state().as_str_name(), "REQUEST_STATE_"), "reason": request.reason })
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
                    ..Default::default()
                };
                json!({ "task_id": client.create_task(request).await?.task.unwrap_or_default().id })
            }
            "claim_next" => match client.claim_next_task(Duration::ZERO).await? {
                Some(v1::Claim { task, token }) => {
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
                let members = client.list_all_members(v1::ListMembersRequest::default(), usize::MAX).await?.members;
                let state = |member: &v1::Member| lower(member.state().as_str_name(), "MEMBER_STATE_");
                members.iter().map(|member| (member.name.clone(), state(member))).collect::<Map<_, _>>().into()
            }
            "leave" => {
                let code = command["code"].as_i64().and_then(|code| i32::try_from(code).ok());
                let exit = v1::ExitReport { code, ..Default::default() };
                client.leave(v1::LeaveRequest { exit: Some(exit) }).await?;
                json!({})
            }
            unknown => return Err(Error::Context(format!("unknown command \"{unknown}\""))),
        })
    }
}

/// Waits for the next message or the end of the subscription; skips its other events.
async fn next(inbox: Option<&mut Subscription>, patience: Duration) -> Result<Value, Error> {
    let inbox = inbox.ok_or_else(|| Error::Context("subscribe first".to_owned()))?;
    let next = async {
        loop {
            let ended = |how: &str| Ok(json!({ "ended": how }));
            match inbox.next().await.ok_or(Error::Closed(Closed::Dropped))?? {
                Event::Delivery(delivery) => {
                    let mut message = dialect::write(&delivery.message);
                    message["delivery_count"] = delivery.delivery_count.into();
                    if let Some(kind) = message.pointer("/notice/kind").cloned() {
                        message["notice"] = kind;
                    }
                    return Ok(json!({ "message": message }));
                }
                Event::ShutdownApproved { request_id } => {
                    return Ok(json!({ "ended": "shutdown_approved", "request_id": request_id }));
                }
                Event::Closed(Closed::Superseded) => return ended("superseded"),
                Event::Closed(Closed::TeamDeleted) => return ended("team_deleted"),
                Event::Closed(Closed::MemberStopped) => return ended("member_stopped"),
                Event::Closed(closed) => return Err(Error::Closed(closed)),
                _ => {}
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
