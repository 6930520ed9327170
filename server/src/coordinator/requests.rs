//! Requests: reading them, and waiting for their decisions.

use std::time::Duration;

use teamwire_proto::{
    Refusal, id,
    v1::{self, RequestKind, RequestState},
};

use super::Coordinator;
use crate::{
    domain::{
        fields::{known, wait},
        identity::{CallerCredentials, Principal, namespace_of},
        page::{self, PAGE_SIZE_MAX, Page, page_size},
        query,
        streams::REQUESTS,
    },
    store::{Namespace, Range},
};

/// How long a call waits for a decision by default.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// How often a waiting call reads the request without a notification, in case one was lost.
const POLL: Duration = Duration::from_secs(1);

impl Coordinator {
    async fn visible_request(
        &self,
        namespace: &Namespace,
        caller: &Principal,
        request_id: &str,
    ) -> Result<v1::Request, Refusal> {
        let found = self.fetch::<v1::Request>(namespace, vec![request_id.to_owned()]).await?.pop().flatten();
        query::visible_request(caller, found)
    }

    /// See `RequestService.GetRequest`.
    pub async fn get_request(
        &self,
        who: &CallerCredentials,
        named: &str,
        request_id: &str,
    ) -> Result<v1::Request, Refusal> {
        id::request_id(request_id, "request_id")?;
        let (namespace, _, caller) = self.caller(who, named).await?;
        self.visible_request(&namespace, &caller, request_id).await
    }

    /// See `RequestService.ListRequests`.
    pub async fn list_requests(
        &self,
        who: &CallerCredentials,
        request: &v1::ListRequestsRequest,
    ) -> Result<v1::ListRequestsResponse, Refusal> {
        let mut page = Page::new(page_size(request.page_size)?);
        let mut covered = page::number(&request.page_token)?.unwrap_or(u64::MAX);
        let (kind, state) =
            (known::<RequestKind>(request.kind, "kind")?, known::<RequestState>(request.state, "state")?);
        let (namespace, team, caller) = self.caller(who, &request.team).await?;
        let member = match request.member.as_str() {
            "" => None,
            text => Some(team.resolve(text, "member")?.name.clone()),
        };
        let is_wanted = |found: &v1::Request| {
            query::may_see_request(&caller, found)
                && (kind == RequestKind::Unspecified || kind == found.kind())
                && (state == RequestState::Unspecified || state == found.state())
                && member.as_ref().is_none_or(|name| found.member.eq_ignore_ascii_case(name.folded()))
        };
        while covered > 1 {
            let range = Range { first: 1, last: covered - 1, limit: PAGE_SIZE_MAX as usize, newest_first: true };
            let entries = self.entries(&namespace, REQUESTS, range).await?;
            if entries.is_empty() {
                break;
            }
            let ids = entries.iter().map(|entry| String::from_utf8_lossy(&entry.data).into_owned()).collect();
            for (entry, found) in entries.iter().zip(self.fetch::<v1::Request>(&namespace, ids).await?) {
                if let Some(found) = found.filter(|found| is_wanted(found))
                    && !page.add(v1::Request::clone(&found))
                {
                    return Ok(v1::ListRequestsResponse {
                        requests: page.into_items(),
                        next_page_token: page::token(covered),
                    });
                }
                covered = entry.sequence;
            }
        }
        Ok(v1::ListRequestsResponse { requests: page.into_items(), next_page_token: String::new() })
    }

    /// See `RequestService.WaitForDecision`.
    pub async fn wait_for_decision(
        &self,
        who: &CallerCredentials,
        request: &v1::WaitForDecisionRequest,
    ) -> Result<v1::Request, Refusal> {
        let timeout = match &request.timeout {
            None => WAIT_DEFAULT,
            Some(given) => wait(given, "timeout")?,
        };
        let deadline = tokio::time::Instant::now() + timeout;
        let namespace = namespace_of(who, &request.team)?;
        let mut watch = self.notifier.watch(&namespace);
        loop {
            watch.mark_unchanged();
            let found = self.get_request(who, &request.team, &request.request_id).await?;
            if found.state() != RequestState::Pending || tokio::time::Instant::now() >= deadline {
                return Ok(found);
            }
            tokio::select! {
                _ = watch.changed() => {}
                () = tokio::time::sleep(POLL) => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }
}
