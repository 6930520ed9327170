//! Diagnosing a team: reads what the rules of [`diagnosis`] look at, a part at a time.

use std::{collections::HashMap, sync::Arc};

use prost::Message as _;
use teamwire_proto::{
    Refusal,
    v1::{self, Finding, RequestKind, RequestState},
};

use super::{Coordinator, batch::Batch, history::HistoryQuery, messages::ReceiptLookup, store_errors::unavailable};
use crate::{
    domain::{
        dead_letters::is_for_another_life,
        diagnosis::{self, Ages, Asker, EXAMINED_MAX, PendingRequest, Subject, WaitingMessage, Waits},
        identity::{CallerCredentials, Principal},
        page::SEARCHED_BYTES_MAX,
        query::{self, ReceiptFacts},
        records::{AlertsRecord, MemberRecord, TeamRecord},
    },
    store::{Leases, Namespace, Range},
};

/// How many of the newest entries of the history are examined.
const ENTRIES_MAX: usize = 200;

/// What a diagnosis is about.
struct Diagnosis<'d> {
    request: &'d v1::DiagnoseRequest,
    namespace: &'d Namespace,
    team: &'d TeamRecord,
    caller: &'d Principal,
    asker: &'d Asker<'d>,
    ages: Ages,
    /// How many bytes of messages and of the history were examined.
    examined: usize,
}

impl Diagnosis<'_> {
    /// Returns whether something with this name is to be examined.
    fn is_wanted(&self, name: &str) -> bool {
        self.request.member.is_empty() || self.request.member.eq_ignore_ascii_case(name)
    }

    /// Returns the member or host that alone is to be examined.
    fn named(&self) -> Option<&str> {
        Some(self.request.member.as_str()).filter(|named| !named.is_empty())
    }
}

impl Coordinator {
    /// See `TeamService.Diagnose`. Also returns how many bytes it has examined.
    pub async fn diagnose(
        &self,
        who: &CallerCredentials,
        request: &v1::DiagnoseRequest,
    ) -> Result<(v1::DiagnoseResponse, usize), Refusal> {
        let (namespace, team, caller) = self.caller(who, &request.team).await?;
        let leases = self.store.leases(&namespace).await.map_err(unavailable)?;
        let ages = Ages::new(leases.now_ms, request.patience.as_ref())?;
        // What cannot be counted is not full.
        let held = self.held(&namespace).await.ok();
        let asker = Asker::new(&caller, held.is_some_and(|held| held.is_team_full(&self.limits)));
        let mut diagnosis = Diagnosis {
            request,
            namespace: &namespace,
            team: &team,
            caller: &caller,
            asker: &asker,
            ages,
            examined: 0,
        };
        let mut findings = Vec::new();
        if let Some(named) = diagnosis.named() {
            findings.extend(diagnosis::unknown(&asker, &team, named));
        }
        if self.store.check_writable().await.is_err() {
            findings.push(diagnosis::refused_writes());
        }
        let members = self.shown_members(&diagnosis, &leases).await?;
        for (record, member) in &members {
            if diagnosis.is_wanted(&member.name) {
                findings.extend(self.diagnose_member(&mut diagnosis, record, member).await?);
            }
        }
        let members: Vec<v1::Member> = members.into_iter().map(|(_, member)| member).collect();
        findings.extend(self.diagnose_hosts(&diagnosis, &members, &leases).await?);
        findings.extend(self.diagnose_requests(&diagnosis).await?);
        let entries = self.newest_entries(&mut diagnosis).await?;
        findings.extend(diagnosis::of_history(ages, &entries, diagnosis.named()));
        if diagnosis.named().is_none() {
            findings.extend(diagnosis::of_team(&asker, held, &self.limits, &members));
            let alerts = self.fetch::<AlertsRecord>(&namespace, vec![String::new()]).await?.pop().flatten();
            findings.extend(alerts.and_then(|alerts| diagnosis::of_alerts(&asker, ages, &alerts)));
        }
        Ok((diagnosis::reply(findings), diagnosis.examined))
    }

