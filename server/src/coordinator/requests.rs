//! Requests: reading them, and waiting for their decisions.

use std::time::Duration;

use teamwire_proto::{
    Reason, Refusal, id,
    v1::{self, RequestKind, RequestState},
};

use super::Coordinator;
use crate::{
    domain::{
        fields::{LIMIT_MAX, known, limit, wait},
        identity::{CallerCredentials, Principal, namespace_of},
        query,
        record::REQUESTS,
    },
    store::{Namespace, Range},
};

/// How long a call waits for a decision by default.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// How often a waiting call looks by itself, in case a notification was lost.
const POLL: Duration = Duration::from_secs(1);

impl Coordinator {
    async fn visible_request(
        &self,
        namespace: &Namespace,
        caller: &Principal,
        request_id: &str,
    ) -> Result<v1::Request, Refusal> {
        let found = self.fetch::<v1::Request>(namespace, vec![request_id.to_owned()]).await?.pop().flatten();
        let request = found.filter(|request| query::may_see_request(caller, request));
        request.map(|request| v1::Request::clone(&request)).ok_or_else(|| {
            Refusal::new(
                Reason::RequestNotFound,
                "There is no such request that this credential can see. See `teamwire requests`.",
            )
            .field("request_id")
        })
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
    ) -> Result<Vec<v1::Request>, Refusal> {
        let limit = limit(request.limit, "limit")?;
        let (kind, state) =
            (known::<RequestKind>(request.kind, "kind")?, known::<RequestState>(request.state, "state")?);
        let (namespace, team, caller) = self.caller(who, &request.team).await?;
        let member = match request.member.as_str() {
            "" => None,
            text => Some(team.resolve(text, "member")?.name.clone()),
        };
        let mut found = Vec::new();
        let mut last = u64::MAX;
        while found.len() < limit {
            let range = Range { first: 1, last, limit: LIMIT_MAX as usize, newest_first: true };
            let entries = self.entries(&namespace, REQUESTS, range).await?;
            let Some(oldest) = entries.last().map(|entry| entry.sequence) else { break };
            let ids = entries.iter().map(|entry| String::from_utf8_lossy(&entry.data).into_owned()).collect();
            for request_found in self.fetch::<v1::Request>(&namespace, ids).await?.into_iter().flatten() {
                let wanted = query::may_see_request(&caller, &request_found)
                    && (kind == RequestKind::Unspecified || kind == request_found.kind())
                    && (state == RequestState::Unspecified || state == request_found.state())
                    && member.as_ref().is_none_or(|name| request_found.member.eq_ignore_ascii_case(name.folded()));
                if wanted && found.len() < limit {
                    found.push(v1::Request::clone(&request_found));
                }
            }
            if oldest <= 1 {
                break;
            }
            last = oldest - 1;
        }
        Ok(found)
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
