//! Reads the current state of a team.

use teamwire_client::v1;
use teamwire_proto::v1::RequestKind;

use super::{
    file::{LOCAL, is_same},
    plan::Found,
    records::TeamRecord,
};
use crate::{context::Caller, failure::Failure};

/// Reads a team from its coordinator. `record`: what `up` started here.
pub(super) async fn read(caller: &Caller, team: v1::Team, record: Option<&TeamRecord>) -> Result<Found, Failure> {
    let client = &caller.client;
    let orders = v1::ListRequestsRequest { kind: RequestKind::Spawn.into(), ..v1::ListRequestsRequest::default() };
    let mut found = Found {
        team,
        members: client.members().await?,
        hosts: client.list_all_hosts(v1::ListHostsRequest::default(), usize::MAX).await?.hosts,
        tasks: client.list_all_tasks(v1::ListTasksRequest::default(), usize::MAX).await?.tasks,
        rules: client.list_permission_rules(v1::ListPermissionRulesRequest::default()).await?.rules,
        orders: client.list_all_requests(orders, usize::MAX).await?.requests,
    };
    if let Some(process) = record.and_then(|record| record.host.as_ref()) {
        // A host that was killed keeps its lease for some time. One that has offered nothing yet was being started by an
        // `up` that was killed.
        let is_over =
            |host: &&mut v1::Host| is_same(&host.name, LOCAL) && (!process.is_alive() || host.offer.is_none());
        found.hosts.iter_mut().filter(is_over).for_each(|host| host.lease_left = None);
    }
    Ok(found)
}
