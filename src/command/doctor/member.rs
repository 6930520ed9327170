//! What is wrong with a member.

use teamwire_client::{Reason, v1};
use teamwire_proto::{
    v1::{MemberState, ReceiptState},
    word,
};

use super::{
    Doctor,
    age::{age, text},
    finding::Finding,
};
use crate::{context::Caller, failure::Failure, show};

/// How many waiting messages of a member are looked at one by one.
const LOOKED_AT: usize = 20;

impl Doctor {
    /// Messages to it would be refused.
    pub(super) fn not_queued(&self, member: &v1::Member, findings: &mut Vec<Finding>) {
        let name = &member.name;
        let is_named = self.member.is_some();
        match member.state() {
            MemberState::Exited if is_named => findings.push(Finding::problem(
                "not_queued",
                name,
                format!("{name} has exited ({}): messages to it are refused.", exit(member)),
                format!("Start it again with `teamwire run {name} -- COMMAND`, or send to somebody else."),
            )),
            MemberState::Stopping if is_named => findings.push(Finding::problem(
                "not_queued",
                name,
                format!("{name} is stopping: messages to it are refused."),
                "Wait until it has exited and start it again, or send to somebody else.".to_owned(),
            )),
            _ if member.inbox_full => findings.push(Finding::problem(
                "not_queued",
                name,
                format!("The inbox of {name} is full with {} messages: more are refused.", member.inbox_depth),
                format!("See what it holds with `teamwire inbox --of {name}`, and why below."),
            )),
            _ => {}
        }
    }

    /// It was asked to end, and has not.
    pub(super) fn not_gone_offline(&self, member: &v1::Member, findings: &mut Vec<Finding>) {
        let (name, since) = (&member.name, age(member.state_since.as_ref()));
        match member.state() {
            MemberState::Stopping if since >= self.patience() => findings.push(Finding::problem(
                "not_gone_offline",
                name,
                format!("{name} agreed to end, or was made to, {} ago, and its exit was not reported.", text(since)),
                match host(member) {
                    "" => format!("Look for its process and end it; `teamwire shutdown {name} --force` fences it."),
                    host => format!(
                        "Look for its process on {host} and end it; `teamwire shutdown {name} --force` fences it."
                    ),
                },
            )),
            MemberState::Lost => findings.push(Finding::problem(
                "lost",
                name,
                format!("Nothing was heard of {name} for {}. Its messages wait in its inbox.", text(since)),
                format!("Start it again with `teamwire run {name} -- COMMAND`; a message reaches it then."),
            )),
            _ => {}
        }
    }

    /// Messages that it has not processed.
    pub(super) async fn waiting(
        &self,
        caller: &Caller,
        member: &v1::Member,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Failure> {
        if member.inbox_depth == 0 {
            return Ok(());
        }
        let limit = u32::try_from(LOOKED_AT).unwrap_or(u32::MAX);
        let request = v1::ListInboxRequest { member: member.name.clone(), limit, ..v1::ListInboxRequest::default() };
        let listed = match caller.client.list_inbox(request).await {
            Ok(listed) => listed,
            // A teammate sees its own only; what the roster says must do for the others.
            Err(error) if error.reason() == Some(Reason::LeadOnly) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for message in listed.deliveries.into_iter().filter_map(|delivery| delivery.message) {
            let request = v1::GetMessageRequest { message_id: message.id.clone(), ..v1::GetMessageRequest::default() };
            let receipts = caller.client.get_message(request).await?.receipts;
            let Some(receipt) = receipts.iter().find(|receipt| receipt.recipient == member.name) else { continue };
            findings.extend(self.why_unprocessed(member, &message, receipt));
        }
        if listed.total > LOOKED_AT as u64 {
            findings.push(Finding::note(
                "more",
                format!("{} more messages wait for {}.", listed.total - LOOKED_AT as u64, member.name),
                format!("See them with `teamwire inbox --of {} --limit 1000`.", member.name),
            ));
        }
        Ok(())
    }

    fn why_unprocessed(&self, member: &v1::Member, message: &v1::Message, receipt: &v1::Receipt) -> Option<Finding> {
        let (name, what) = (&member.name, show::short(&show::says(message).0, 50));
        let queued = age(message.sent_at.as_ref());
        let delivered = age(receipt.delivered_at.as_ref());
        let found = match receipt.state() {
            ReceiptState::Queued if queued >= self.patience() && !member.connected => Finding::problem(
                "not_injected",
                name,
                format!("\"{what}\" has waited for {} because nobody reads {name}'s inbox.", text(queued)),
                format!(
                    "Start its runner (`teamwire run {name} -- COMMAND`), or read it (`teamwire --as {name} inbox`)."
                ),
            ),
            ReceiptState::Queued if queued >= self.patience() => Finding::problem(
                "not_injected",
                name,
                format!(
                    "\"{what}\" has waited for {} although {name} is connected: it holds so many messages without having \
                     acknowledged them that it is given no more.",
                    text(queued)
                ),
                format!("Have it acknowledge what it has done, or start it again: `teamwire shutdown {name}`."),
            ),
            ReceiptState::Delivered if delivered >= self.patience() => Finding::problem(
                "not_consumed",
                name,
                format!(
                    "{name} was given \"{what}\" {} ago ({} times in all) and has not acknowledged it.",
                    text(delivered),
                    receipt.delivery_count
                ),
                if member.connected {
                    format!("It may still be at work. Ask it (`teamwire send {name} …`), or look at its log.")
                } else {
                    format!("Its process is gone; with a new one it comes again: `teamwire run {name} -- COMMAND`.")
                },
            ),
            _ => return None,
        };
        Some(found.about(&message.id))
    }
}

pub(super) fn unknown(named: &str, members: &[v1::Member]) -> Finding {
    let known: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    Finding::problem(
        "not_queued",
        named,
        format!("There is no member \"{named}\": messages to it are refused. There are: {}.", known.join(", ")),
        format!("Mind the spelling, or let it join: `teamwire run {named} -- COMMAND`."),
    )
}

/// Says who keeps the team from being deleted.
pub(super) fn delete_blocked(caller: &Caller, members: &[v1::Member]) -> Option<Finding> {
    let is_gone = |member: &v1::Member| matches!(member.state(), MemberState::Exited | MemberState::Lost);
    let live: Vec<&v1::Member> = members.iter().filter(|member| !is_gone(member) && !caller.is(&member.name)).collect();
    let names: Vec<String> =
        live.iter().map(|member| format!("{} ({})", member.name, word::member_state(member.state()))).collect();
    let first = live.first()?;
    Some(Finding::note(
        "delete_blocked",
        format!("The team cannot be deleted while these are live: {}.", names.join(", ")),
        format!("Ask each to end with `teamwire shutdown {} --wait`, or stop it with --force.", first.name),
    ))
}

fn exit(member: &v1::Member) -> String {
    member.exit.as_ref().map_or_else(|| "how is not known".to_owned(), show::exit_text)
}

fn host(member: &v1::Member) -> &str {
    member.attributes.as_ref().map_or("", |attributes| attributes.host.as_str())
}
