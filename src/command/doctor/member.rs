//! Findings about a member.

use teamwire_client::{Reason, v1};
use teamwire_proto::{
    v1::{Liveness, MemberState, ReceiptState},
    word,
};

use super::{
    Doctor,
    age::{age, duration_text},
    finding::Finding,
};
use crate::{context::Caller, failure::Failure, show};

/// The maximum number of messages examined in each inbox.
const EXAMINED_MAX: usize = 20;

impl Doctor {
    /// Reports why the coordinator refuses messages to a member.
    pub(super) fn not_queued(&self, member: &v1::Member, findings: &mut Vec<Finding>) {
        let name = &member.name;
        let is_named = self.member.is_some();
        match member.state() {
            MemberState::Exited if is_named => findings.push(Finding::problem(
                "not_queued",
                name,
                format!("{name} has exited ({}), so messages to it are refused.", exit(member)),
                format!("Restart it with `teamwire run {name} -- COMMAND`, or send to another member."),
            )),
            MemberState::Stopping if is_named => findings.push(Finding::problem(
                "not_queued",
                name,
                format!("{name} is stopping, so messages to it are refused."),
                "Wait until it has exited and restart it, or send to another member.".to_owned(),
            )),
            _ if member.inbox_full => findings.push(Finding::problem(
                "not_queued",
                name,
                format!("{name}'s inbox is full ({} messages), so more messages are refused.", member.inbox_depth),
                format!(
                    "See its messages with `teamwire inbox --of {name}`; the findings below explain why they wait."
                ),
            )),
            _ => {}
        }
    }

    /// Reports a member that did not exit after its shutdown, or that is lost.
    pub(super) fn not_exited(&self, member: &v1::Member, findings: &mut Vec<Finding>) {
        let (name, since) = (&member.name, age(member.state_since.as_ref()));
        match member.state() {
            MemberState::Stopping if since >= self.patience() => findings.push(Finding::problem(
                "not_exited",
                name,
                format!(
                    "{name} approved its shutdown or was stopped by force {} ago, but its exit was not reported.",
                    duration_text(since)
                ),
                format!(
                    "Find its process{} and end it; `teamwire shutdown {name} --force` revokes its credential.",
                    match host(member) {
                        "" => String::new(),
                        host => format!(" on {host}"),
                    }
                ),
            )),
            MemberState::Lost => findings.push(Finding::problem(
                "lost",
                name,
                format!(
                    "{name} has been lost for {}: its lease expired. Its messages wait in its inbox.",
                    duration_text(since)
                ),
                format!("Restart it with `teamwire run {name} -- COMMAND`; it then receives its messages."),
            )),
            _ => {}
        }
    }

