//! Finds what may be deleted, for the rules in `domain::retention`, messages that have been unprocessed for too long,
//! and teams that are nearly full. Each pass does a bounded amount of work and leaves the remainder to the next.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use prost::Message as _;
use teamwire_proto::{
    Refusal,
    id::{MessageId, made_ms},
    name::Name,
    v1::{self, history_entry::Event},
};
use uuid::Uuid;

use super::{
    Coordinator,
    keys::team_key,
    messages::WHOLE_INBOX,
    store_errors::{corrupt, unavailable},
    turns::Whose,
};
use crate::{
    domain::{
        inbox::Leaving,
        quota::HeldBytes,
        records::{ConsoleRecord, JoinTokenRecord, ObserverRecord, RecordType, SignInCodeRecord, TeamRecord},
        retention::{self, Forgotten, Oldest, is_long_expired, is_long_gone, is_over_since},
        streams::{self, HISTORY, LEFTOVERS, REQUESTS},
        task::board::{BoardRecord, TaskRecord},
        time::{milliseconds, ms},
        tx::{CachedRecord, RuleError, Tx},
    },
    store::{Entry, Namespace, Range},
};

/// How many entries are examined and removed at once.
const CHUNK: usize = 256;

/// How many chunks one pass examines.
const CHUNKS_MAX: usize = 40;

/// How many credentials of each kind one pass examines.
const SCAN_MAX: usize = 1_000;

impl Coordinator {
    /// Deletes what may be deleted of a team, and notifies its lead of unprocessed messages. Returns when another message
    /// will have been unprocessed for too long. `None` means never, if nothing changes.
    pub async fn delete_old(&self, namespace: &Namespace) -> Result<Option<Duration>, Refusal> {
        let Some(team) = self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?.pop().flatten() else {
            return Ok(None);
        };
        let next = self.alarm_unprocessed(namespace, &team).await?;
        self.alarm_quota(namespace, &team).await?;
        self.trim_history(namespace, team.id).await?;
        self.trim_leftovers(namespace, team.id).await?;
        self.trim_requests(namespace, team.id).await?;
        self.trim_tasks(namespace, team.id).await?;
        self.trim_credentials(namespace, team.id).await?;
        self.trim_sign_ins(namespace).await?;
        self.remove_members(namespace, &team).await?;
        Ok(next)
    }

