//! Members: who calls, joining and leaving, and what is due when time passes.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{Reason, Refusal, name::Name, v1};

use super::{Coordinator, team_key, unavailable};
use crate::{
    domain::{
        deadline,
        identity::{self, Admit, CallerCredentials, Principal, namespace_of},
        membership,
        page::{self, Page, page_size},
        query::{self, MemberFacts},
        record::{PresenceRecord, SessionRecord, TeamRecord, inbox},
    },
    store::{Leases, Namespace},
};

impl Coordinator {
    /// Finds out who calls, on records read for this call.
    pub(super) async fn caller(
        &self,
        who: &CallerCredentials,
        named: &str,
    ) -> Result<(Namespace, Arc<TeamRecord>, Principal), Refusal> {
        let namespace = namespace_of(who, named)?;
        let done = self.decide(&namespace, &[team_key()], |tx| identity::call(tx, who, named, Admit::Stopping)).await?;
        let (team, caller) = done.value;
        Ok((namespace, team, caller))
    }

    /// Finds out whether a credential holds; see [`identity::holds`].
    pub async fn holds(&self, who: &CallerCredentials) -> Result<bool, Refusal> {
        let (namespace, keys) = match who.credential.team() {
            Some(team) => (Namespace::team(team), vec![team_key()]),
            None => (Namespace::directory(), Vec::new()),
        };
        Ok(self.decide(&namespace, &keys, |tx| identity::holds(tx, who)).await?.value)
    }

    /// See `TeamService.Invite`.
    pub async fn invite(
        &self,
        who: &CallerCredentials,
        request: &v1::InviteRequest,
    ) -> Result<v1::InviteResponse, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        Ok(self.decide(&namespace, &self.usual(who), |tx| membership::invite(tx, who, request)).await?.value)
    }

    /// See `TeamService.CreateObserver`.
    pub async fn create_observer(
        &self,
        who: &CallerCredentials,
        request: &v1::CreateObserverRequest,
    ) -> Result<v1::CreateObserverResponse, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        Ok(self.decide(&namespace, &self.usual(who), |tx| membership::create_observer(tx, who, request)).await?.value)
    }

    /// See `TeamService.Join`.
    pub async fn join(&self, who: &CallerCredentials, request: &v1::JoinRequest) -> Result<v1::JoinResponse, Refusal> {
        let namespace = match who.credential.team() {
            Some(team) => Namespace::team(team),
            None => Namespace::directory(),
        };
        // A life that begins, or ends, gives claims back: it waits for its turn, and does not run after the board.
        let _turn = self.turns.take(&namespace).await;
        Ok(self.decide(&namespace, &[team_key()], |tx| membership::join(tx, who, request)).await?.value)
    }

    /// See `TeamService.Leave`.
    pub async fn leave(&self, who: &CallerCredentials, request: &v1::LeaveRequest) -> Result<(), Refusal> {
        let namespace = namespace_of(who, "").map_err(|_| not_a_member())?;
        let _turn = self.turns.take(&namespace).await;
        self.decide(&namespace, &[team_key()], |tx| membership::leave(tx, who, request)).await?;
        Ok(())
    }

    /// See `TeamService.Heartbeat`.
    pub async fn heartbeat(
        &self,
        who: &CallerCredentials,
        request: &v1::HeartbeatRequest,
    ) -> Result<v1::HeartbeatResponse, Refusal> {
        let namespace = namespace_of(who, "").map_err(|_| not_a_member())?;
        Ok(self.decide(&namespace, &self.usual(who), |tx| membership::heartbeat(tx, who, request)).await?.value)
    }

    /// See `TeamService.ForceStop`.
    pub async fn force_stop(
        &self,
        who: &CallerCredentials,
        request: &v1::ForceStopRequest,
    ) -> Result<v1::Member, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        let _turn = self.turns.take(&namespace).await;
        Ok(self.decide(&namespace, &self.usual(who), |tx| membership::force_stop(tx, who, request)).await?.value)
    }

    /// See `TeamService.SetLead`.
    pub async fn set_lead(&self, who: &CallerCredentials, request: &v1::SetLeadRequest) -> Result<v1::Team, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        Ok(self.decide(&namespace, &self.usual(who), |tx| membership::set_lead(tx, who, request)).await?.value)
    }

    /// See `TeamService.ListMembers`.
    pub async fn list_members(
        &self,
        who: &CallerCredentials,
        request: &v1::ListMembersRequest,
    ) -> Result<v1::ListMembersResponse, Refusal> {
        let mut page = Page::new(page_size(request.page_size)?);
        let before = usize::try_from(page::number(&request.page_token)?.unwrap_or(0)).unwrap_or(usize::MAX);
        let (namespace, team, _) = self.caller(who, &request.team).await?;
        let listed: Vec<_> = team.members.iter().skip(before).take(page.size()).collect();
        let ids: Vec<String> = listed.iter().map(|member| member.name.folded().to_owned()).collect();
        let inboxes: Vec<String> = listed.iter().map(|member| inbox(&member.name)).collect();
        let leases = self.store.leases(&namespace).await.map_err(|error| unavailable(&error))?;
        let extents = self.store.extents(&namespace, &inboxes).await.map_err(|error| unavailable(&error))?;
        let sessions = self.fetch::<SessionRecord>(&namespace, ids.clone()).await?;
        let presences = self.fetch::<PresenceRecord>(&namespace, ids).await?;
        let facts = sessions.into_iter().zip(presences).zip(extents).map(|((session, presence), extent)| MemberFacts {
            session,
            presence,
            inbox_depth: extent.entries,
            inbox_full: extent.entries >= self.limits.inbox_entries_max || extent.weight >= self.limits.inbox_bytes_max,
            lease_until_ms: 0,
            now_ms: leases.now_ms,
        });
        for (member, facts) in listed.into_iter().zip(facts) {
            let lease_until_ms = leases.until_ms.get(member.name.folded()).copied().unwrap_or(0);
            if !page.add(query::show_member(&team, member, &MemberFacts { lease_until_ms, ..facts })) {
                break;
            }
        }
        let members = page.into_items();
        let covered = before.saturating_add(members.len());
        let next_page_token = if covered < team.members.len() { page::token(covered) } else { String::new() };
        Ok(v1::ListMembersResponse { members, next_page_token })
    }

    /// Renews the leases of members that gave a sign of life.
    pub async fn renew(&self, namespace: &Namespace, names: &[Name]) -> Result<(), Refusal> {
        self.decide(namespace, &[team_key()], |tx| membership::renew(tx, names)).await?;
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
