//! The demo's scenarios, each a function that acts as the lead and checks what the history shows.

use std::{process::ExitStatus, time::Duration};

use teamwire_client::{Client, Error, Event, HistoryFollower, SubscribeOptions, message, v1};
use teamwire_proto::{
    Reason,
    v1::{CancelCause, MemberState, RequestState, history_entry::Event as Entry, message::Body},
};

use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::{
    PATIENCE, failed, heading, in_time,
    processes::Processes,
    script::{Language, Script, ScriptText},
};
use crate::{failure::Failure, show};

/// The team's name.
const TEAM: &str = "demo";

/// The teammates' names, which are also the parts that `demo-teammate` plays.
const TEAMMATES: [&str; 3] = ["task-manager", "knowledge-manager", "file-manager"];

/// The lead of the demo.
struct Lead {
    client: Client,
    history: HistoryFollower,
    script: &'static Script,
    pause: Duration,
}

impl Lead {
    /// Prints history entries until `happened` recognizes one. `what` names the awaited event in the error.
    async fn until<T>(
        &mut self,
        what: &str,
        mut happened: impl FnMut(&v1::HistoryEntry) -> Option<T>,
    ) -> Result<T, Failure> {
        let read = async {
            while let Some(entry) = self.history.next().await {
                let entry = entry?;
                if print(&entry) {
                    sleep(self.pause).await;
                }
                if let Some(found) = happened(&entry) {
                    return Ok(found);
                }
            }
            Err(failed(format!("the history ended before {what}")))
        };
        in_time(what, read).await
    }

    async fn until_message(
        &mut self,
        what: &str,
        wanted: impl Fn(&v1::Message) -> bool,
    ) -> Result<v1::Message, Failure> {
        self.until(what, |entry| match &entry.event {
            Some(Entry::Message(message)) if wanted(message) => Some(message.clone()),
            _ => None,
        })
        .await
    }
}

pub(super) async fn play(processes: &Processes, language: Language, pause: Duration) -> Result<(), Failure> {
    let create = v1::CreateTeamRequest {
        name: TEAM.to_owned(),
        description: "teamwire demo".to_owned(),
        lead_name: "ceo".to_owned(),
        ..v1::CreateTeamRequest::default()
    };
    let created = processes.operator.create_team_with(create).await?;
    let client = Client::connect(&processes.address)?.with_credential(&created.credential)?;
    let _inbox = AbortOnDropHandle::new(tokio::spawn(drain_inbox(client.clone())));
    let history = client.follow_history(v1::FollowHistoryRequest::default());
    let script = language.script();
    let mut lead = Lead { client, history, script, pause };

    heading(script.team_heading);
    let mut teammates = Vec::new();
    for name in TEAMMATES {
        let invite = v1::InviteRequest {
            member: name.to_owned(),
            plan_mode_required: name == "task-manager",
            ..v1::InviteRequest::default()
        };
        let token = lead.client.invite(invite).await?.join_token;
        teammates.push((name, processes.spawn_teammate(name, language, &token)?));
        lead.until("a teammate joins", |entry| match &entry.event {
            Some(Entry::Member(event)) if event.member == name && event.state() == MemberState::Joined => Some(()),
            _ => None,
        })
        .await?;
    }

    ask_for_data(&mut lead).await?;
    broadcast_news(&mut lead).await?;
    approve_a_plan(&mut lead).await?;
    refuse_to_delete(&lead, TEAMMATES.len()).await?;
    reject_and_approve_shutdown(&mut lead).await?;
    for (name, mut runner) in teammates {
        if name != "task-manager" {
            shut_down(&mut lead, name, script.other_shutdowns).await?;
        }
        let status = in_time("the end of a teammate's process", async { Ok(runner.wait().await?) }).await?;
        expect(status.success(), || format!("{name}'s runner ended with {}", status_text(status)))?;
    }
    check_receipts(&lead).await?;
    delete(processes, &lead).await
}

async fn ask_for_data(lead: &mut Lead) -> Result<(), Failure> {
    heading(lead.script.data_heading);
    lead.client.send(direct("knowledge-manager", lead.script.prepare_tasks)).await?;
    let question = lead.until_message("the question", |m| is_from(m, "knowledge-manager")).await?;
    let answer = lead.until_message("the answer", |m| is_from(m, "task-manager")).await?;
    expect(answer.in_reply_to == question.id, || "the answer replies to another question".to_owned())?;
    expect(answer.recipients == ["knowledge-manager"], || "the answer went to another recipient".to_owned())
}

async fn broadcast_news(lead: &mut Lead) -> Result<(), Failure> {
    heading(lead.script.broadcast_heading);
    lead.client.send(direct("task-manager", lead.script.complete_task)).await?;
    let broadcast = lead.until_message("the broadcast", |m| matches!(m.body, Some(Body::Broadcast(_)))).await?;
    let mut to = broadcast.recipients.clone();
    to.sort();
    expect(to == ["ceo", "file-manager", "knowledge-manager"], || format!("the broadcast went to {to:?}"))
}

async fn approve_a_plan(lead: &mut Lead) -> Result<(), Failure> {
    heading(lead.script.plan_heading);
    lead.client.send(direct("task-manager", lead.script.submit_plan)).await?;
    let is_plan = |m: &v1::Message| matches!(m.body, Some(Body::PlanApprovalRequest(_)));
    let first = lead.until_message("the plan", is_plan).await?;
    lead.client.answer_plan("task-manager", &first.request_id, false, lead.script.plan_feedback).await?;
    let second = lead.until_message("the better plan", |m| is_plan(m) && m.id != first.id).await?;
    lead.client.answer_plan("task-manager", &second.request_id, true, "").await?;
    lead.until_message(
        "the approval",
        |m| matches!(&m.body, Some(Body::PlanApprovalResponse(body)) if body.approve == Some(true)),
    )
    .await?;
    lead.until("the decision", |entry| match &entry.event {
        Some(Entry::Decision(request)) if request.id == second.request_id => Some(()),
        _ => None,
    })
    .await?;
    let opposite = lead.client.answer_plan("task-manager", &second.request_id, false, "no").await;
    expect_refusal(opposite.map(drop), Reason::AlreadyDecided)
}

