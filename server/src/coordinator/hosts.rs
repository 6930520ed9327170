//! Hosts: orders, which need the leases, and the list of hosts.

use teamwire_proto::{Refusal, v1};

use super::{Coordinator, decide::Touches, store_errors::unavailable};
use crate::{
    domain::{
        host,
        identity::CallerCredentials,
        page::{self, Page, page_size},
        query::MemberFacts,
        records::{HostRecord, MemberRecord, PresenceRecord, SessionRecord, TeamRecord},
    },
    store::{Leases, Namespace},
};

impl Coordinator {
    /// See `HostService.Spawn`.
    pub async fn spawn(
        &self,
        who: &CallerCredentials,
        request: &v1::SpawnRequest,
    ) -> Result<v1::SpawnResponse, Refusal> {
        let leases = self.leases(who, &request.team).await?;
        self.rule(who, &request.team, Touches::Team, |tx| host::spawn(tx, who, request, &leases)).await
    }

    /// See `HostService.RefuseOrder`.
    pub async fn refuse_order(
        &self,
        who: &CallerCredentials,
        request: &v1::RefuseOrderRequest,
    ) -> Result<v1::Request, Refusal> {
        let leases = self.leases(who, "").await?;
        self.rule(who, "", Touches::Life, |tx| host::refuse(tx, who, request, &leases)).await
    }

    /// See `HostService.ListHosts`.
    pub async fn list_hosts(
        &self,
        who: &CallerCredentials,
        request: &v1::ListHostsRequest,
    ) -> Result<v1::ListHostsResponse, Refusal> {
        let mut page = Page::new(page_size(request.page_size)?);
        let after = page::name(&request.page_token)?;
        let (namespace, team, _) = self.caller(who, &request.team).await?;
        let rest = team.members.get(team.place_after(after.as_ref())..).unwrap_or_default();
        let rest: Vec<_> = rest.iter().filter(|member| member.is_host).collect();
        let leases = self.store.leases(&namespace).await.map_err(unavailable)?;
        let first = &rest[..rest.len().min(page.size())];
        for host in self.shown_hosts(&namespace, &team, first, &leases).await? {
            if !page.add(host) {
                break;
            }
        }
        let hosts = page.into_items();
        let covered = hosts.last().filter(|_| hosts.len() < rest.len());
        let next_page_token = covered.map_or_else(String::new, |host| page::token(&host.name));
        Ok(v1::ListHostsResponse { hosts, next_page_token })
    }

    /// Reads what is known about hosts besides their entries in the roster, and shows them. `leases`: as just read.
    pub(super) async fn shown_hosts(
        &self,
        namespace: &Namespace,
        team: &TeamRecord,
        hosts: &[&MemberRecord],
        leases: &Leases,
    ) -> Result<Vec<v1::Host>, Refusal> {
        let ids: Vec<String> = hosts.iter().map(|host| host.name.folded().to_owned()).collect();
        let offers = self.fetch::<HostRecord>(namespace, ids.clone()).await?;
        let sessions = self.fetch::<SessionRecord>(namespace, ids.clone()).await?;
        let presences = self.fetch::<PresenceRecord>(namespace, ids).await?;
        let records = offers.into_iter().zip(sessions).zip(presences);
        let shown = hosts.iter().zip(records).map(|(found, ((offer, session), presence))| {
            let facts = MemberFacts { session, presence, ..MemberFacts::of_lease(&found.name, leases, &self.limits) };
            host::show(team, found, offer.as_deref(), &facts)
        });
        Ok(shown.collect())
    }
}
