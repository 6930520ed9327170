//! Members: who calls, who is in a team, and what is due when time passes.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{Refusal, name::Name, v1};

use super::{
    Coordinator,
    decide::Touches,
    keys::{due_key, team_key},
    store_errors::unavailable,
    turns::Whose,
};
use crate::{
    domain::{
        due,
        identity::{self, Admit, CallerCredentials, Principal, namespace_of},
        inbox, life, membership,
        page::{self, Page, page_size},
        query::{self, MemberFacts},
        records::{ActivityRecord, MemberRecord, PresenceRecord, SessionRecord, TeamRecord},
        streams,
    },
    store::{Extent, Leases, Namespace},
};

impl Coordinator {
    /// Authenticates the caller, on records read for this call.
    pub async fn caller(
        &self,
        who: &CallerCredentials,
        named: &str,
    ) -> Result<(Namespace, Arc<TeamRecord>, Principal), Refusal> {
        let namespace = namespace_of(who, named)?;
        let done = self.decide(&namespace, &[team_key()], |tx| identity::call(tx, who, named, Admit::Stopping)).await?;
        let (team, caller) = done.value;
        Ok((namespace, team, caller))
    }

    /// See `TeamService.ListMembers`.
    pub async fn list_members(
        &self,
        who: &CallerCredentials,
        request: &v1::ListMembersRequest,
    ) -> Result<v1::ListMembersResponse, Refusal> {
        let mut page = Page::new(page_size(request.page_size)?);
        let after = page::name(&request.page_token)?;
        let (namespace, team, caller) = self.caller(who, &request.team).await?;
        let before = team.place_after(after.as_ref());
        let is_member = |member: &&MemberRecord| !member.is_host;
        let rest = team.members.get(before..).unwrap_or_default();
        let listed: Vec<_> = rest.iter().filter(is_member).take(page.size()).collect();
        let leases = self.store.leases(&namespace).await.map_err(unavailable)?;
        let facts = self.facts(&namespace, &listed, &leases).await?;
        for (member, mut facts) in listed.into_iter().zip(facts) {
            if matches!(&caller, Principal::Member { name, .. } if *name == member.name) {
                facts = facts.is_calling();
            }
            if !page.add(query::show_member(&team, member, &facts)) {
                break;
            }
        }
        let members = page.into_items();
        let has_more = members.len() < rest.iter().filter(is_member).count();
        let covered = members.last().filter(|_| has_more);
        let next_page_token = covered.map_or_else(String::new, |member| page::token(&member.name));
        Ok(v1::ListMembersResponse { members, next_page_token })
    }

    /// Reads what is known about members besides their entries in the roster. `leases`: as just read.
    pub(super) async fn facts(
        &self,
        namespace: &Namespace,
        members: &[&MemberRecord],
        leases: &Leases,
    ) -> Result<Vec<MemberFacts>, Refusal> {
        if members.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = members.iter().map(|member| member.name.folded().to_owned()).collect();
        let inboxes: Vec<String> = members.iter().map(|member| streams::inbox(&member.name)).collect();
        let extents = self.store.extents(namespace, &inboxes).await.map_err(unavailable)?;
        let sessions = self.fetch::<SessionRecord>(namespace, ids.clone()).await?;
        let presences = self.fetch::<PresenceRecord>(namespace, ids.clone()).await?;
        let activities = self.fetch::<ActivityRecord>(namespace, ids).await?;
        let records = sessions.into_iter().zip(presences).zip(activities).zip(extents);
        let mut facts = Vec::with_capacity(members.len());
        for (member, (((session, presence), activity), extent)) in members.iter().zip(records) {
            facts.push(MemberFacts {
                session,
                presence,
                activity,
                inbox_depth: extent.entries,
                inbox_full: self.is_full(namespace, &member.name, extent).await?,
                ..MemberFacts::of_lease(&member.name, leases, &self.limits)
            });
        }
        Ok(facts)
    }

    /// Returns whether no more ordinary messages fit into an inbox of this extent.
    async fn is_full(&self, namespace: &Namespace, member: &Name, extent: Extent) -> Result<bool, Refusal> {
        let exceeds =
            |entries, weight| entries >= self.limits.inbox_entries_max || weight >= self.limits.inbox_bytes_max;
        if !exceeds(extent.entries, extent.weight) {
            return Ok(false);
        }
        let team = self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?.pop().flatten();
        let entries = self.whole_inbox(namespace, &streams::inbox(member)).await?;
        let free = inbox::uncounted(&entries, team.as_deref());
        Ok(exceeds(extent.entries.saturating_sub(free.entries), extent.weight.saturating_sub(free.weight)))
    }

    /// See `TeamService.Join`.
    pub async fn join(&self, who: &CallerCredentials, request: &v1::JoinRequest) -> Result<v1::JoinResponse, Refusal> {
        let leases = self.leases(who, "").await?;
        self.rule(who, "", Touches::Life, |tx| membership::join(tx, who, request, &leases)).await
    }

    /// See `TeamService.ForceStop`.
    pub async fn force_stop(
        &self,
        who: &CallerCredentials,
        request: &v1::ForceStopRequest,
    ) -> Result<v1::Member, Refusal> {
        let rule = self.rule(who, &request.team, Touches::Life, |tx| membership::force_stop(tx, who, request));
        let member = rule.await?;
        let namespace = namespace_of(who, &request.team)?;
        // The member is stopped; a flood that stays takes no room from others.
        if let Err(error) = self.clear_flood(&namespace, &member.name).await {
            tracing::warn!(%error, member = member.name, "the messages of a stopped member stay in inboxes");
        }
        Ok(member)
    }

    /// See `TeamService.SetLead`.
    pub async fn set_lead(&self, who: &CallerCredentials, request: &v1::SetLeadRequest) -> Result<v1::Team, Refusal> {
        let leases = self.leases(who, &request.team).await?;
        self.rule(who, &request.team, Touches::Team, |tx| membership::set_lead(tx, who, request, &leases)).await
    }

    /// Reads the leases of the caller's team, or of the team that the operator names.
    pub(super) async fn leases(&self, who: &CallerCredentials, named: &str) -> Result<Leases, Refusal> {
        self.store.leases(&namespace_of(who, named)?).await.map_err(unavailable)
    }

    /// Renews the leases of members that gave a heartbeat.
    pub async fn renew(&self, namespace: &Namespace, names: &[Name]) -> Result<(), Refusal> {
        self.decide(namespace, &[team_key()], |tx| life::renew(tx, names)).await?;
        Ok(())
    }

    /// Carries out everything that is due in a team. Returns when something will be due next if nothing changes.
    /// `None` means never.
    pub async fn carry_out_due(
        &self,
        namespace: &Namespace,
        leases: &Leases,
        may_lose: bool,
    ) -> Result<Option<Duration>, Refusal> {
        let _turn = self.turns.take(namespace, &Whose::Coordinator).await;
        let done =
            self.decide(namespace, &[team_key(), due_key()], |tx| due::carry_out_due(tx, leases, may_lose)).await?;
        Ok(done.value.map(Duration::from_millis))
    }
}
