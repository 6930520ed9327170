//! The kinds of things that people can be notified of.

use std::sync::Arc;

use teamwire_proto::{name::Name, v1, word};

use crate::domain::{
    records::{ActivityRecord, Life, MemberRecord, Pending, PresenceRecord, TeamRecord},
    tx::{RuleError, Tx},
};

/// Every kind, in the order of the documentation. A further kind of request is one more line here.
pub static KINDS: [AlertKind; 6] = [
    AlertKind::of_requests("permission", "permission request", |member| &member.pending_permissions),
    AlertKind::of_requests("plan", "plan", |member| member.pending_plan.as_slice()),
    AlertKind::of_requests("review", "review", |member| &member.pending_reviews),
    AlertKind { name: "failing", finds: Finds::Failing },
    AlertKind { name: "lost", finds: Finds::Lost },
    AlertKind { name: "idle_team", finds: Finds::IdleTeam },
];

/// A kind of thing that people can be notified of.
#[derive(Debug)]
pub struct AlertKind {
    /// Its name in the configuration and in alerts.
    pub name: &'static str,
    finds: Finds,
}

#[derive(Debug)]
enum Finds {
    /// Requests that await an answer: what one is called, and those of a member.
    Requests(&'static str, fn(&MemberRecord) -> &[Pending]),
    /// Members whose programs run, and fail in every turn.
    Failing,
    /// Members and hosts that are lost.
    Lost,
    /// The team, if all its programs are idle.
    IdleTeam,
}

/// Something that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Identifies it among those of its kind, now and later.
    pub key: String,
    /// Since when it waits.
    pub since_ms: u64,
    /// The member that it is about. `None` if it is about the team.
    pub member: Option<Name>,
    /// The id of the request. Empty if it is none.
    pub request_id: String,
    /// What a member or its program wrote about it, if that is known already.
    pub content: String,
}

impl AlertKind {
    const fn of_requests(name: &'static str, noun: &'static str, of_member: fn(&MemberRecord) -> &[Pending]) -> Self {
        Self { name, finds: Finds::Requests(noun, of_member) }
    }

    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// Returns whether what it finds can begin without a change to the team's record.
    pub(super) fn begins_unseen(&self) -> bool {
        matches!(self.finds, Finds::Failing | Finds::IdleTeam)
    }

    /// Returns what waits now, the oldest first.
    pub(super) fn waiting(&self, tx: &mut Tx<'_>, team: &TeamRecord) -> Result<Vec<Waiting>, RuleError> {
        let mut found = match self.finds {
            Finds::Requests(_, of_member) => requests(team, of_member, tx.ctx.now_ms),
            Finds::Failing => failing(tx, team)?,
            Finds::Lost => team.members.iter().filter(|member| member.life == Life::Lost).map(lost).collect(),
            Finds::IdleTeam => idle_team(tx, team)?.into_iter().collect(),
        };
        found.sort_by(|one, other| (one.since_ms, &one.key).cmp(&(other.since_ms, &other.key)));
        Ok(found)
    }

    /// Says what waits: `count` things, the first of which is about this member.
    pub(super) fn text(&self, team: &Name, count: usize, member: Option<&Name>) -> String {
        let name = member.map_or("", Name::as_str);
        match (&self.finds, count) {
            (Finds::Requests(noun, _), 1) => format!("{name}'s {noun} waits for an answer in team {team}."),
            (Finds::Requests(noun, _), _) => {
                format!("{count} {noun}s wait for an answer in team {team}. The first is {name}'s.")
            }
            (Finds::Failing, 1) => format!("{name}'s program keeps failing in team {team}."),
            (Finds::Failing, _) => format!("{count} programs keep failing in team {team}. The first is {name}'s."),
            (Finds::Lost, 1) => format!("{name} is lost in team {team}."),
            (Finds::Lost, _) => format!("{count} members are lost in team {team}. The first is {name}."),
            (Finds::IdleTeam, _) => format!("Every agent of team {team} is idle."),
        }
    }

