//! The calls that only look. What they may show is decided in `domain::query`.

use std::{collections::HashMap, sync::Arc, time::Duration};

use prost::Message as _;
use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    id,
    name::Name,
    v1::{self, RequestKind, RequestState, history_entry::Event},
};

use super::{Coordinator, calls::namespace_of, member_key, team_key, unavailable};
use crate::{
    domain::{
        identity::{self, Admit, Caller, Presented},
        post::message_id_of,
        query::{self, MemberFacts, ReceiptFacts},
        record::{
            CursorRecord, HISTORY, Life, ListedTeam, PresenceRecord, REQUESTS, ReceiptRecord, SessionRecord, Stored,
            TeamRecord, inbox,
        },
        session::{Leaving, is_for_another_life, receipt_id},
        team,
        tx::{Loaded, Stop},
    },
    store::{Entry, Extent, Key, Namespace, Range},
    telemetry::census::Count,
};

/// How many entries a list returns where the call does not say.
const LIMIT_DEFAULT: u32 = 100;

/// How many entries a list returns at most.
const LIMIT_MAX: u32 = 1_000;

/// How long a call waits for a decision at most, and by default.
const WAIT_MAX: Duration = Duration::from_secs(60);
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// How often a waiting call looks by itself, in case a notification was lost.
const POLL: Duration = Duration::from_secs(1);

/// Every entry of an inbox. Not every store can count up to `usize::MAX`.
pub(super) const WHOLE_INBOX: Range = Range { first: 1, last: u64::MAX, limit: u32::MAX as usize, newest_first: false };

/// Checks the bound of a list.
pub fn limit(given: u32, field: &str) -> Result<usize, Refusal> {
    match given {
        0 => Ok(LIMIT_DEFAULT as usize),
        1..=LIMIT_MAX => Ok(given as usize),
        _ => Err(Refusal::new(Reason::InvalidField, format!("{field} must be up to {LIMIT_MAX}.")).field(field)),
    }
}

/// Checks how long a call is to wait, which is `WAIT_MAX` at most.
pub fn wait(given: &prost_types::Duration, field: &str) -> Result<Duration, Refusal> {
    let nanos = i128::from(given.seconds) * 1_000_000_000 + i128::from(given.nanos);
    let nanos = u64::try_from(nanos.min(i128::from(u64::MAX)))
        .map_err(|_| Refusal::new(Reason::InvalidField, format!("{field} must not be negative.")).field(field))?;
    Ok(Duration::from_nanos(nanos).min(WAIT_MAX))
}

/// Checks the value of a filter: what this coordinator does not know it cannot look for.
pub fn known<T: TryFrom<i32>>(given: i32, field: &str) -> Result<T, Refusal> {
    T::try_from(given).map_err(|_| {
        Refusal::new(Reason::InvalidField, format!("{field} must be a value of the protocol, not {given}."))
            .field(field)
    })
}

/// How far the latest session of a member has come.
#[derive(Clone, Debug, Default)]
pub struct SessionFacts {
    session: Option<Arc<SessionRecord>>,
    cursor: Option<Arc<CursorRecord>>,
}

impl SessionFacts {
    fn current(&self) -> Option<&CursorRecord> {
        let epoch = self.session.as_deref()?.epoch;
        self.cursor.as_deref().filter(|cursor| cursor.epoch == epoch)
    }

    /// Returns how often the message at a place was delivered, or may have been.
    pub fn delivery_count(&self, sequence: u64) -> u32 {
        let before = self.session.as_deref().map_or(0, |session| session.maybe_seen(sequence));
        before + u32::from(self.current().is_some_and(|cursor| cursor.delivered >= sequence))
    }

    /// Returns what is known of a message that is about to leave the inbox.
    pub fn leaving(&self, sequence: u64, id: &str) -> Leaving {
        let delivered =
            self.current().and_then(|cursor| cursor.unacked.iter().find(|(unacked, _)| *unacked == sequence));
        Leaving {
            sequence,
            message_id: id.to_owned(),
            delivered_ms: delivered.map_or(0, |(_, at_ms)| *at_ms),
            delivery_count: self.delivery_count(sequence),
        }
    }
}

impl Coordinator {
    /// Finds out who calls, on records read for this call.
    async fn caller(&self, who: &Presented, named: &str) -> Result<(Namespace, Arc<TeamRecord>, Caller), Refusal> {
        let namespace = namespace_of(who, named)?;
        let done = self.decide(&namespace, &[team_key()], |tx| identity::call(tx, who, named, Admit::Stopping)).await?;
        let (team, caller) = done.value;
        Ok((namespace, team, caller))
    }