    /// Reports the messages in a member's inbox that wait too long.
    pub(super) async fn waiting(
        &self,
        caller: &Caller,
        member: &v1::Member,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Failure> {
        if member.inbox_depth == 0 {
            return Ok(());
        }
        let request = v1::ListInboxRequest { member: member.name.clone(), ..v1::ListInboxRequest::default() };
        let listed = match caller.client.list_all_inbox(request, EXAMINED_MAX).await {
            Ok(listed) => listed,
            // A teammate can read only its own inbox; for other members the roster must do.
            Err(error) if error.reason() == Some(Reason::LeadOnly) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if caller.is(&member.name) && !member.connected {
            findings.push(own_unread(listed.total));
            return Ok(());
        }
        let mut found = Vec::new();
        for message in listed.deliveries.into_iter().filter_map(|delivery| delivery.message) {
            let request = v1::GetMessageRequest { message_id: message.id.clone(), ..v1::GetMessageRequest::default() };
            let receipts = caller.client.get_message(request).await?.receipts;
            let Some(receipt) = receipts.iter().find(|receipt| receipt.recipient == member.name) else { continue };
            found.extend(self.why_unprocessed(member, &message, receipt));
        }
        findings.extend(one_of_each_class(found));
        if listed.total > EXAMINED_MAX as u64 {
            findings.push(Finding::note(
                "more",
                format!("{} more messages wait in the inbox of {}.", listed.total - EXAMINED_MAX as u64, member.name),
                format!("See them with `teamwire inbox --of {} --limit 1000`.", member.name),
            ));
        }
        Ok(())
    }

    /// Explains why a message is not processed yet. `None` if it has not waited long enough.
    fn why_unprocessed(&self, member: &v1::Member, message: &v1::Message, receipt: &v1::Receipt) -> Option<Finding> {
        let (name, what) = (&member.name, show::shorten(&show::summary_and_content(message).0, 50));
        let queued = age(message.sent_at.as_ref());
        let delivered = age(receipt.delivered_at.as_ref());
        let found = match receipt.state() {
            ReceiptState::Queued if member.liveness() == Liveness::Detached && !member.connected => Finding {
                member: name.clone(),
                ..Finding::note(
                    "unread",
                    format!("{name} has not read \"{what}\" yet."),
                    format!("{name} reads it with `teamwire inbox`."),
                )
            },
            ReceiptState::Queued if queued >= self.patience() && !member.connected => Finding::problem(
                "not_delivered",
                name,
                format!("\"{what}\" has waited {} because no process reads {name}'s inbox.", duration_text(queued)),
                format!(
                    "If {name} is a program, start its runner: `teamwire run {name} -- COMMAND`. A person reads them with \
                     `teamwire inbox`."
                ),
            ),
            ReceiptState::Queued if queued >= self.patience() => Finding::problem(
                "not_delivered",
                name,
                format!(
                    "\"{what}\" has waited {} although {name} is connected: {name} has reached its limit of unacknowledged \
                     messages, so the coordinator delivers no more.",
                    duration_text(queued)
                ),
                format!("Have it acknowledge its messages, or restart it: `teamwire shutdown {name}`."),
            ),
            ReceiptState::Delivered if delivered >= self.patience() => Finding::problem(
                "not_acknowledged",
                name,
                format!(
                    "\"{what}\" was delivered to {name} {} ago (delivery {}) and is not acknowledged.",
                    duration_text(delivered),
                    receipt.delivery_count
                ),
                if member.connected || member.liveness() == Liveness::Detached {
                    format!("It may still be working on it. Ask it (`teamwire send {name} …`), or check its log.")
                } else {
                    format!(
                        "Its process is gone. Restart it to have the message delivered again: `teamwire run {name} -- COMMAND`."
                    )
                },
            ),
            _ => return None,
        };
        Some(found.about(&message.id))
    }
}

/// Notes the messages that wait for the caller, a person who reads them when it suits.
fn own_unread(count: u64) -> Finding {
    let messages = if count == 1 { "1 unread message" } else { &format!("{count} unread messages") };
    Finding::note("unread", format!("You have {messages}."), "Read and acknowledge: `teamwire inbox --ack`.".to_owned())
}

/// Merges the findings of each class into its first one, which counts the others.
fn one_of_each_class(found: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<(Finding, usize)> = Vec::new();
    for finding in found {
        match merged.iter_mut().find(|(first, _)| first.class == finding.class) {
            Some((_, others)) => *others += 1,
            None => merged.push((finding, 0)),
        }
    }
    let counted = merged.into_iter().map(|(first, others)| match others {
        0 => first,
        1 => Finding { text: format!("{} The same holds for 1 more message.", first.text), ..first },
        _ => Finding { text: format!("{} The same holds for {others} more messages.", first.text), ..first },
    });
    counted.collect()
}

pub(super) fn unknown(named: &str, members: &[v1::Member]) -> Finding {
    let known: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    Finding::problem(
        "not_queued",
        named,
        format!(
            "There is no member \"{named}\", so messages to it are refused. The members are: {}.",
            known.join(", ")
        ),
        format!("Check the spelling, or add the member: `teamwire run {named} -- COMMAND`."),
    )
}

/// Notes which members block the team's deletion.
pub(super) fn delete_blocked(caller: &Caller, members: &[v1::Member]) -> Option<Finding> {
    let is_gone =
        |member: &v1::Member| matches!(member.state(), MemberState::Exited | MemberState::Lost | MemberState::Away);
    let live: Vec<&v1::Member> = members.iter().filter(|member| !is_gone(member) && !caller.is(&member.name)).collect();
    let names: Vec<String> =
        live.iter().map(|member| format!("{} ({})", member.name, word::member_state(member.state()))).collect();
    let first = live.first()?;
    Some(Finding::note(
        "delete_blocked",
        format!("The team cannot be deleted while these members are live: {}.", names.join(", ")),
        format!("Shut each one down with `teamwire shutdown {} --wait`, or stop it with --force.", first.name),
    ))
}

fn exit(member: &v1::Member) -> String {
    member.exit.as_ref().map_or_else(|| "cause unknown".to_owned(), word::exit_and_duration)
}

fn host(member: &v1::Member) -> &str {
    member.attributes.as_ref().map_or("", |attributes| attributes.host.as_str())
}
