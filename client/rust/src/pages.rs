//! Lists that are longer than a page.

use teamwire_proto::v1;

use crate::{Client, Error};

/// The largest page that a coordinator returns.
const PAGE_SIZE_MAX: usize = 1_000;

fn page_size(items: usize) -> u32 {
    u32::try_from(items.min(PAGE_SIZE_MAX)).unwrap_or(u32::MAX)
}

macro_rules! pages {
    ($($(#[$doc:meta])* $all:ident = $list:ident($request:ident) -> $response:ident.$items:ident;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                ///
                /// Reads page after page, until there are `max` items or no more. Returns them in one reply, whose
                /// `next_page_token` leads on.
                pub async fn $all(&self, mut request: v1::$request, max: usize) -> Result<v1::$response, Error> {
                    let mut items = Vec::new();
                    loop {
                        request.page_size = page_size(max - items.len());
                        let mut page = self.$list(request.clone()).await?;
                        items.append(&mut page.$items);
                        if items.len() >= max || page.next_page_token.is_empty() {
                            page.$items = items;
                            return Ok(page);
                        }
                        request.page_token = page.next_page_token;
                    }
                }
            )*
        }
    };
}

pages! {
    /// Lists the unprocessed messages of an inbox without opening a session.
    list_all_inbox = list_inbox(ListInboxRequest) -> ListInboxResponse.deliveries;
    /// Lists the teams that the caller may see.
    list_all_teams = list_teams(ListTeamsRequest) -> ListTeamsResponse.teams;
    /// Lists the members of a team.
    list_all_members = list_members(ListMembersRequest) -> ListMembersResponse.members;
    /// Lists requests, the newest first.
    list_all_requests = list_requests(ListRequestsRequest) -> ListRequestsResponse.requests;
    /// Lists the hosts of a team.
    list_all_hosts = list_hosts(ListHostsRequest) -> ListHostsResponse.hosts;
    /// Lists what a member's program has done, the oldest line first.
    list_all_activity = list_activity(ListActivityRequest) -> ListActivityResponse.lines;
    /// Lists the team's credentials that are valid.
    list_all_credentials = list_credentials(ListCredentialsRequest) -> ListCredentialsResponse.credentials;
    /// Lists the chains of the audit log.
    list_all_audit_chains = list_audit_chains(ListAuditChainsRequest) -> ListAuditChainsResponse.chains;
    /// Lists entries of the audit log: chain by chain, each in its order.
    list_all_audit_entries = list_audit_entries(ListAuditEntriesRequest) -> ListAuditEntriesResponse.records;
    /// Lists tasks in the order of their ids.
    list_all_tasks = list_tasks(ListTasksRequest) -> ListTasksResponse.tasks;
}

impl Client {
    /// Lists a part of the history, the oldest entry first.
    ///
    /// Reads page after page, until there are `max` entries or no more. Returns them in one reply, whose
    /// `next_page_token` leads on.
    pub async fn list_all_history(
        &self,
        mut request: v1::ListHistoryRequest,
        max: usize,
    ) -> Result<v1::ListHistoryResponse, Error> {
        let mut found = v1::ListHistoryResponse::default();
        loop {
            request.page_size = page_size(max - found.entries.len());
            let mut page = self.list_history(request.clone()).await?;
            if request.newest {
                page.entries.append(&mut found.entries);
                found.entries = page.entries;
            } else {
                found.entries.append(&mut page.entries);
            }
            found.last_sequence = found.last_sequence.max(page.last_sequence);
            found.next_page_token.clone_from(&page.next_page_token);
            if found.entries.len() >= max || found.next_page_token.is_empty() {
                return Ok(found);
            }
            request.page_token = page.next_page_token;
        }
    }
}
