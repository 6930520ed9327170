//! Requests: reading them, and waiting for their decisions.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use teamwire_proto::{
    Method, Reason, Refusal, Wait,
    credential::Credential,
    id::RequestId,
    name::Name,
    v1::{self, RequestKind, RequestState},
};

use super::{Coordinator, batch::Batch, messages::WHOLE_INBOX};
use crate::{
    domain::{
        fields::{known, wait},
        identity::{CallerCredentials, Principal, namespace_of, team_not_found},
        page::{self, Page, page_size},
        query,
        records::{RecordType, TeamRecord},
        request::answerers::check_awaited,
        streams::REQUESTS,
    },
    store::{Namespace, Range, Txn, Write},
};

/// How long a call waits for a decision.
const WAIT: Wait = Method::WaitForDecision.wait().expect("a call that waits");

/// How often a waiting call reads the request without a notification, in case one was lost.
const POLL: Duration = Duration::from_secs(1);

impl Coordinator {
    /// Counts the requests that a transaction has decided. A request is never written again after its decision.
    pub(super) fn count_decisions(&self, txn: &Txn) {
        let puts = txn.writes.iter().filter_map(|write| match write {
            Write::Put { key, data } if key.kind == v1::Request::KIND => <v1::Request as RecordType>::decode(data).ok(),
            _ => None,
        });
        puts.filter(|request| request.state() != RequestState::Pending)
            .for_each(|request| self.metrics.decisions.count(&request));
    }

    async fn visible_request(
        &self,
        namespace: &Namespace,
        caller: &Principal,
        request_id: &str,
    ) -> Result<v1::Request, Refusal> {
        let found = self.fetch::<v1::Request>(namespace, vec![request_id.to_owned()]).await?.pop().flatten();
        query::visible_request(caller, found)
    }

    /// Returns the shutdown request that awaits the answer of this life of a member, read from the store.
    pub async fn pending_shutdown(
        &self,
        namespace: &Namespace,
        member: &Name,
        incarnation: u64,
    ) -> Result<Option<RequestId>, Refusal> {
        let team = self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?.pop().flatten();
        let member = team.as_ref().and_then(|team| team.member(member)).filter(|it| it.incarnation == incarnation);
        let pending = member.and_then(|member| member.pending_shutdown.as_ref());
        Ok(pending.filter(|pending| pending.expires_ms > self.now_ms()).map(|pending| pending.id.clone()))
    }

    /// Finds the message of a request among the entries of an inbox from the sequence `first` on.
    pub async fn message_of_request(
        &self,
        namespace: &Namespace,
        member: &Name,
        request_id: &RequestId,
        first: u64,
    ) -> Result<Option<(u64, Arc<v1::Message>)>, Refusal> {
        let request = self.fetch::<v1::Request>(namespace, vec![request_id.to_string()]).await?.pop().flatten();
        let Some(request) = request else { return Ok(None) };
        let entries = self.inbox_entries(namespace, member, Range { first, ..WHOLE_INBOX }).await?;
        let Some((sequence, id)) = entries.into_iter().find(|(_, id)| id.to_string() == request.message_id) else {
            return Ok(None);
        };
        let message = self.messages(namespace, vec![id]).await?.pop().flatten();
        Ok(message.map(|message| (sequence, message)))
    }

    /// See `RequestService.GetRequest`.
    pub async fn get_request(
        &self,
        who: &CallerCredentials,
        named: &str,
        request_id: &str,
    ) -> Result<v1::Request, Refusal> {
        RequestId::parse(request_id, "request_id")?;
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
        let mut batch = Batch::new();
        let mut may_have_more = false;
        'page: while covered > 1 {
            may_have_more = batch.is_enough();
            if may_have_more {
                break;
            }
            let range = Range { first: 1, last: covered - 1, limit: batch.size(), newest_first: true };
            let entries = self.entries(&namespace, REQUESTS, range).await?;
            if entries.is_empty() {
                break;
            }
            let ids = entries.iter().map(|entry| String::from_utf8_lossy(&entry.data).into_owned()).collect();
            let requests = self.fetch::<v1::Request>(&namespace, ids).await?;
            batch.had(entries.len(), requests.iter().flatten().map(|request| request.encoded_len()).sum());
            for (entry, found) in entries.iter().zip(requests) {
                if let Some(found) = found.filter(|found| is_wanted(found))
                    && !page.add(Arc::unwrap_or_clone(found))
                {
                    may_have_more = true;
                    break 'page;
                }
                covered = entry.sequence;
            }
        }
        let next_page_token = if may_have_more { page::token(covered) } else { String::new() };
        Ok(v1::ListRequestsResponse { requests: page.into_items(), next_page_token })
    }

    /// See `RequestService.WaitForDecision`.
    pub async fn wait_for_decision(
        &self,
        who: &CallerCredentials,
        request: &v1::WaitForDecisionRequest,
    ) -> Result<v1::Request, Refusal> {
        let timeout = wait(WAIT, request.timeout.as_ref())?;
        let deadline = tokio::time::Instant::now() + timeout;
        RequestId::parse(&request.request_id, "request_id")?;
        let namespace = namespace_of(who, &request.team)?;
        let mut watch = self.notifier.watch(&namespace);
        let mut was_valid = false;
        loop {
            watch.mark_unchanged();
            let (_, team, caller) = match self.caller(who, &request.team).await {
                // The credential of a deleted team is invalid.
                Err(refusal) if was_valid && refusal.reason == Reason::CredentialInvalid => {
                    return Err(team_not_found(namespace.as_str()));
                }
                caller => caller?,
            };
            was_valid = !matches!(who.credential, Credential::Operator { .. });
            let found = self.visible_request(&namespace, &caller, &request.request_id).await?;
            if found.state() != RequestState::Pending || tokio::time::Instant::now() >= deadline {
                return Ok(found);
            }
            check_awaited(&team, &found)?;
            tokio::select! {
                _ = watch.changed() => {}
                () = tokio::time::sleep(POLL) => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }
}