    /// Returns the team's members, as they are shown to the caller.
    async fn shown_members<'t>(
        &self,
        diagnosis: &Diagnosis<'t>,
        leases: &Leases,
    ) -> Result<Vec<(&'t MemberRecord, v1::Member)>, Refusal> {
        let records: Vec<&MemberRecord> = diagnosis.team.members.iter().filter(|member| !member.is_host).collect();
        let facts = self.facts(diagnosis.namespace, &records, leases).await?;
        let shown = records.into_iter().zip(facts).map(|(record, facts)| {
            let is_caller = matches!(diagnosis.caller, Principal::Member { name, .. } if *name == record.name);
            let facts = if is_caller { facts.is_calling() } else { facts };
            (record, query::show_member(diagnosis.team, record, &facts))
        });
        Ok(shown.collect())
    }

    async fn diagnose_member(
        &self,
        diagnosis: &mut Diagnosis<'_>,
        record: &MemberRecord,
        member: &v1::Member,
    ) -> Result<Vec<Finding>, Refusal> {
        let (asker, ages) = (diagnosis.asker, diagnosis.ages);
        let is_named = diagnosis.named().is_some();
        let mut findings = diagnosis::of_member(asker, ages, Subject { member, record, is_named });
        let found = match diagnosis::reads_inbox(asker, member) {
            Waits::Nothing => return Ok(findings),
            Waits::Count => Vec::new(),
            Waits::Messages => self.diagnose_inbox(diagnosis, record, member).await?,
        };
        findings.extend(diagnosis::of_inbox(asker, member, found, member.inbox_depth));
        Ok(findings)
    }

    /// Explains why the oldest messages of an inbox are not processed yet.
    async fn diagnose_inbox(
        &self,
        diagnosis: &mut Diagnosis<'_>,
        record: &MemberRecord,
        member: &v1::Member,
    ) -> Result<Vec<Finding>, Refusal> {
        let mut found = Vec::new();
        let entries = self.inbox_entries(diagnosis.namespace, &record.name, Range::after(0, EXAMINED_MAX)).await?;
        // After the inbox, so that it may be ahead, but never behind.
        let session = self.session_facts(diagnosis.namespace, &record.name).await?;
        let (mut rest, mut batch) = (&entries[..], Batch::new());
        while !rest.is_empty() && diagnosis.examined < SEARCHED_BYTES_MAX {
            let (next, others) = rest.split_at(batch.size().min(rest.len()));
            rest = others;
            let messages = self.messages(diagnosis.namespace, next.iter().map(|(_, id)| *id).collect()).await?;
            let bytes = messages.iter().flatten().map(|message| message.encoded_len()).sum();
            batch.had(next.len(), bytes);
            diagnosis.examined += bytes;
            for ((sequence, _), message) in next.iter().zip(messages) {
                // The next session will move a message for another life to the dead letters.
                let message = message.filter(|message| !is_for_another_life(message, record.incarnation));
                let Some(message) = message else { continue };
                let facts = ReceiptFacts {
                    finished: None,
                    queued_at: Some(*sequence),
                    session: session.session.clone(),
                    cursor: session.cursor.clone(),
                };
                let receipt = query::show_receipt(&message, record.name.as_str(), &facts);
                let waiting = WaitingMessage { message: &message, receipt: &receipt };
                found.extend(waiting.why_unprocessed(diagnosis.asker, diagnosis.ages, member));
            }
        }
        Ok(found)
    }

    async fn diagnose_hosts(
        &self,
        diagnosis: &Diagnosis<'_>,
        members: &[v1::Member],
        leases: &Leases,
    ) -> Result<Vec<Finding>, Refusal> {
        let hosts: Vec<&MemberRecord> =
            diagnosis.team.hosts().filter(|host| diagnosis.is_wanted(host.name.as_str())).collect();
        let shown = self.shown_hosts(diagnosis.namespace, diagnosis.team, &hosts, leases).await?;
        let is_running = |member: &&v1::Member| member.state() != v1::MemberState::Exited;
        let mut started: HashMap<&str, Vec<&str>> = HashMap::new();
        for member in members.iter().filter(is_running) {
            started.entry(member.spawned_on.as_str()).or_default().push(&member.name);
        }
        let found = shown.iter().filter_map(|host| {
            let started = started.get(host.name.as_str()).map(Vec::as_slice).unwrap_or_default();
            diagnosis::of_host(diagnosis.asker, diagnosis.ages, host, started)
        });
        Ok(found.collect())
    }

    /// Examines the pending requests that the caller may see, the oldest first.
    async fn diagnose_requests(&self, diagnosis: &Diagnosis<'_>) -> Result<Vec<Finding>, Refusal> {
        let wanted = diagnosis.team.members.iter().filter(|member| diagnosis.is_wanted(member.name.as_str()));
        let ids = wanted.flat_map(MemberRecord::pending).map(|pending| pending.id.to_string()).collect();
        let requests = self.fetch::<v1::Request>(diagnosis.namespace, ids).await?;
        let is_shown = |request: &Arc<v1::Request>| {
            request.state() == RequestState::Pending
                && query::may_see_request(diagnosis.caller, request)
                && diagnosis::is_overdue(diagnosis.ages, request)
        };
        let mut requests: Vec<Arc<v1::Request>> = requests.into_iter().flatten().filter(is_shown).collect();
        requests.sort_by_key(|request| request.created_at.map(|at| (at.seconds, at.nanos)));
        let mut lookup = ReceiptLookup::default();
        let mut findings = Vec::new();
        for request in requests {
            let at_host = match request.kind() == RequestKind::Spawn && diagnosis.caller.sees_all() {
                true => self.state_at_host(diagnosis.namespace, &request, &mut lookup).await?,
                false => None,
            };
            let pending = PendingRequest { request: &request, at_host };
            findings.extend(diagnosis::of_request(diagnosis.asker, diagnosis.ages, pending));
        }
        Ok(findings)
    }

    /// Returns what is known about an order's message at its host.
    async fn state_at_host(
        &self,
        namespace: &Namespace,
        order: &v1::Request,
        lookup: &mut ReceiptLookup,
    ) -> Result<Option<v1::ReceiptState>, Refusal> {
        let Some(id) = teamwire_proto::id::MessageId::known(&order.message_id) else { return Ok(None) };
        let Some(message) = self.messages(namespace, vec![id]).await?.pop().flatten() else { return Ok(None) };
        let receipts = self.receipts(namespace, &message, lookup).await?;
        Ok(receipts.first().map(v1::Receipt::state))
    }

    /// Returns the newest entries of the history that the caller may see, the oldest first.
    async fn newest_entries(&self, diagnosis: &mut Diagnosis<'_>) -> Result<Vec<v1::HistoryEntry>, Refusal> {
        let query = HistoryQuery { limit: ENTRIES_MAX, newest: true, ..HistoryQuery::default() };
        let page = self.search_history(diagnosis.namespace, diagnosis.team, diagnosis.caller, &query).await?;
        diagnosis.examined += page.examined;
        Ok(page.entries)
    }
}
