//! Findings about the messages that wait in an inbox.

use teamwire_client::{Reason, v1};
use teamwire_proto::v1::{Liveness, MemberState, ReceiptState};

use super::{
    Doctor,
    age::{age, duration_text},
    finding::Finding,
    program::begin_again,
    reader::Reader,
};
use crate::{context::Caller, failure::Failure, show};

/// The maximum number of messages examined in each inbox.
const EXAMINED_MAX: usize = 20;

impl Doctor {
    /// Reports the messages in a member's inbox that wait too long.
    ///
    /// What waits for a member that has exited is not a finding here: no message will be delivered to that life. Nor is what
    /// waits for a member that has not started: its order is the finding.
    pub(super) async fn waiting(
        &self,
        caller: &Caller,
        reader: &Reader,
        member: &v1::Member,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Failure> {
        if member.inbox_depth == 0 || matches!(member.state(), MemberState::Exited | MemberState::Spawning) {
            return Ok(());
        }
        let request = v1::ListInboxRequest { member: member.name.clone(), ..v1::ListInboxRequest::default() };
        let listed = match caller.client.list_all_inbox(request, EXAMINED_MAX).await {
            Ok(listed) => listed,
            // A teammate can read only its own inbox; for other members the roster must do.
            Err(error) if error.reason() == Some(Reason::LeadOnly) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if reader.is(&member.name) && !member.connected {
            findings.push(own_unread(listed.total));
            return Ok(());
        }
        let mut found = Vec::new();
        for message in listed.deliveries.into_iter().filter_map(|delivery| delivery.message) {
            let request = v1::GetMessageRequest { message_id: message.id.clone(), ..v1::GetMessageRequest::default() };
            let receipts = caller.client.get_message(request).await?.receipts;
            let Some(receipt) = receipts.iter().find(|receipt| receipt.recipient == member.name) else { continue };
            found.extend(self.why_unprocessed(reader, member, &message, receipt));
        }
        findings.extend(one_of_each_class(found));
        if listed.total > EXAMINED_MAX as u64 {
            findings.push(
                Finding::note(
                    "more",
                    format!(
                        "{} more messages wait in the inbox of {}.",
                        listed.total - EXAMINED_MAX as u64,
                        member.name
                    ),
                    format!("See them with `teamwire inbox --of {} --limit 1000`.", member.name),
                )
                .of(&member.name),
            );
        }
        Ok(())
    }

    /// Explains why a message is not processed yet. `None` if it has not waited long enough.
    fn why_unprocessed(
        &self,
        reader: &Reader,
        member: &v1::Member,
        message: &v1::Message,
        receipt: &v1::Receipt,
    ) -> Option<Finding> {
        let (name, what) = (&member.name, show::shorten(&show::summary_and_content(message).0, 50));
        let queued = age(message.sent_at.as_ref());
        let delivered = age(receipt.delivered_at.as_ref());
        let is_person = member.liveness() == Liveness::Detached;
        let found = match receipt.state() {
            ReceiptState::Queued if is_person && !member.connected => Finding::note(
                "unread",
                format!("{name} has not read \"{what}\" yet."),
                format!("{name} reads it with `teamwire inbox`."),
            )
            .of(name),
            ReceiptState::Queued if queued >= self.patience() && !member.connected => Finding::problem(
                "not_delivered",
                name,
                format!("\"{what}\" has waited {} because no process reads {name}'s inbox.", duration_text(queued)),
                reader.advise(member, format!("Start its program again: {}", begin_again(member))),
            ),
            ReceiptState::Queued if queued >= self.patience() => Finding::problem(
                "not_delivered",
                name,
                format!(
                    "\"{what}\" has waited {} although {name} is connected: {name} has reached its limit of unacknowledged \
                     messages, so the coordinator delivers no more.",
                    duration_text(queued)
                ),
                if reader.is(name) {
                    acknowledge(message)
                } else {
                    reader.advise(
                        member,
                        format!(
                            "Its program must acknowledge what it receives. A shutdown request still reaches it: `teamwire \
                             shutdown {name} --wait`; then start it again."
                        ),
                    )
                },
            ),
            ReceiptState::Delivered if is_person && !reader.is(name) => Finding::note(
                "unread",
                format!("{name} received \"{what}\" and has not acknowledged it yet."),
                format!("{name} acknowledges it with `teamwire inbox --ack`."),
            )
            .of(name),
            ReceiptState::Delivered if delivered >= self.patience() => Finding::problem(
                "not_acknowledged",
                name,
                format!(
                    "\"{what}\" was delivered to {name} {} ago (delivery {}) and is not acknowledged.",
                    duration_text(delivered),
                    receipt.delivery_count
                ),
                if reader.is(name) {
                    acknowledge(message)
                } else if member.connected {
                    let ask = if reader.can_send() {
                        format!("Ask it (`teamwire send {name} …`), or check")
                    } else {
                        "Check".to_owned()
                    };
                    format!("It may still be working on it. {ask} its log.")
                } else {
                    let again = begin_again(member);
                    reader.advise(member, format!("Its process is gone. To have the message delivered again: {again}"))
                },
            ),
            _ => return None,
        };
        Some(found.about(&message.id))
    }
}

/// Says how the reader acknowledges a message that its own program has received.
fn acknowledge(message: &v1::Message) -> String {
    format!(
        "Acknowledge it once it is processed: the program writes {{\"ack\":\"{}\"}}, or `teamwire inbox --ack`.",
        message.id
    )
}

/// Records the messages that wait for the caller, a person who reads them when it suits.
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
