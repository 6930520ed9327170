//! The calls that change something, each by one rule.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use teamwire_proto::{Reason, Refusal, credential::Credential, id, name::Name, v1};

use super::{Coordinator, Done, member_key, reads::WHOLE_INBOX, team_key, unavailable};
use crate::{
    delivery::session::{Session, SessionOptions},
    domain::{
        deadline,
        identity::{self, Presented, team_not_found},
        membership,
        record::{CursorRecord, ListedTeam, SessionRecord, Stored, TeamRecord, inbox},
        send,
        session::{self, GiveUp, Leaving, Opened},
        team,
    },
    store::{Check, Key, Leases, Loss, Namespace, Txn, Write},
};

/// How many ids one Ack may carry.
const ACK_IDS_MAX: usize = 1_000;

/// Returns the namespace of the team that a call is about: the caller's own, or the one that the operator names.
pub fn namespace_of(who: &Presented, named: &str) -> Result<Namespace, Refusal> {
    match who.credential.team() {
        Some(team) => Ok(Namespace::team(team)),
        None if named.is_empty() => Err(team_not_found("")),
        None => Ok(Namespace::team(&Name::parse(named, "team")?)),
    }
}

impl Coordinator {
    /// See `MessageService.Send`.
    pub async fn send(&self, who: &Presented, request: &v1::SendRequest) -> Result<v1::SendResponse, Refusal> {
        let began = Instant::now();
        let sent = self.send_uncounted(who, request).await;
        self.metrics.sent(request, &sent, began.elapsed());
        sent
    }