    /// Finds out whether a credential holds; see [`identity::holds`].
    pub async fn holds(&self, who: &Presented) -> Result<bool, Refusal> {
        let (namespace, keys) = match who.credential.team() {
            Some(team) => (Namespace::team(team), vec![team_key()]),
            None => (Namespace::directory(), Vec::new()),
        };
        Ok(self.decide(&namespace, &keys, |tx| identity::holds(tx, who)).await?.value)
    }

    pub(super) async fn fetch<T: Stored>(
        &self,
        namespace: &Namespace,
        ids: Vec<String>,
    ) -> Result<Vec<Option<Arc<T>>>, Refusal> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<Key> = ids.into_iter().map(|id| Key::new(T::KIND, id)).collect();
        let records = self.store.read(namespace, &keys).await.map_err(|error| unavailable(&error))?;
        records
            .into_iter()
            .map(|record| {
                Loaded::new(record).get::<T>().map_err(|stop| match stop {
                    Stop::Refused(refusal) => refusal,
                    Stop::Missing(_) => super::corrupt(namespace, T::KIND),
                    Stop::Corrupt(what) => super::corrupt(namespace, &what),
                })
            })
            .collect()
    }

    pub(super) async fn entries(
        &self,
        namespace: &Namespace,
        stream: &str,
        range: Range,
    ) -> Result<Vec<Entry>, Refusal> {
        self.store.range(namespace, stream, range).await.map_err(|error| unavailable(&error))
    }

    pub(super) async fn extent(&self, namespace: &Namespace, stream: &str) -> Result<Extent, Refusal> {
        let extents = self.store.extents(namespace, &[stream.to_owned()]).await.map_err(|error| unavailable(&error))?;
        extents.first().copied().ok_or_else(|| super::corrupt(namespace, "an extent"))
    }

    /// Returns the places and ids of messages in an inbox.
    pub async fn inbox_entries(
        &self,
        namespace: &Namespace,
        member: &Name,
        range: Range,
    ) -> Result<Vec<(u64, String)>, Refusal> {
        let entries = self.entries(namespace, &inbox(member), range).await?;
        entries
            .into_iter()
            .map(|entry| {
                let id = message_id_of(&entry.data).ok_or_else(|| super::corrupt(namespace, "an inbox entry"))?;
                Ok((entry.sequence, id))
            })
            .collect()
    }

    /// Returns messages by their ids. `None`: there is none.
    pub async fn messages(
        &self,
        namespace: &Namespace,
        ids: Vec<String>,
    ) -> Result<Vec<Option<Arc<v1::Message>>>, Refusal> {
        self.fetch(namespace, ids).await
    }

    /// Returns whether a namespace has a team, as the store has it.
    pub async fn has_team(&self, namespace: &Namespace) -> Result<bool, Refusal> {
        Ok(self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?.iter().any(Option::is_some))
    }

    /// Returns the latest session of a member, as the store has it.
    pub async fn session_record(
        &self,
        namespace: &Namespace,
        member: &Name,
    ) -> Result<Option<Arc<SessionRecord>>, Refusal> {
        let found = self.fetch(namespace, vec![member.folded().to_owned()]).await?;
        Ok(found.into_iter().next().flatten())
    }

    /// Returns the next sequence of each member's inbox, and its latest session, as the store has them.
    pub async fn session_places(
        &self,
        namespace: &Namespace,
        members: &[&Name],
    ) -> Result<Vec<(u64, Option<Arc<SessionRecord>>)>, Refusal> {
        let inboxes: Vec<String> = members.iter().map(|member| inbox(member)).collect();
        let extents = self.store.extents(namespace, &inboxes).await.map_err(|error| unavailable(&error))?;
        let ids = members.iter().map(|member| member.folded().to_owned()).collect();
        let records = self.fetch::<SessionRecord>(namespace, ids).await?;
        Ok(extents.into_iter().map(|extent| extent.next).zip(records).collect())
    }

    pub(super) async fn session_facts(&self, namespace: &Namespace, member: &Name) -> Result<SessionFacts, Refusal> {
        let keys = [member_key::<SessionRecord>(member), member_key::<CursorRecord>(member)];
        let records = self.store.read(namespace, &keys).await.map_err(|error| unavailable(&error))?;
        let mut records = records.into_iter().map(Loaded::new);
        let broken = |_| super::corrupt(namespace, "a session");
        let session = records.next().map_or(Ok(None), |record| record.get()).map_err(broken)?;
        let cursor = records.next().map_or(Ok(None), |record| record.get()).map_err(broken)?;
        Ok(SessionFacts { session, cursor })
    }

    /// See `TeamService.GetTeam`.
    pub async fn get_team(&self, who: &Presented, named: &str) -> Result<v1::Team, Refusal> {
        let namespace = namespace_of(who, named)?;
        Ok(self.decide(&namespace, &[team_key()], |tx| team::get(tx, who, named)).await?.value)
    }

    /// See `TeamService.ListTeams`.
    pub async fn list_teams(
        &self,
        who: &Presented,
        request: &v1::ListTeamsRequest,
    ) -> Result<v1::ListTeamsResponse, Refusal> {
        let page = limit(request.page_size, "page_size")?;
        if who.credential.team().is_some() {
            let teams = vec![self.get_team(who, "").await?];
            return Ok(v1::ListTeamsResponse { teams, next_page_token: String::new() });
        }
        let directory = Namespace::directory();
        self.decide(&directory, &[], |tx| identity::operator(tx, who)).await?;
        let listed = self.store.scan(&directory, ListedTeam::KIND, &request.page_token, page).await;
        let listed = listed.map_err(|error| unavailable(&error))?;
        let next = if listed.len() == page { listed.last().map(|(id, _)| id.clone()) } else { None };
        let mut teams = Vec::with_capacity(listed.len());
        for (id, _) in listed {
            let name = Name::parse(&id, "name")?;
            match self.fetch::<TeamRecord>(&Namespace::team(&name), vec![String::new()]).await?.pop().flatten() {
                Some(team) => teams.push(query::show_team(&team)),
                None => self.unlist_team(&name).await?,
            }
        }
        Ok(v1::ListTeamsResponse { teams, next_page_token: next.unwrap_or_default() })
    }

    /// Returns every team in the directory.
    pub async fn all_namespaces(&self) -> Result<Vec<Namespace>, Refusal> {
        let mut namespaces: Vec<Namespace> = Vec::new();
        loop {
            let after = namespaces.last().map_or("", Namespace::as_str).to_owned();
            let listed = self.store.scan(&Namespace::directory(), ListedTeam::KIND, &after, LIMIT_MAX as usize).await;
            let listed = listed.map_err(|error| unavailable(&error))?;
            let names = listed.iter().filter_map(|(id, _)| Name::parse(id, "name").ok());
            namespaces.extend(names.map(|name| Namespace::team(&name)));
            if listed.len() < LIMIT_MAX as usize {
                return Ok(namespaces);
            }
        }
    }

    /// Counts a team for those who watch. `None`: it is gone.
    pub(crate) async fn count(&self, namespace: &Namespace) -> Result<Option<Count>, Refusal> {
        let found = self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?.pop().flatten();
        let Some(team) = found else { return Ok(None) };
        let inboxes: Vec<String> = team.members.iter().map(|member| inbox(&member.name)).collect();
        let extents = self.store.extents(namespace, &inboxes).await.map_err(|error| unavailable(&error))?;
        let mut count = Count::default();
        for member in &team.members {
            let state = match member.life {
                Life::Live => 0,
                Life::Lost => 1,
                Life::Stopping { .. } => 2,
                Life::Exited { .. } => 3,
            };
            count.members[state] += 1;
        }
        count.messages = extents.iter().map(|extent| extent.entries).sum();
        count.messages_max = extents.iter().map(|extent| extent.entries).max().unwrap_or(0);
        count.bytes = extents.iter().map(|extent| extent.weight).sum();
        Ok(Some(count))
    }

    /// See `TeamService.ListMembers`.
    pub async fn list_members(&self, who: &Presented, named: &str) -> Result<Vec<v1::Member>, Refusal> {
        let (namespace, team, _) = self.caller(who, named).await?;
        let ids: Vec<String> = team.members.iter().map(|member| member.name.folded().to_owned()).collect();
        let inboxes: Vec<String> = team.members.iter().map(|member| inbox(&member.name)).collect();
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
        Ok(team
            .members
            .iter()
            .zip(facts)
            .map(|(member, facts)| {
                let lease_until_ms = leases.until_ms.get(member.name.folded()).copied().unwrap_or(0);
                query::show_member(&team, member, &MemberFacts { lease_until_ms, ..facts })
            })
            .collect())
    }

    /// See `MessageService.ListInbox`.
    pub async fn list_inbox(
        &self,
        who: &Presented,
        request: &v1::ListInboxRequest,
    ) -> Result<v1::ListInboxResponse, Refusal> {
        let limit = limit(request.limit, "limit")?;
        if request.member.is_empty() && !matches!(who.credential, Credential::Member { .. }) {
            return Err(query::no_own_inbox());
        }
        let (namespace, team, caller) = self.caller(who, &request.team).await?;
        let member = &query::inbox_owner(&team, &caller, &request.member)?;
        let incarnation = team.member(member).map_or(0, |member| member.incarnation);
        let total = self.extent(&namespace, &inbox(member)).await?.entries;
        let entries = self.inbox_entries(&namespace, member, Range::after(request.after_sequence, limit)).await?;
        let messages = self.messages(&namespace, entries.iter().map(|(_, id)| id.clone()).collect()).await?;
        let facts = self.session_facts(&namespace, member).await?;
        let deliveries = entries.iter().zip(messages).filter_map(|((sequence, _), message)| {
            // The next session will give it up.
            let message = message.filter(|message| !is_for_another_life(message, incarnation))?;
            Some(v1::Delivery {
                sequence: *sequence,
                delivery_count: facts.delivery_count(*sequence),
                message: Some(v1::Message::clone(&message)),
            })
        });
        Ok(v1::ListInboxResponse { deliveries: deliveries.collect(), total })
    }

    /// See `MessageService.GetMessage`.
    pub async fn get_message(
        &self,
        who: &Presented,
        request: &v1::GetMessageRequest,
    ) -> Result<v1::GetMessageResponse, Refusal> {
        let id = id::message_id(&request.message_id, "message_id")?.to_string();
        let (namespace, _, caller) = self.caller(who, &request.team).await?;
        let found = self.messages(&namespace, vec![id]).await?.pop().flatten();
        let message = found.filter(|message| query::may_see_message(&caller, message)).ok_or_else(|| {
            Refusal::new(
                Reason::MessageNotFound,
                "There is no such message that this credential can see. Look for its id with `teamwire history`.",
            )
            .field("message_id")
        })?;
        let mut lookup = ReceiptLookup::default();
        let receipts = self.receipts(&namespace, &message, &mut lookup).await?;
        Ok(v1::GetMessageResponse { message: Some(v1::Message::clone(&message)), receipts })
    }

    /// Finds out what became of a message at each recipient. `lookup` carries inboxes over from message to message.
    async fn receipts(
        &self,
        namespace: &Namespace,
        message: &v1::Message,
        lookup: &mut ReceiptLookup,
    ) -> Result<Vec<v1::Receipt>, Refusal> {
        let names: Vec<Name> = message.recipients.iter().filter_map(|name| Name::parse(name, "member").ok()).collect();
        let ids = names.iter().map(|name| receipt_id(&message.id, name)).collect();
        let finished = self.fetch::<ReceiptRecord>(namespace, ids).await?;
        let mut receipts = Vec::with_capacity(names.len());
        for (name, finished) in names.iter().zip(finished) {
            let mut facts = ReceiptFacts { finished, ..ReceiptFacts::default() };
            if facts.finished.is_none() {
                if !lookup.inboxes.contains_key(name) {
                    // Sessions first: what they deliver meanwhile is not taken for undelivered.
                    let entries = self.inbox_entries(namespace, name, WHOLE_INBOX).await?;
                    let places = entries.into_iter().map(|(sequence, id)| (id, sequence)).collect();
                    let session = self.session_facts(namespace, name).await?;
                    lookup.inboxes.insert(name.clone(), (places, session));
                }
                let (places, session) = &lookup.inboxes[name];
                facts.queued_at = places.get(&message.id).copied();
                facts.session.clone_from(&session.session);
                facts.cursor.clone_from(&session.cursor);
                if facts.queued_at.is_none() {
                    // It may have left the inbox between the two looks.
                    let id = receipt_id(&message.id, name);
                    facts.finished = self.fetch::<ReceiptRecord>(namespace, vec![id]).await?.pop().flatten();
                }
            }
            receipts.push(query::show_receipt(message, name.as_str(), &facts));
        }
        Ok(receipts)
    }

    async fn visible_request(
        &self,
        namespace: &Namespace,
        caller: &Caller,
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
    pub async fn get_request(&self, who: &Presented, named: &str, request_id: &str) -> Result<v1::Request, Refusal> {
        id::request_id(request_id, "request_id")?;
        let (namespace, _, caller) = self.caller(who, named).await?;
        self.visible_request(&namespace, &caller, request_id).await
    }

    /// See `RequestService.ListRequests`.
    pub async fn list_requests(
        &self,
        who: &Presented,
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
        who: &Presented,
        request: &v1::WaitForDecisionRequest,
    ) -> Result<v1::Request, Refusal> {
        let timeout = match &request.timeout {
            None => WAIT_DEFAULT,
            Some(given) => wait(given, "timeout")?,
        };
        let deadline = tokio::time::Instant::now() + timeout;
        let namespace = namespace_of(who, &request.team)?;
        let mut watch = self.hub.watch(&namespace);
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

    /// Returns a page of the history: the entries that pass, how far was looked, and whether there is more.
    pub async fn history(&self, who: &Presented, named: &str, query: &HistoryQuery) -> Result<HistoryPage, Refusal> {
        let (namespace, team, caller) = self.caller(who, named).await?;
        let filter = query.filter.clone().unwrap_or_default();
        let member = match filter.member.as_str() {
            "" => None,
            text => Some(team.resolve(text, "filter.member")?.name.clone()),
        };
        let mut page = HistoryPage { entries: Vec::new(), looked_to: query.after, more: false };
        let (mut first, mut last) = (query.after.saturating_add(1), u64::MAX);
        let mut lookup = ReceiptLookup::default();
        loop {
            let range = Range { first, last, limit: query.limit.max(64), newest_first: query.newest };
            let raw = self.entries(&namespace, HISTORY, range).await?;
            let is_last = raw.len() < range.limit;
            let Some(edge) = raw.last().map(|entry| entry.sequence) else { break };
            for entry in self.join_history(&namespace, raw).await? {
                if page.entries.len() == query.limit {
                    page.more = true;
                    break;
                }
                page.looked_to = page.looked_to.max(entry.sequence);
                if query::may_see_entry(&caller, &entry) && query::passes(&filter, member.as_ref(), &entry) {
                    page.entries.push(entry);
                }
            }
            if is_last || page.more || (query.newest && edge <= first) {
                break;
            }
            if query.newest {
                last = edge - 1;
            } else {
                first = edge + 1;
            }
        }
        if query.newest {
            page.entries.reverse();
        }
        if filter.include_receipts {
            for entry in &mut page.entries {
                if let Some(Event::Message(message)) = &entry.event {
                    entry.receipts = self.receipts(&namespace, message, &mut lookup).await?;
                }
            }
        }
        Ok(page)
    }

    /// Puts messages and requests into the entries that name them.
    async fn join_history(&self, namespace: &Namespace, raw: Vec<Entry>) -> Result<Vec<v1::HistoryEntry>, Refusal> {
        let mut entries = Vec::with_capacity(raw.len());
        for entry in raw {
            let mut decoded = v1::HistoryEntry::decode(&*entry.data)
                .map_err(|error| super::corrupt(namespace, &format!("history {}: {error}", entry.sequence)))?;
            decoded.sequence = entry.sequence;
            entries.push(decoded);
        }
        let mut message_ids = Vec::new();
        let mut request_ids = Vec::new();
        for entry in &entries {
            match &entry.event {
                Some(Event::Message(message)) => message_ids.push(message.id.clone()),
                Some(Event::Decision(request)) => request_ids.push(request.id.clone()),
                _ => {}
            }
        }
        let messages = self.fetch::<v1::Message>(namespace, message_ids).await?;
        let messages: HashMap<_, _> = messages.iter().flatten().map(|message| (&message.id, message)).collect();
        let requests = self.fetch::<v1::Request>(namespace, request_ids).await?;
        let requests: HashMap<_, _> = requests.iter().flatten().map(|request| (&request.id, request)).collect();
        for entry in &mut entries {
            match &mut entry.event {
                Some(Event::Message(stub)) => {
                    if let Some(message) = messages.get(&stub.id) {
                        *stub = v1::Message::clone(message);
                    }
                }
                Some(Event::Decision(stub)) => {
                    if let Some(request) = requests.get(&stub.id) {
                        *stub = v1::Request::clone(request);
                    }
                }
                _ => {}
            }
        }
        Ok(entries)
    }
}

/// Which part of the history.
#[derive(Clone, Debug, Default)]
pub struct HistoryQuery {
    /// Which entries.
    pub filter: Option<v1::HistoryFilter>,
    /// Only entries above this sequence.
    pub after: u64,
    /// How many at most.
    pub limit: usize,
    /// The newest instead of the oldest.
    pub newest: bool,
}

/// A part of the history.
#[derive(Clone, Debug)]
pub struct HistoryPage {
    /// The oldest first.
    pub entries: Vec<v1::HistoryEntry>,
    /// The highest sequence that was looked at.
    pub looked_to: u64,
    /// There are more.
    pub more: bool,
}

/// Inboxes that were read for receipts: where each message is, and how far the session has come.
#[derive(Debug, Default)]
struct ReceiptLookup {
    inboxes: HashMap<Name, (HashMap<String, u64>, SessionFacts)>,
}
