//! The history of a team: what happened, in order.

use bytes::Bytes;
use prost::Message as _;
use teamwire_proto::{
    name::Name,
    v1::{self, CredentialKind, MemberState, TeamEventKind, history_entry::Event},
};

use super::{
    actor::Actor,
    quota::{Spender, weight_of_task_change},
    records::SignInPurpose,
    streams::HISTORY,
    time::timestamp,
    tx::Tx,
};

/// Adds an entry to the history.
pub fn append(tx: &mut Tx<'_>, event: Event) {
    let data = encode(tx, event);
    tx.append(HISTORY, data, 0, None);
}

/// Adds a change to a task. It counts against the share of the history that such changes may use, so that they take no
/// room from other entries. `spender`: who makes it.
pub fn append_task_change(tx: &mut Tx<'_>, event: v1::TaskEvent, spender: Spender) {
    let data = encode(tx, Event::Task(event));
    let (weight, bound) = (weight_of_task_change(data.len()), spender.task_changes_bound(&tx.ctx.limits));
    tx.append(HISTORY, data, weight, bound);
}

fn encode(tx: &Tx<'_>, event: Event) -> Bytes {
    let at = Some(timestamp(tx.ctx.now_ms));
    v1::HistoryEntry { at, event: Some(event), ..v1::HistoryEntry::default() }.encode_to_vec().into()
}

/// Makes the entry for an event of the team.
pub fn team_event(kind: TeamEventKind, actor: &Actor, member: &str) -> Event {
    Event::Team(v1::TeamEvent {
        kind: kind.into(),
        actor: Some(actor.into()),
        member: member.to_owned(),
        ..v1::TeamEvent::default()
    })
}

/// Makes the entry for a sign-in. `actor`: `None` for an observer.
pub fn sign_in_event(actor: Option<&Actor>, read_only: bool, purpose: SignInPurpose) -> Event {
    let credential = match purpose {
        SignInPurpose::Console => CredentialKind::Unspecified,
        SignInPurpose::Tools { .. } => CredentialKind::Tool,
    };
    Event::Team(v1::TeamEvent {
        kind: TeamEventKind::SignedIn.into(),
        actor: actor.map(Into::into),
        read_only,
        credential: credential.into(),
        ..v1::TeamEvent::default()
    })
}

/// Makes the entry for a revoked credential. `actor`: `None` for an observer. `member`: the member that it acted for,
/// if any.
pub fn revocation_event(actor: Option<&Actor>, credential: CredentialKind, member: Option<&Name>) -> Event {
    Event::Team(v1::TeamEvent {
        kind: TeamEventKind::CredentialRevoked.into(),
        actor: actor.map(Into::into),
        member: member.map(Name::to_string).unwrap_or_default(),
        credential: credential.into(),
        ..v1::TeamEvent::default()
    })
}

/// Makes the entry for a change to a member's state.
pub fn member_event(name: &Name, state: MemberState, incarnation: u64, detail: &str) -> Event {
    Event::Member(v1::MemberEvent {
        member: name.to_string(),
        state: state.into(),
        incarnation,
        detail: detail.to_owned(),
        ..v1::MemberEvent::default()
    })
}