    async fn send_uncounted(&self, who: &Presented, request: &v1::SendRequest) -> Result<v1::SendResponse, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        let done = self.decide(&namespace, &self.usual(who), |tx| send::send(tx, who, request)).await?;
        Ok(v1::SendResponse { durability: durability(&done).into(), ..done.value })
    }

    /// The records that nearly every call of this caller reads.
    fn usual(&self, who: &Presented) -> Vec<Key> {
        let mut keys = vec![team_key()];
        if let (Some(_), Credential::Member { member, .. }) = (&who.session_id, &who.credential) {
            keys.push(member_key::<SessionRecord>(member));
        }
        keys
    }

    /// Opens a session on the caller's inbox; see `MessageService.Stream`.
    pub async fn open_session(
        self: &Arc<Self>,
        who: &Presented,
        request: &v1::StreamRequest,
    ) -> Result<Session, Refusal> {
        let Credential::Member { member, .. } = &who.credential else {
            return Err(Refusal::new(
                Reason::NotPermitted,
                "Only a member has an inbox. Use a member's credential; to read along, follow the history.",
            ));
        };
        let namespace = namespace_of(who, "")?;
        let preload = [team_key(), member_key::<SessionRecord>(member), member_key::<CursorRecord>(member)];
        let extent = self.extent(&namespace, &inbox(member)).await?;
        let done = self
            .decide(&namespace, &preload, |tx| session::open(tx, who, request, extent.next.saturating_sub(1)))
            .await?;
        let options = SessionOptions::new(request, self.limits());
        Ok(match done.value {
            Opened::Session { member, team, record, reserved } => {
                Session::open(Arc::clone(self), namespace, member, team, record, reserved, extent.entries, options)
            }
            Opened::Stopping { member, team, incarnation, request_id } => {
                Session::stopping(Arc::clone(self), namespace, member, team, incarnation, request_id)
            }
        })
    }

    /// See `MessageService.Ack`.
    pub async fn acknowledge(&self, who: &Presented, request: &v1::AckRequest) -> Result<u32, Refusal> {
        if request.message_ids.len() > ACK_IDS_MAX {
            return Err(
                Refusal::new(Reason::InvalidField, "message_ids takes up to 1,000 ids a call.").field("message_ids")
            );
        }
        let mut ids = Vec::with_capacity(request.message_ids.len());
        for text in &request.message_ids {
            ids.push(id::message_id(text, "message_ids")?.to_string());
        }
        let who = &match request.session_id.as_str() {
            "" => who.clone(),
            session_id => Presented { session_id: Some(session_id.to_owned()), ..who.clone() },
        };
        let Credential::Member { member, .. } = &who.credential else {
            return Err(Refusal::new(Reason::NotPermitted, "Only a member has an inbox to acknowledge from."));
        };
        let namespace = namespace_of(who, "")?;
        let local = self.hub.session(&namespace, member, who.session_id.as_deref());
        let mut leaving: Vec<Leaving> = Vec::with_capacity(ids.len());
        let mut elsewhere: Vec<String> = Vec::new();
        for id in ids {
            match local.as_ref().and_then(|session| session.unacked(&id)) {
                Some(message) => leaving.push(message),
                None => elsewhere.push(id),
            }
        }
        if !elsewhere.is_empty() {
            leaving.extend(self.find_in_inbox(&namespace, member, &elsewhere).await?);
        }
        leaving.sort_by_key(|message| message.sequence);
        leaving.dedup_by_key(|message| message.sequence);
        let leave = local.as_ref().map(|session| session.leave(&leaving));
        self.decide(&namespace, &self.usual(who), |tx| session::acknowledge(tx, who, &leaving)).await?;
        if let Some(leave) = leave {
            leave.done();
        }
        self.metrics.acks.inc_by(leaving.len() as u64);
        Ok(u32::try_from(leaving.len()).unwrap_or(u32::MAX))
    }

    /// Finds messages that no session of this coordinator has delivered. What is not there was acknowledged before.
    async fn find_in_inbox(
        &self,
        namespace: &Namespace,
        member: &Name,
        ids: &[String],
    ) -> Result<Vec<Leaving>, Refusal> {
        let entries = self.inbox_entries(namespace, member, WHOLE_INBOX).await?;
        let places: HashMap<&str, u64> = entries.iter().map(|(sequence, id)| (id.as_str(), *sequence)).collect();
        let facts = self.session_facts(namespace, member).await?;
        Ok(ids
            .iter()
            .filter_map(|id| {
                let sequence = *places.get(id.as_str())?;
                Some(facts.leaving(sequence, id))
            })
            .collect())
    }

    /// Records how far a session has come.
    pub async fn advance(
        &self,
        namespace: &Namespace,
        member: &Name,
        session_id: &str,
        cursor: &CursorRecord,
    ) -> Result<(), Refusal> {
        let preload = [member_key::<SessionRecord>(member)];
        self.decide(namespace, &preload, |tx| session::advance(tx, member, session_id, cursor)).await?;
        Ok(())
    }

    /// Closes a session whose stream has ended.
    pub async fn close_session(
        &self,
        namespace: &Namespace,
        member: &Name,
        session_id: &str,
        cursor: &CursorRecord,
    ) -> Result<(), Refusal> {
        let preload = [member_key::<SessionRecord>(member)];
        self.decide(namespace, &preload, |tx| session::close(tx, member, session_id, cursor)).await?;
        Ok(())
    }

    /// Gives a message up.
    pub async fn bury(
        &self,
        namespace: &Namespace,
        member: &Name,
        session_id: &str,
        leaving: &Leaving,
        message: &v1::Message,
        why: GiveUp,
    ) -> Result<(), Refusal> {
        let preload = [team_key(), member_key::<SessionRecord>(member)];
        self.decide(namespace, &preload, |tx| session::bury(tx, member, session_id, leaving, message, why)).await?;
        self.metrics.gave_up(why.as_str());
        Ok(())
    }

    /// See `TeamService.CreateTeam`.
    pub async fn create_team(
        &self,
        who: &Presented,
        request: &v1::CreateTeamRequest,
    ) -> Result<v1::CreateTeamResponse, Refusal> {
        let Ok(name) = Name::parse(&request.name, "name") else {
            // Who may not create a team learns that, and not that the name is bad.
            let done = self.decide(&Namespace::directory(), &[], |tx| team::create(tx, who, request)).await?;
            return Ok(done.value);
        };
        let namespace = Namespace::team(&name);
        // Listed first, so that no team can exist that is not listed.
        let done = self
            .decide(&namespace, &[team_key()], |tx| {
                identity::operator(tx, who)?;
                tx.peek::<TeamRecord>("")
            })
            .await?;
        if done.value.is_none() {
            self.list_team(&name).await?;
        }
        let reply = self.decide(&namespace, &[team_key()], |tx| team::create(tx, who, request)).await?.value;
        // And again, in case that somebody has just taken an earlier team of this name off the list.
        self.list_team(&name).await?;
        Ok(reply)
    }

    async fn list_team(&self, name: &Name) -> Result<(), Refusal> {
        let put = Write::Put {
            key: Key::new(ListedTeam::KIND, name.folded()),
            data: ListedTeam { name: name.clone() }.encode(),
        };
        let txn = Txn { checks: Vec::new(), writes: vec![put] };
        self.store.commit(&Namespace::directory(), &txn).await.map_err(|error| unavailable(&error))?;
        Ok(())
    }

    /// Takes a team that is gone off the list, unless it has come again in between.
    pub(super) async fn unlist_team(&self, name: &Name) -> Result<(), Refusal> {
        let key = Key::new(ListedTeam::KIND, name.folded());
        let read = self.store.read(&Namespace::directory(), std::slice::from_ref(&key)).await;
        let listed = read.map_err(|error| unavailable(&error))?;
        let Some(Some(listed)) = listed.into_iter().next() else { return Ok(()) };
        let team = self.store.read(&Namespace::team(name), &[team_key()]).await.map_err(|error| unavailable(&error))?;
        if matches!(team.first(), Some(Some(_))) {
            return Ok(());
        }
        let check = Check::Version { key: key.clone(), version: Some(listed.version) };
        let txn = Txn { checks: vec![check], writes: vec![Write::Delete { key }] };
        self.store.commit(&Namespace::directory(), &txn).await.map_err(|error| unavailable(&error))?;
        Ok(())
    }

    /// See `TeamService.DeleteTeam`.
    pub async fn delete_team(&self, who: &Presented, named: &str) -> Result<(), Refusal> {
        let namespace = namespace_of(who, named)?;
        let name = self.decide(&namespace, &[team_key()], |tx| team::delete(tx, who, named)).await?.value;
        // The team is gone. A list that still names it is put right by whoever reads it next.
        if let Err(refusal) = self.unlist_team(&name).await {
            tracing::debug!(%name, %refusal, "the team could not be taken off the list");
        }
        Ok(())
    }

    /// See `TeamService.Invite`.
    pub async fn invite(&self, who: &Presented, request: &v1::InviteRequest) -> Result<v1::InviteResponse, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        Ok(self.decide(&namespace, &self.usual(who), |tx| membership::invite(tx, who, request)).await?.value)
    }

    /// See `TeamService.CreateObserver`.
    pub async fn create_observer(
        &self,
        who: &Presented,
        request: &v1::CreateObserverRequest,
    ) -> Result<v1::CreateObserverResponse, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        Ok(self.decide(&namespace, &self.usual(who), |tx| membership::create_observer(tx, who, request)).await?.value)
    }

    /// See `TeamService.Join`.
    pub async fn join(&self, who: &Presented, request: &v1::JoinRequest) -> Result<v1::JoinResponse, Refusal> {
        let namespace = match who.credential.team() {
            Some(team) => Namespace::team(team),
            None => Namespace::directory(),
        };
        // A life that begins, or ends, gives claims back: it waits for its turn, and does not run after the board.
        let _turn = self.turns.take(&namespace).await;
        Ok(self.decide(&namespace, &[team_key()], |tx| membership::join(tx, who, request)).await?.value)
    }

    /// See `TeamService.Leave`.
    pub async fn leave(&self, who: &Presented, request: &v1::LeaveRequest) -> Result<(), Refusal> {
        let namespace = namespace_of(who, "").map_err(|_| not_a_member())?;
        let _turn = self.turns.take(&namespace).await;
        self.decide(&namespace, &[team_key()], |tx| membership::leave(tx, who, request)).await?;
        Ok(())
    }

    /// See `TeamService.Heartbeat`.
    pub async fn heartbeat(
        &self,
        who: &Presented,
        request: &v1::HeartbeatRequest,
    ) -> Result<v1::HeartbeatResponse, Refusal> {
        let namespace = namespace_of(who, "").map_err(|_| not_a_member())?;
        Ok(self.decide(&namespace, &self.usual(who), |tx| membership::heartbeat(tx, who, request)).await?.value)
    }

    /// See `TeamService.ForceStop`.
    pub async fn force_stop(&self, who: &Presented, request: &v1::ForceStopRequest) -> Result<v1::Member, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        let _turn = self.turns.take(&namespace).await;
        Ok(self.decide(&namespace, &self.usual(who), |tx| membership::force_stop(tx, who, request)).await?.value)
    }

    /// See `TeamService.SetLead`.
    pub async fn set_lead(&self, who: &Presented, request: &v1::SetLeadRequest) -> Result<v1::Team, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        Ok(self.decide(&namespace, &self.usual(who), |tx| membership::set_lead(tx, who, request)).await?.value)
    }

    /// Renews the leases of members that gave a sign of life.
    pub async fn renew(&self, namespace: &Namespace, names: &[Name]) -> Result<(), Refusal> {
        self.decide(namespace, &[team_key()], |tx| membership::renew(tx, names)).await?;
        Ok(())
    }

    /// Tells a team that the store has lost a part of what it had answered. Once, however many coordinators find out.
    pub async fn report_loss(&self, loss: &Loss) -> Result<(), Refusal> {
        let generation = loss.generation;
        self.decide(&loss.namespace, &[team_key()], |tx| team::writes_lost(tx, generation)).await?;
        Ok(())
    }

    /// Carries out what is due in a team. Returns how long nothing will be if nothing changes; `None`: for ever.
    pub async fn sweep(
        &self,
        namespace: &Namespace,
        leases: &Leases,
        may_lose: bool,
    ) -> Result<Option<Duration>, Refusal> {
        let _turn = self.turns.take(namespace).await;
        let done = self.decide(namespace, &[team_key()], |tx| deadline::sweep(tx, leases, may_lose)).await?;
        Ok(done.value.map(Duration::from_millis))
    }
}

fn not_a_member() -> Refusal {
    Refusal::new(Reason::NotPermitted, "Only a member can do this: the operator has no life in a team.")
}

fn durability<T>(done: &Done<T>) -> v1::Durability {
    match done.durability {
        crate::store::Durability::Applied => v1::Durability::Applied,
        crate::store::Durability::Fsynced => v1::Durability::Fsynced,
        crate::store::Durability::Replicated => v1::Durability::Replicated,
    }
}
