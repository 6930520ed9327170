//! Teams: creating, listing and deleting them, and the directory that names them.

use teamwire_proto::{Refusal, name::Name, v1};

use super::{Coordinator, decide::Touches, keys::team_key, store_errors::unavailable};
use crate::{
    domain::{
        host,
        identity::{self, CallerCredentials, namespace_of},
        page::{self, Page, page_size},
        query, quota,
        records::{HostRecord, Life, ListedTeam, RecordType, TeamRecord, TeamSpendingRecord},
        spending, streams,
        task::board::BoardRecord,
        team,
    },
    store::{Check, Key, Leases, Loss, Namespace, Txn, Write},
    telemetry::{HOST_STATES, MEMBER_STATES, SLOT_STATES, TASK_STATUSES},
};

/// The statistics of one team.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamCount {
    /// The team.
    pub name: String,
    /// Members, in the order of [`MEMBER_STATES`].
    pub members: [u32; MEMBER_STATES.len()],
    /// Open tasks, in the order of [`TASK_STATUSES`].
    pub tasks: [u64; TASK_STATUSES.len()],
    /// Hosts, in the order of [`HOST_STATES`].
    pub hosts: [u32; HOST_STATES.len()],
    /// Slots of live hosts, in the order of [`SLOT_STATES`].
    pub slots: [u32; SLOT_STATES.len()],
    /// Messages in all inboxes.
    pub messages: u64,
    /// Messages in the fullest inbox.
    pub messages_max: u64,
    /// Bytes in all inboxes.
    pub bytes: u64,
    /// Bytes that it holds in all.
    pub held_bytes: u64,
    /// How many percent of its quota the fullest part uses: all, its tasks, or the history of its tasks.
    pub quota_percent: u64,
}

impl Coordinator {
    /// See `TeamService.CreateTeam`.
    pub async fn create_team(
        &self,
        who: &CallerCredentials,
        request: &v1::CreateTeamRequest,
    ) -> Result<v1::CreateTeamResponse, Refusal> {
        let Ok(name) = Name::parse(&request.name, "name") else {
            // A caller that may not create a team learns that, rather than that the name is invalid.
            let done = self.decide(&Namespace::directory(), &[], |tx| team::create(tx, who, request)).await?;
            return Ok(done.value);
        };
        let namespace = Namespace::team(&name);
        // List the team first, so that no team can exist without being listed.
        let done = self
            .decide(&namespace, &[team_key()], |tx| {
                identity::operator(tx, who)?;
                // Listing the team writes, too.
                tx.check_may_write()?;
                tx.peek::<TeamRecord>("")
            })
            .await?;
        if done.value.is_none() {
            self.list_team(&name).await?;
        }
        let reply = self.decide(&namespace, &[team_key()], |tx| team::create(tx, who, request)).await?.value;
        // List it again, in case another call has just unlisted an earlier team of this name.
        self.list_team(&name).await?;
        Ok(reply)
    }

    async fn list_team(&self, name: &Name) -> Result<(), Refusal> {
        let put = Write::Put {
            key: Key::new(ListedTeam::KIND, name.folded()),
            data: ListedTeam { name: name.clone() }.encode(),
        };
        let txn = Txn { checks: Vec::new(), writes: vec![put], ..Txn::default() };
        self.store.commit(&Namespace::directory(), &txn).await.map_err(unavailable)?;
        Ok(())
    }

    /// Unlists a deleted team, unless it has been created again meanwhile.
    pub(super) async fn unlist_team(&self, name: &Name) -> Result<(), Refusal> {
        let key = Key::new(ListedTeam::KIND, name.folded());
        let read = self.store.read(&Namespace::directory(), std::slice::from_ref(&key)).await;
        let listed = read.map_err(unavailable)?;
        let Some(Some(listed)) = listed.into_iter().next() else { return Ok(()) };
        let team = self.store.read(&Namespace::team(name), &[team_key()]).await.map_err(unavailable)?;
        if matches!(team.first(), Some(Some(_))) {
            return Ok(());
        }
        let check = Check::Version { key: key.clone(), version: Some(listed.version) };
        let txn = Txn { checks: vec![check], writes: vec![Write::Delete { key }], ..Txn::default() };
        self.store.commit(&Namespace::directory(), &txn).await.map_err(unavailable)?;
        Ok(())
    }

    /// See `TeamService.DeleteTeam`.
    pub async fn delete_team(&self, who: &CallerCredentials, named: &str) -> Result<(), Refusal> {
        let namespace = namespace_of(who, named)?;
        let leases = self.leases(who, named).await?;
        let name = self.decide(&namespace, &[team_key()], |tx| team::delete(tx, who, named, &leases)).await?.value;
        // The team is deleted. If the list still names it, the next reader corrects the list.
        if let Err(refusal) = self.unlist_team(&name).await {
            tracing::debug!(%name, %refusal, "the team could not be unlisted");
        }
        Ok(())
    }

