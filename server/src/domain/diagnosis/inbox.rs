//! Findings about the messages that wait in an inbox.

use std::time::Duration;

use teamwire_proto::{
    v1::{self, Finding, FindingClass, Liveness, MemberState, ReceiptState},
    word,
};

use super::{
    Ages, Asker,
    finding::{note, problem},
    member::begin_again,
};

/// How many messages of an inbox are examined at most.
pub const EXAMINED_MAX: usize = 20;

/// How many characters of a message's summary a finding quotes.
const SUMMARY_CHARS_MAX: usize = 50;

/// A message that waits in an inbox.
#[derive(Debug)]
pub struct WaitingMessage<'m> {
    /// The message.
    pub message: &'m v1::Message,
    /// What is known about it at its recipient.
    pub receipt: &'m v1::Receipt,
}

/// What of an inbox is to be examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Nothing.
    Nothing,
    /// Only how many messages it holds: its owner, who asks, reads them when it suits.
    Count,
    /// Its oldest messages.
    Messages,
}

/// Returns what of a member's inbox is to be examined.
///
/// What waits for a member that has exited is not a finding here: no message will be delivered to that life. Nor is
/// what waits for a member that has not started: its order is the finding.
pub fn reads_inbox(asker: &Asker<'_>, member: &v1::Member) -> Waits {
    let is_over = matches!(member.state(), MemberState::Exited | MemberState::Spawning);
    match member.inbox_depth {
        0 => Waits::Nothing,
        _ if is_over || !asker.may_read_inbox_of(&member.name) => Waits::Nothing,
        _ if asker.is(&member.name) && !member.connected => Waits::Count,
        _ => Waits::Messages,
    }
}

/// Reports what waits too long in an inbox: `found`, what was found about the messages that were examined, of `total`.
pub fn of_inbox(asker: &Asker<'_>, member: &v1::Member, found: Vec<Finding>, total: u64) -> Vec<Finding> {
    if reads_inbox(asker, member) == Waits::Count {
        return vec![own_unread(&member.name, total)];
    }
    let mut findings = one_of_each_class(found);
    if total > EXAMINED_MAX as u64 {
        findings.push(note(
            FindingClass::More,
            &member.name,
            format!("{} more messages wait in the inbox of {}.", total - EXAMINED_MAX as u64, member.name),
            format!("See them with `teamwire inbox --of {} --limit 1000`.", member.name),
        ));
    }
    findings
}

impl WaitingMessage<'_> {
    /// Explains why the message is not processed yet. `None` if it has not waited long enough.
    pub fn why_unprocessed(&self, asker: &Asker<'_>, ages: Ages, member: &v1::Member) -> Option<Finding> {
        let (name, message) = (&member.name, self.message);
        let what = word::shorten(&word::summary(message), SUMMARY_CHARS_MAX);
        let queued = ages.since(message.sent_at.as_ref());
        let delivered = ages.since(self.receipt.delivered_at.as_ref());
        let is_person = member.liveness() == Liveness::Detached;
        let found = match self.receipt.state() {
            ReceiptState::Queued if is_person && !member.connected => note(
                FindingClass::Unread,
                name,
                format!("{name} has not read \"{what}\" yet."),
                format!("{name} reads it with `teamwire inbox`."),
            ),
            ReceiptState::Queued if ages.is_too_long(queued) => self.not_delivered(asker, member, &what, queued),
            ReceiptState::Delivered if is_person && !asker.is(name) => note(
                FindingClass::Unread,
                name,
                format!("{name} received \"{what}\" and has not acknowledged it yet."),
                format!("{name} acknowledges it with `teamwire inbox --ack`."),
            ),
            ReceiptState::Delivered if ages.is_too_long(delivered) => {
                self.not_acknowledged(asker, member, &what, delivered)
            }
            _ => return None,
        };
        Some(Finding { message_id: message.id.clone(), ..found })
    }

    fn not_delivered(&self, asker: &Asker<'_>, member: &v1::Member, what: &str, waited: Duration) -> Finding {
        let (name, waited) = (&member.name, word::age(waited));
        let (text, next) = match member.connected {
            false => (
                format!("\"{what}\" has waited {waited} because no process reads {name}'s inbox."),
                asker.advise(member, format!("Start its program again: {}", begin_again(member))),
            ),
            true => (
                format!(
                    "\"{what}\" has waited {waited} although {name} is connected: {name} has reached its limit of unacknowledged \
                     messages, so the coordinator delivers no more."
                ),
                match asker.is(name) {
                    true => self.acknowledge(),
                    false => asker.advise(
                        member,
                        format!(
                            "Its program must acknowledge what it receives. A shutdown request still reaches it: `teamwire \
                             shutdown {name} --wait`; then start it again."
                        ),
                    ),
                },
            ),
        };
        problem(FindingClass::NotDelivered, name, text, next)
    }

    fn not_acknowledged(&self, asker: &Asker<'_>, member: &v1::Member, what: &str, waited: Duration) -> Finding {
        let name = &member.name;
        let next = if asker.is(name) {
            self.acknowledge()
        } else if member.connected {
            let ask = if asker.can_send() {
                format!("Ask it (`teamwire send {name} …`), or check")
            } else {
                "Check".to_owned()
            };
            format!("It may still be working on it. {ask} its log.")
        } else {
            let again = begin_again(member);
            asker.advise(member, format!("Its process is gone. To have the message delivered again: {again}"))
        };
        let text = format!(
            "\"{what}\" was delivered to {name} {} ago (delivery {}) and is not acknowledged.",
            word::age(waited),
            self.receipt.delivery_count
        );
        problem(FindingClass::NotAcknowledged, name, text, next)
    }

    /// Says how the caller acknowledges the message, which its own program has received.
    fn acknowledge(&self) -> String {
        format!(
            "Acknowledge it once it is processed: the program writes {{\"ack\":\"{}\"}}, or `teamwire inbox --ack`.",
            self.message.id
        )
    }
}

/// Counts the messages that wait for the caller.
fn own_unread(name: &str, count: u64) -> Finding {
    let messages = word::count(count, "unread message");
    let next = "Read and acknowledge: `teamwire inbox --ack`.".to_owned();
    note(FindingClass::Unread, name, format!("You have {messages}."), next)
}

/// Merges the findings of each class into its first one, which counts the others.
fn one_of_each_class(found: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<(Finding, u64)> = Vec::new();
    for finding in found {
        match merged.iter_mut().find(|(first, _)| first.class == finding.class) {
            Some((_, others)) => *others += 1,
            None => merged.push((finding, 0)),
        }
    }
    let counted = merged.into_iter().map(|(first, others)| match others {
        0 => first,
        _ => Finding {
            text: format!("{} The same holds for {}.", first.text, word::count(others, "more message")),
            ..first
        },
    });
    counted.collect()
}