    async fn change(
        &self,
        namespace: &Namespace,
        rule: impl Fn(&mut Tx<'_>) -> Result<(), RuleError>,
    ) -> Result<(), Refusal> {
        self.decide(namespace, &[team_key()], rule).await.map(drop)
    }

    fn before(&self, ttl: Duration) -> u64 {
        self.now_ms().saturating_sub(ms(ttl))
    }

    async fn trim_history(&self, namespace: &Namespace, team_id: Uuid) -> Result<(), Refusal> {
        let before_ms = self.before(self.limits().history_ttl);
        let is_young = |entry: &v1::HistoryEntry| entry.at.as_ref().is_some_and(|at| milliseconds(at) >= before_ms);
        // Most histories have nothing to trim, which one entry shows.
        let first = self.entries(namespace, HISTORY, Range::after(0, 1)).await?;
        if first.iter().all(|entry| v1::HistoryEntry::decode(&*entry.data).is_ok_and(|entry| is_young(&entry))) {
            return Ok(());
        }
        for _ in 0..CHUNKS_MAX {
            let oldest = self.entries(namespace, HISTORY, Range::after(0, CHUNK)).await?;
            let mut sequences = Vec::new();
            let mut ids = Vec::new();
            for entry in &oldest {
                // An entry that cannot be read counts as old, like those around it.
                let decoded = v1::HistoryEntry::decode(&*entry.data).unwrap_or_default();
                if is_young(&decoded) {
                    break;
                }
                sequences.push(entry.sequence);
                if let Some(Event::Message(message)) = decoded.event {
                    ids.extend(MessageId::known(&message.id));
                }
            }
            if sequences.is_empty() {
                return Ok(());
            }
            let messages = self.forgotten(namespace, ids).await?;
            self.change(namespace, |tx| retention::trim_history(tx, team_id, &sequences, &messages)).await?;
            if sequences.len() < CHUNK {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn trim_leftovers(&self, namespace: &Namespace, team_id: Uuid) -> Result<(), Refusal> {
        let mut after = 0;
        for _ in 0..CHUNKS_MAX {
            let leftovers = self.entries(namespace, LEFTOVERS, Range::after(after, CHUNK)).await?;
            let Some(last) = leftovers.last().map(|entry| entry.sequence) else { return Ok(()) };
            after = last;
            let id = |entry: &Entry| MessageId::known(&String::from_utf8_lossy(&entry.data));
            let ids: Option<Vec<MessageId>> = leftovers.iter().map(id).collect();
            let ids = ids.ok_or_else(|| corrupt(namespace, "a leftover"))?;
            let places = leftovers.iter().map(|entry| entry.sequence);
            let done: Vec<(u64, Forgotten)> =
                places.zip(self.forgotten(namespace, ids).await?).filter(|(_, message)| !message.is_waiting).collect();
            if !done.is_empty() {
                self.change(namespace, |tx| retention::trim_leftovers(tx, team_id, &done)).await?;
            }
        }
        Ok(())
    }

    /// Finds out which messages still lie in an inbox, in the order of the ids. A message that does not exist lies in
    /// none.
    ///
    /// Inboxes are read here, after the ids: inboxes read earlier would lack messages that have arrived since.
    async fn forgotten(&self, namespace: &Namespace, ids: Vec<MessageId>) -> Result<Vec<Forgotten>, Refusal> {
        let mut inboxes: HashMap<Name, HashSet<MessageId>> = HashMap::new();
        let mut forgotten = Vec::with_capacity(ids.len());
        for (id, message) in ids.iter().zip(self.messages(namespace, ids.clone()).await?) {
            let recipients = message.iter().flat_map(|message| &message.recipients);
            let recipients: Vec<Name> = recipients.filter_map(|name| Name::parse(name, "member").ok()).collect();
            let mut is_waiting = false;
            for name in &recipients {
                if !inboxes.contains_key(name) {
                    let entries = self.inbox_entries(namespace, name, WHOLE_INBOX).await?;
                    inboxes.insert(name.clone(), entries.into_iter().map(|(_, id)| id).collect());
                }
                is_waiting |= inboxes.get(name).is_some_and(|ids| ids.contains(id));
            }
            forgotten.push(Forgotten { id: *id, recipients, is_waiting });
        }
        Ok(forgotten)
    }

    async fn trim_requests(&self, namespace: &Namespace, team_id: Uuid) -> Result<(), Refusal> {
        let before_ms = self.before(self.limits().history_ttl);
        let mut after = 0;
        for _ in 0..CHUNKS_MAX {
            let entries = self.entries(namespace, REQUESTS, Range::after(after, CHUNK)).await?;
            let Some(last) = entries.last().map(|entry| entry.sequence) else { return Ok(()) };
            after = last;
            let ids: Vec<String> =
                entries.iter().map(|entry| String::from_utf8_lossy(&entry.data).into_owned()).collect();
            let found = self.fetch::<v1::Request>(namespace, ids.clone()).await?;
            let places = entries.iter().map(|entry| entry.sequence).zip(ids);
            let old: Vec<(u64, String)> = places
                .zip(found)
                .filter(|(_, request)| request.as_ref().is_none_or(|request| is_over_since(request, before_ms)))
                .map(|(place, _)| place)
                .collect();
            // Requests are in the order of their creation: those after a whole chunk of recent ones are more recent.
            if old.is_empty() {
                return Ok(());
            }
            self.change(namespace, |tx| retention::trim_requests(tx, team_id, &old)).await?;
        }
        Ok(())
    }

    async fn trim_tasks(&self, namespace: &Namespace, team_id: Uuid) -> Result<(), Refusal> {
        let Some(board) = self.fetch::<BoardRecord>(namespace, vec![String::new()]).await?.pop().flatten() else {
            return Ok(());
        };
        let before_ms = self.before(self.limits().deleted_task_ttl);
        let deleted_before = board.deleted_before.iter().filter(|(_, at_ms)| **at_ms < before_ms).map(|(id, _)| *id);
        let mut old: Vec<u64> = deleted_before.take(CHUNK).collect();
        for (closed, ttl) in
            [(&board.deleted, self.limits().deleted_task_ttl), (&board.completed, self.limits().completed_task_ttl)]
        {
            let ids: Vec<u64> = closed.iter().flat_map(Clone::clone).take(CHUNK).collect();
            let tasks = self.fetch::<TaskRecord>(namespace, ids.iter().map(u64::to_string).collect()).await?;
            let before_ms = self.before(ttl);
            let is_old = tasks
                .iter()
                .map(|task| task.as_ref().is_none_or(|task| task.closed_ms.is_none_or(|at_ms| at_ms < before_ms)));
            old.extend(ids.iter().zip(is_old).filter(|(_, is_old)| *is_old).map(|(id, _)| *id));
        }
        if old.is_empty() {
            return Ok(());
        }
        let _turn = self.turns.take(namespace, &Whose::Coordinator).await;
        self.change(namespace, |tx| retention::trim_tasks(tx, team_id, &old)).await
    }

    async fn trim_credentials(&self, namespace: &Namespace, team_id: Uuid) -> Result<(), Refusal> {
        let now_ms = self.now_ms();
        let tokens =
            self.expired::<JoinTokenRecord>(namespace, |token| is_long_expired(token.expires_ms, now_ms)).await?;
        let observers =
            self.expired::<ObserverRecord>(namespace, |observer| is_long_expired(observer.expires_ms, now_ms)).await?;
        if tokens.is_empty() && observers.is_empty() {
            return Ok(());
        }
        self.change(namespace, |tx| retention::trim_credentials(tx, team_id, &tokens, &observers)).await
    }

    /// Deletes codes and console credentials that expired long ago, of a team or of the directory.
    pub async fn trim_sign_ins(&self, namespace: &Namespace) -> Result<(), Refusal> {
        let now_ms = self.now_ms();
        let codes =
            self.expired::<SignInCodeRecord>(namespace, |code| is_long_expired(code.expires_ms, now_ms)).await?;
        let consoles = self
            .expired::<ConsoleRecord>(namespace, |console| retention::console_is_long_gone(console, now_ms))
            .await?;
        if codes.is_empty() && consoles.is_empty() {
            return Ok(());
        }
        self.decide(namespace, &[], |tx| retention::trim_sign_ins(tx, &codes, &consoles)).await.map(drop)
    }

    async fn expired<T: RecordType>(
        &self,
        namespace: &Namespace,
        is_old: impl Fn(&T) -> bool,
    ) -> Result<Vec<String>, Refusal> {
        let found = self.store().scan(namespace, T::KIND, "", SCAN_MAX).await.map_err(unavailable)?;
        let old = found.into_iter().filter(|(_, record)| {
            let record = CachedRecord::new(Some(record.clone())).get::<T>();
            record.ok().flatten().is_some_and(|record| is_old(&record))
        });
        Ok(old.map(|(id, _)| id).collect())
    }

    async fn remove_members(&self, namespace: &Namespace, team: &TeamRecord) -> Result<(), Refusal> {
        let ttl_ms = ms(self.limits().exited_member_ttl);
        for member in &team.members {
            if !is_long_gone(team, &member.name, self.now_ms(), ttl_ms) {
                continue;
            }
            let entries = self.inbox_entries(namespace, &member.name, WHOLE_INBOX).await?;
            let facts = self.session_facts(namespace, &member.name).await?;
            let leaving: Vec<Leaving> = entries.iter().map(|(sequence, id)| facts.leaving(*sequence, *id)).collect();
            let activity = self.extent(namespace, &streams::activity(&member.name)).await?;
            let activity = activity.next - activity.entries..activity.next;
            let remove =
                |tx: &mut Tx<'_>| retention::remove_member(tx, team.id, &member.name, &leaving, activity.clone());
            self.change(namespace, remove).await?;
        }
        Ok(())
    }

    /// Reads how much a team holds.
    pub(super) async fn held(&self, namespace: &Namespace) -> Result<HeldBytes, Refusal> {
        let board = self.fetch::<BoardRecord>(namespace, vec![String::new()]).await?.pop().flatten();
        self.held_with(namespace, board.as_deref()).await
    }

    /// Reads how much a team with this board holds.
    pub(super) async fn held_with(
        &self,
        namespace: &Namespace,
        board: Option<&BoardRecord>,
    ) -> Result<HeldBytes, Refusal> {
        let team = self.store().usage(namespace).await.map_err(unavailable)?;
        let task_changes = self.extent(namespace, HISTORY).await?.weight;
        Ok(HeldBytes { team, tasks: board.map_or(0, |board| board.bytes), task_changes })
    }

    /// Notifies the lead and the operator, by the log, of a team that is nearly full or full.
    async fn alarm_quota(&self, namespace: &Namespace, team: &TeamRecord) -> Result<(), Refusal> {
        let held = self.held(namespace).await?;
        let alarm = self.decide(namespace, &[team_key()], |tx| retention::alarm_quota(tx, team.id, held)).await?.value;
        if let Some(text) = alarm {
            tracing::warn!(team = %team.name, percent = held.percent(self.limits()), "{text}");
        }
        Ok(())
    }

    async fn alarm_unprocessed(&self, namespace: &Namespace, team: &TeamRecord) -> Result<Option<Duration>, Refusal> {
        let inboxes: Vec<String> = team.members.iter().map(|member| streams::inbox(&member.name)).collect();
        let extents = self.store().extents(namespace, &inboxes).await.map_err(unavailable)?;
        let before_ms = self.before(self.limits().unprocessed_alarm_after);
        let (mut late, mut next) = (Vec::new(), None::<Duration>);
        for (member, extent) in team.members.iter().zip(extents) {
            if extent.entries == 0 {
                continue;
            }
            let Some((sequence, id)) = self.inbox_entries(namespace, &member.name, Range::after(0, 1)).await?.pop()
            else {
                continue;
            };
            // A message's id tells when it was sent.
            let sent_ms = made_ms(id.into()).unwrap_or(u64::MAX);
            if sent_ms < before_ms {
                let member = member.name.clone();
                late.push(Oldest { member, sequence, message_id: id, sent_ms, waiting: extent.entries });
            } else {
                let after = Duration::from_millis(sent_ms - before_ms);
                next = Some(next.map_or(after, |next| next.min(after)));
            }
        }
        if late.is_empty() {
            return Ok(next);
        }
        let again =
            self.decide(namespace, &[team_key()], |tx| retention::alarm_unprocessed(tx, team.id, &late)).await?;
        Ok(next.into_iter().chain(again.value.map(Duration::from_millis)).min())
    }
}