    /// Returns the page of the console that shows it, with the parameter that selects it there.
    pub(super) fn page<'w>(&self, waiting: &'w Waiting) -> (&'static str, Option<(&'static str, &'w str)>) {
        match self.finds {
            Finds::Requests(..) => ("approvals", Some(("id", waiting.request_id.as_str()))),
            Finds::Failing | Finds::Lost => ("member", waiting.member.as_ref().map(|name| ("name", name.as_str()))),
            Finds::IdleTeam => ("team", None),
        }
    }

    /// Returns what a member or its program wrote.
    pub(super) fn content(&self, tx: &mut Tx<'_>, waiting: &Waiting) -> Result<String, RuleError> {
        let Finds::Requests(..) = self.finds else { return Ok(waiting.content.clone()) };
        let request = tx.read::<v1::Request>(&waiting.request_id)?;
        Ok(request.map_or_else(String::new, |request| match request.kind() {
            v1::RequestKind::Permission => word::asked_for(&request),
            _ => request.content.clone(),
        }))
    }
}

fn requests(team: &TeamRecord, of_member: fn(&MemberRecord) -> &[Pending], now_ms: u64) -> Vec<Waiting> {
    let of_each = |member| {
        let open = of_member(member).iter().filter(move |pending| pending.expires_ms > now_ms);
        open.map(|pending| Waiting {
            request_id: pending.id.to_string(),
            ..about(member, pending.id.to_string(), pending.created_ms)
        })
    };
    team.members.iter().flat_map(of_each).collect()
}

fn about(member: &MemberRecord, key: String, since_ms: u64) -> Waiting {
    Waiting { key, since_ms, member: Some(member.name.clone()), request_id: String::new(), content: String::new() }
}

/// Names what happened to a life at an instant.
fn key_of(member: &MemberRecord, since_ms: u64) -> String {
    format!("{}/{}/{since_ms}", member.name.folded(), member.incarnation)
}

fn lost(member: &MemberRecord) -> Waiting {
    about(member, key_of(member, member.since_ms), member.since_ms)
}

fn failing(tx: &mut Tx<'_>, team: &TeamRecord) -> Result<Vec<Waiting>, RuleError> {
    let running = attached(team);
    let known = of_members::<ActivityRecord>(tx, &running)?;
    let found = running.into_iter().zip(known).filter_map(|(member, activity)| {
        let failed = activity.filter(|activity| activity.incarnation == member.incarnation)?.failed.clone()?;
        Some(Waiting { content: failed.error, ..about(member, key_of(member, failed.since_ms), failed.since_ms) })
    });
    Ok(found.collect())
}

fn idle_team(tx: &mut Tx<'_>, team: &TeamRecord) -> Result<Option<Waiting>, RuleError> {
    if team.members.iter().any(|member| member.life == Life::Spawning) {
        return Ok(None);
    }
    let running = attached(team);
    let known = of_members::<PresenceRecord>(tx, &running)?;
    let idle = running.iter().zip(known).map(|(member, presence)| {
        let presence = presence.filter(|presence| presence.incarnation == member.incarnation && presence.idle)?;
        Some(presence.since_ms)
    });
    let Some(since_ms) = idle.collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().max()) else {
        return Ok(None);
    };
    let key = since_ms.to_string();
    Ok(Some(Waiting { key, since_ms, member: None, request_id: String::new(), content: String::new() }))
}

/// Returns the members whose lives a process keeps going.
fn attached(team: &TeamRecord) -> Vec<&MemberRecord> {
    let is_attached = |member: &&MemberRecord| member.life == Life::Live && !member.detached && !member.is_host;
    team.members.iter().filter(is_attached).collect()
}

fn of_members<T: crate::domain::records::RecordType>(
    tx: &mut Tx<'_>,
    members: &[&MemberRecord],
) -> Result<Vec<Option<Arc<T>>>, RuleError> {
    let ids = || members.iter().map(|member| member.name.folded());
    tx.want::<T>(ids().map(ToOwned::to_owned))?;
    ids().map(|id| tx.read::<T>(id)).collect()
}
