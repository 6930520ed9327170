//! Findings about hosts, and about orders that no host has carried out.

use std::time::Duration;

use teamwire_client::v1;
use teamwire_proto::v1::{MemberState, ReceiptState};

use super::{
    Doctor,
    age::{age, duration_text},
    finding::Finding,
    reader::Reader,
};
use crate::context::Caller;

impl Doctor {
    /// Reports the hosts that cannot start anyone.
    pub(super) fn hosts(
        &self,
        reader: &Reader,
        hosts: &[v1::Host],
        members: &[v1::Member],
        findings: &mut Vec<Finding>,
    ) {
        let is_wanted =
            |host: &&v1::Host| self.member.as_deref().is_none_or(|named| host.name.eq_ignore_ascii_case(named));
        for host in hosts.iter().filter(is_wanted).filter(|host| host.state() != MemberState::Exited) {
            findings.extend(self.host(reader, host, members));
        }
    }

    fn host(&self, reader: &Reader, host: &v1::Host, members: &[v1::Member]) -> Option<Finding> {
        let (name, since) = (&host.name, age(host.state_since.as_ref()));
        if host.state() == MemberState::Lost {
            return Some(lost(reader, host, &on_host(name, members), since));
        }
        match &host.offer {
            Some(offer) if offer.profiles.is_empty() => Some(
                Finding::note(
                    "no_profile",
                    format!("The host {name} offers no profile, so it cannot start anyone."),
                    advise(
                        reader,
                        format!(
                            "Install an agent program on {name}, or add a profile to its host.toml; then restart it."
                        ),
                    ),
                )
                .of(name),
            ),
            None if since >= self.patience() => Some(Finding::problem(
                "no_profile",
                name,
                format!("The host {name} joined {} ago, and has not said what it offers.", duration_text(since)),
                advise(reader, format!("Check the output of `teamwire host` on {name}, and restart it.")),
            )),
            _ => None,
        }
    }

    /// Reports an order that has waited too long for the start.
    pub(super) async fn not_started(&self, caller: &Caller, reader: &Reader, order: &v1::Request) -> Finding {
        let (name, host) = (&order.member, &order.approver);
        let waits = duration_text(age(order.created_at.as_ref()));
        let request = v1::GetMessageRequest { message_id: order.message_id.clone(), ..Default::default() };
        // Only the lead can read it. For others, the order itself must do.
        let receipts = caller.client.get_message(request).await.map(|reply| reply.receipts).unwrap_or_default();
        let text = match receipts.first().map(v1::Receipt::state) {
            Some(ReceiptState::Queued) => {
                format!("{name} was ordered {waits} ago from {host}, which has not answered.")
            }
            Some(ReceiptState::Delivered | ReceiptState::Processed) => {
                format!("{name} was ordered {waits} ago from {host}, which has the order and has not started it.")
            }
            _ => format!("{name} was ordered {waits} ago from {host}, and has not started."),
        };
        let next = format!(
            "Wait for it: `teamwire requests {} --wait`. Or cancel it with `teamwire shutdown {name} --force`, and choose another \
             host from `teamwire hosts`.",
            order.id
        );
        Finding::problem("not_started", name, text, advise(reader, next))
    }
}

/// Returns the members that a host started and that, as far as is known, are still running.
fn on_host<'m>(host: &str, members: &'m [v1::Member]) -> Vec<&'m str> {
    let is_there =
        |member: &&v1::Member| member.spawned_on.eq_ignore_ascii_case(host) && member.state() != MemberState::Exited;
    members.iter().filter(is_there).map(|member| member.name.as_str()).collect()
}

/// Reports a lost host: a problem if it has members.
fn lost(reader: &Reader, host: &v1::Host, members: &[&str], since: Duration) -> Finding {
    let (name, since) = (&host.name, duration_text(since));
    let (text, next) = match members {
        [] => (
            format!("The host {name} has been lost for {since}."),
            format!(
                "If it is still needed, start `teamwire host` on it again. If not: `teamwire shutdown {name} --force`."
            ),
        ),
        members => (
            format!(
                "The host {name} has been lost for {since}, and is responsible for {}. They may still be running: `teamwire \
                 status` shows it.",
                members.join(", ")
            ),
            format!("Start `teamwire host` on {name} again: it finds the members that it started."),
        ),
    };
    Finding { is_problem: !members.is_empty(), ..Finding::problem("host_lost", name, text, advise(reader, next)) }
}

fn advise(reader: &Reader, as_lead: String) -> String {
    if reader.can_lead() { as_lead } else { reader.tell_lead() }
}