    /// See `TeamService.ListTeams`.
    pub async fn list_teams(
        &self,
        who: &CallerCredentials,
        request: &v1::ListTeamsRequest,
    ) -> Result<v1::ListTeamsResponse, Refusal> {
        let mut page = Page::new(page_size(request.page_size)?);
        let after = page::position(&request.page_token)?.unwrap_or_default();
        if who.credential.team().is_some() {
            let teams = vec![self.rule(who, "", Touches::Team, |tx| team::get(tx, who, "")).await?];
            return Ok(v1::ListTeamsResponse { teams, next_page_token: String::new() });
        }
        let directory = Namespace::directory();
        self.decide(&directory, &[], |tx| identity::operator(tx, who)).await?;
        let listed = self.store.scan(&directory, ListedTeam::KIND, &after, page.size()).await;
        let listed = listed.map_err(unavailable)?;
        let mut may_have_more = listed.len() == page.size();
        let mut covered = after;
        for (id, _) in listed {
            let name = Name::parse(&id, "name")?;
            match self.fetch::<TeamRecord>(&Namespace::team(&name), vec![String::new()]).await?.pop().flatten() {
                Some(team) if !page.add(query::show_team(&team)) => {
                    may_have_more = true;
                    break;
                }
                Some(_) => {}
                None => self.unlist_team(&name).await?,
            }
            covered = id;
        }
        let next_page_token = if may_have_more { page::token(covered) } else { String::new() };
        Ok(v1::ListTeamsResponse { teams: page.into_items(), next_page_token })
    }

    /// See `TeamService.GetTeam`.
    pub async fn get_team(&self, who: &CallerCredentials, named: &str) -> Result<v1::Team, Refusal> {
        let team = self.rule(who, named, Touches::Team, |tx| team::get(tx, who, named)).await?;
        // What an earlier version wrote cannot be counted while the store takes no writes.
        let namespace = namespace_of(who, named)?;
        let held = self.held(&namespace).await.ok();
        let spending = self.fetch::<TeamSpendingRecord>(&namespace, vec![String::new()]).await?.pop().flatten();
        let budget = spending::of_team(spending.as_ref());
        Ok(v1::Team { storage: held.map(|held| quota::show(&held, &self.limits)), budget, ..team })
    }

    /// Returns every team in the directory, with one read: on Redis, a page would cost as much as all of it.
    pub async fn all_namespaces(&self) -> Result<Vec<Namespace>, Refusal> {
        let listed = self.store.scan(&Namespace::directory(), ListedTeam::KIND, "", usize::MAX).await;
        let names = listed.map_err(unavailable)?.into_iter().filter_map(|(id, _)| Name::parse(&id, "name").ok());
        Ok(names.map(|name| Namespace::team(&name)).collect())
    }

    /// Reads from the store whether a namespace has a team.
    pub async fn has_team(&self, namespace: &Namespace) -> Result<bool, Refusal> {
        Ok(self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?.iter().any(Option::is_some))
    }

    /// Returns whether the store has lost a team that is no longer there; otherwise it was deleted.
    pub async fn has_lost(&self, namespace: &Namespace) -> Result<bool, Refusal> {
        self.store.has_lost(namespace).await.map_err(unavailable)
    }

    /// Counts a team's members, open tasks and messages, and returns its roster. `None` if the team is deleted.
    pub async fn count(&self, namespace: &Namespace) -> Result<Option<(TeamCount, Vec<Name>)>, Refusal> {
        let found = self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?.pop().flatten();
        let Some(team) = found else { return Ok(None) };
        let inboxes: Vec<String> = team.members.iter().map(|member| streams::inbox(&member.name)).collect();
        let extents = self.store.extents(namespace, &inboxes).await.map_err(unavailable)?;
        let leases = self.store.leases(namespace).await.map_err(unavailable)?;
        let board = self.fetch::<BoardRecord>(namespace, vec![String::new()]).await?.pop().flatten();
        let tasks = board.as_ref().map(|board| board.open_by_status()).unwrap_or_default();
        let mut count = TeamCount { name: team.name.to_string(), tasks, ..TeamCount::default() };
        for member in team.members.iter().filter(|member| !member.is_host) {
            let state = match member.life {
                Life::Live if member.is_away(&leases) => 4,
                Life::Live => 0,
                Life::Lost => 1,
                Life::Stopping { .. } => 2,
                Life::Exited { .. } => 3,
                Life::Spawning => 5,
            };
            count.members[state] += 1;
        }
        self.count_hosts(namespace, &team, &leases, &mut count).await?;
        count.messages = extents.iter().map(|extent| extent.entries).sum();
        count.messages_max = extents.iter().map(|extent| extent.entries).max().unwrap_or(0);
        count.bytes = extents.iter().map(|extent| extent.weight).sum();
        let held = self.held_with(namespace, board.as_deref()).await?;
        (count.held_bytes, count.quota_percent) = (held.team, held.percent(&self.limits));
        Ok(Some((count, team.members.iter().map(|member| member.name.clone()).collect())))
    }

    async fn count_hosts(
        &self,
        namespace: &Namespace,
        team: &TeamRecord,
        leases: &Leases,
        count: &mut TeamCount,
    ) -> Result<(), Refusal> {
        let ids: Vec<String> = team.hosts().map(|host| host.name.folded().to_owned()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let offers = self.fetch::<HostRecord>(namespace, ids).await?;
        let offers = offers.into_iter().map(|offer| offer.as_deref().cloned());
        for (host, candidate) in team.hosts().zip(host::candidates(team, offers, leases)) {
            let state = match host.life {
                Life::Exited { .. } => 2,
                _ if candidate.is_live => 0,
                _ => 1,
            };
            count.hosts[state] += 1;
            if candidate.is_live {
                count.slots[0] += candidate.slots_used;
                count.slots[1] += candidate.free();
            }
        }
        Ok(())
    }

    /// Notifies a team that the store has lost commits that it had acknowledged: once, however many coordinators
    /// notice.
    pub async fn report_loss(&self, loss: &Loss) -> Result<(), Refusal> {
        let generation = loss.generation;
        self.decide(&loss.namespace, &[team_key()], |tx| team::writes_lost(tx, generation)).await?;
        Ok(())
    }
}