async fn refuse_to_delete(lead: &Lead, blocking: usize) -> Result<(), Failure> {
    heading(lead.script.deletion_heading);
    let deleted = lead.client.delete_team(v1::DeleteTeamRequest { team: TEAM.to_owned() }).await;
    let Err(Error::Refused(refusal)) = &deleted else {
        return Err(failed("the team was deleted while its members were live".to_owned()));
    };
    anstream::println!("refused: {refusal}");
    expect(refusal.metadata.len() == blocking, || format!("it names {:?}", refusal.metadata))?;
    expect_refusal(deleted.map(drop), Reason::TeamHasActiveMembers)
}

async fn reject_and_approve_shutdown(lead: &mut Lead) -> Result<(), Failure> {
    heading(lead.script.shutdown_heading);
    let request_id = lead.client.request_shutdown("task-manager", lead.script.first_shutdown).await?;
    let refused = lead.client.wait_decision(&request_id, PATIENCE).await?;
    expect(refused.state() == RequestState::Rejected && !refused.reason.is_empty(), || {
        format!("the request is {}", show::request_text(&refused))
    })?;
    shut_down(lead, "task-manager", lead.script.second_shutdown).await
}

async fn shut_down(lead: &mut Lead, name: &str, reason: &str) -> Result<(), Failure> {
    let request_id = lead.client.request_shutdown(name, reason).await?;
    let decided = lead.client.wait_decision(&request_id, PATIENCE).await?;
    expect(decided.state() == RequestState::Approved, || format!("{name}: {}", show::request_text(&decided)))?;
    expect(decided.cancel_cause() == CancelCause::Unspecified, || "the request has a cancel cause".to_owned())?;
    lead.until("the exit of the process", |entry| match &entry.event {
        Some(Entry::Member(event)) if event.member == name && event.state() == MemberState::Exited => Some(()),
        _ => None,
    })
    .await
}

/// Checks that the teammates processed every message sent to them.
async fn check_receipts(lead: &Lead) -> Result<(), Failure> {
    let filter = v1::HistoryFilter { messages_only: true, include_receipts: true, ..v1::HistoryFilter::default() };
    let request = v1::ListHistoryRequest { filter: Some(filter), ..v1::ListHistoryRequest::default() };
    let entries = lead.client.list_all_history(request, usize::MAX).await?.entries;
    let to_teammates = entries.iter().flat_map(|entry| &entry.receipts).filter(|receipt| receipt.recipient != "ceo");
    let mut processed = 0;
    for receipt in to_teammates {
        // Approving a shutdown ends the process before it can acknowledge the request.
        let is_last = entries.iter().any(|entry| {
            matches!(&entry.event, Some(Entry::Message(message))
                if matches!(message.body, Some(Body::ShutdownRequest(_))) && entry.receipts.contains(receipt))
        });
        let done = receipt.state() == v1::ReceiptState::Processed;
        expect(done || is_last, || format!("a message to {} is {:?}", receipt.recipient, receipt.state()))?;
        processed += u32::from(done);
    }
    expect(processed >= 8, || format!("only {processed} messages were processed"))
}

async fn delete(processes: &Processes, lead: &Lead) -> Result<(), Failure> {
    heading(lead.script.deleted_heading);
    lead.client.delete_team(v1::DeleteTeamRequest { team: TEAM.to_owned() }).await?;
    let left = processes.operator.list_teams(v1::ListTeamsRequest::default()).await?.teams;
    expect(left.is_empty(), || "a team still exists".to_owned())?;
    let gone = lead.client.get_team(v1::GetTeamRequest::default()).await;
    expect_refusal(gone.map(drop), Reason::CredentialInvalid)?;
    anstream::println!("{}", lead.script.nothing_left);
    Ok(())
}

/// Acknowledges the lead's messages, so that its inbox does not fill up.
async fn drain_inbox(client: Client) {
    let mut inbox = client.subscribe(SubscribeOptions::default());
    while let Some(event) = inbox.next().await {
        if let Ok(Event::Delivery(delivery)) = event {
            delivery.ack();
        }
    }
}

fn direct(recipient: &str, (summary, content): ScriptText) -> v1::SendRequest {
    message::direct(recipient, summary, content)
}

fn is_from(message: &v1::Message, name: &str) -> bool {
    message.sender.as_ref().is_some_and(|sender| sender.name == name)
}

/// Prints an entry, and returns whether it did: notices of idleness say nothing here.
fn print(entry: &v1::HistoryEntry) -> bool {
    let is_idle = |m: &v1::Message| matches!(&m.body, Some(Body::Notice(n)) if n.kind() == v1::NoticeKind::Idle);
    if matches!(&entry.event, Some(Entry::Message(message)) if is_idle(message)) {
        return false;
    }
    show::entry(entry, Some("ceo"));
    true
}

fn status_text(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(failed(otherwise())) }
}

fn expect_refusal(outcome: Result<(), Error>, reason: Reason) -> Result<(), Failure> {
    match outcome {
        Err(Error::Refused(refusal)) if refusal.reason == reason => Ok(()),
        Err(error) => Err(failed(format!("expected {reason}, got: {error}"))),
        Ok(()) => Err(failed(format!("expected {reason}, but the call succeeded"))),
    }
}
