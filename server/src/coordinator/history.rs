//! The history: reading it, page by page.

use std::sync::Arc;

use prost::Message as _;
use teamwire_proto::{
    Refusal,
    v1::{self, history_entry::Event},
};

use super::{Coordinator, batch::Batch, messages::ReceiptLookup, store_errors::corrupt};
use crate::{
    domain::{
        identity::{CallerCredentials, Principal},
        page::{PAGE_BYTES_MAX, Page, SEARCHED_BYTES_MAX, SEARCHED_MAX},
        query,
        records::TeamRecord,
        search::Needle,
        streams::HISTORY,
    },
    store::{Entry, Namespace, Range},
};

/// How many bytes are looked through until other calls get a turn: some tenths of a millisecond of work.
const TURN_BYTES: usize = 64 << 10;

/// How many bytes an entry counts as for that, besides its own.
const ENTRY_BYTES: usize = 1 << 10;

impl Coordinator {
    /// Returns a page of the history: the entries that pass the filter, how far it has searched, and whether there are
    /// more. A page ends early if it has looked through very many entries.
    pub async fn history(
        &self,
        who: &CallerCredentials,
        named: &str,
        query: &HistoryQuery,
    ) -> Result<HistoryPage, Refusal> {
        let (namespace, team, caller) = self.caller(who, named).await?;
        self.search_history(&namespace, &team, &caller, query).await
    }

    /// Returns that page for a caller that is known already.
    pub(super) async fn search_history(
        &self,
        namespace: &Namespace,
        team: &TeamRecord,
        caller: &Principal,
        query: &HistoryQuery,
    ) -> Result<HistoryPage, Refusal> {
        let filter = query.filter.clone().unwrap_or_default();
        let member = match filter.member.as_str() {
            "" => None,
            text => Some(team.resolve(text, "filter.member")?.name.clone()),
        };
        let needle = Needle::parse(&filter.text)?;
        let mut batch = Batch::new();
        let (mut entries_left, mut bytes_left) = (SEARCHED_MAX, SEARCHED_BYTES_MAX);
        let mut page = Page::within(query.limit, query.bytes_max);
        let (mut looked_from, mut looked_to, mut more) = (u64::MAX, query.after, false);
        let mut first = query.after.saturating_add(1);
        let mut last = query.before.map_or(u64::MAX, |before| before.saturating_sub(1));
        let mut lookup = ReceiptLookup::default();
        let mut turn = TURN_BYTES;
        loop {
            let range = Range { first, last, limit: batch.size(), newest_first: query.newest };
            let raw = self.entries(namespace, HISTORY, range).await?;
            let is_last = raw.len() < range.limit;
            let Some(edge) = raw.last().map(|entry| entry.sequence) else {
                if query.seen > 0 && looked_to == query.after {
                    query::check_cursor(query.seen, self.history_end(namespace).await?)?;
                }
                break;
            };
            let joined = self.join_history(namespace, raw).await?;
            let sizes: Vec<usize> = joined.iter().map(v1::HistoryEntry::encoded_len).collect();
            batch.had(sizes.len(), sizes.iter().sum());
            for (mut entry, bytes) in joined.into_iter().zip(sizes) {
                let sequence = entry.sequence;
                turn = turn.saturating_sub(ENTRY_BYTES + bytes);
                if turn == 0 {
                    tokio::task::yield_now().await;
                    turn = TURN_BYTES;
                }
                if entries_left == 0 || bytes_left == 0 {
                    more = true;
                    break;
                }
                entries_left -= 1;
                bytes_left = bytes_left.saturating_sub(bytes);
                if query::may_see_entry(caller, &entry)
                    && query::passes(&filter, member.as_ref(), &entry)
                    && needle.as_ref().is_none_or(|needle| needle.is_in(&entry))
                {
                    if filter.include_receipts
                        && let Some(Event::Message(message)) = &entry.event
                    {
                        entry.receipts = self.receipts(namespace, message, &mut lookup).await?;
                    }
                    if !page.add(entry) {
                        more = true;
                        break;
                    }
                }
                (looked_from, looked_to) = (looked_from.min(sequence), looked_to.max(sequence));
            }
            if is_last || more || (query.newest && edge <= first) {
                break;
            }
            if query.newest {
                last = edge - 1;
            } else {
                first = edge + 1;
            }
        }
        let mut entries = page.into_items();
        if query.newest {
            entries.reverse();
        }
        let examined = SEARCHED_BYTES_MAX - bytes_left;
        Ok(HistoryPage { entries, looked_from, looked_to, more, examined })
    }

    /// Loads the messages and requests that entries name, into those entries.
    async fn join_history(&self, namespace: &Namespace, raw: Vec<Entry>) -> Result<Vec<v1::HistoryEntry>, Refusal> {
        let mut entries = Vec::with_capacity(raw.len());
        for entry in raw {
            let mut decoded = v1::HistoryEntry::decode(&*entry.data)
                .map_err(|error| corrupt(namespace, &format!("history {}: {error}", entry.sequence)))?;
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
        // In the order of the entries.
        let mut messages = self.fetch::<v1::Message>(namespace, message_ids).await?.into_iter();
        let mut requests = self.fetch::<v1::Request>(namespace, request_ids).await?.into_iter();
        for entry in &mut entries {
            match &mut entry.event {
                Some(Event::Message(stub)) => {
                    if let Some(message) = messages.next().flatten() {
                        *stub = Arc::unwrap_or_clone(message);
                    }
                }
                Some(Event::Decision(stub)) => {
                    if let Some(request) = requests.next().flatten() {
                        *stub = Arc::unwrap_or_clone(request);
                    }
                }
                _ => {}
            }
        }
        Ok(entries)
    }

    /// Returns the sequence of the latest entry.
    pub async fn history_end(&self, namespace: &Namespace) -> Result<u64, Refusal> {
        Ok(self.extent(namespace, HISTORY).await?.next.saturating_sub(1))
    }
}

/// Which part of the history to return.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// Which entries pass.
    pub filter: Option<v1::HistoryFilter>,
    /// Only entries above this sequence.
    pub after: u64,
    /// The newest entry that the caller has seen, as far as it says so.
    pub seen: u64,
    /// Only entries below this sequence. `None` means no bound.
    pub before: Option<u64>,
    /// How many at most.
    pub limit: usize,
    /// How many bytes they have at most, unless a single one has more.
    pub bytes_max: usize,
    /// Whether to return the newest entries instead of the oldest.
    pub newest: bool,
}

impl Default for HistoryQuery {
    fn default() -> Self {
        Self { filter: None, after: 0, seen: 0, before: None, limit: 0, bytes_max: PAGE_BYTES_MAX, newest: false }
    }
}

/// A page of the history.
#[derive(Clone, Debug)]
pub struct HistoryPage {
    /// The entries, oldest first.
    pub entries: Vec<v1::HistoryEntry>,
    /// The lowest sequence that the page covers.
    pub looked_from: u64,
    /// The highest sequence that the page covers.
    pub looked_to: u64,
    /// Whether there are more.
    pub more: bool,
    /// How many bytes of entries were examined.
    pub examined: usize,
}
