//! Messages: sending them, acknowledging them, reading them with their receipts.

use std::{collections::HashMap, sync::Arc, time::Instant};

use prost::Message as _;
use teamwire_proto::{Refusal, credential::Credential, id::MessageId, name::Name, v1};

use super::{
    Coordinator,
    batch::Batch,
    keys::usual_keys,
    sessions::SessionFacts,
    store_errors::{corrupt, unavailable},
};
use crate::{
    domain::{
        dead_letters::is_for_another_life,
        identity::{CallerCredentials, Principal, namespace_of},
        inbox::{self, InboxEntry, Leaving},
        page::{self, Page, page_size},
        query::{self, ReceiptFacts},
        records::{MemberRecord, ReceiptRecord, TeamRecord, receipt_id},
        send,
        session::{self, Acknowledgement},
        streams, tags,
    },
    store::{Durability, Entry, Namespace, Range},
};

/// Every entry of an inbox. Not every store can count up to `usize::MAX`.
pub(super) const WHOLE_INBOX: Range = Range { first: 1, last: u64::MAX, limit: u32::MAX as usize, newest_first: false };

/// How many messages of a flood leave an inbox in one transaction.
const CLEARED_AT_ONCE: usize = 256;

impl Coordinator {
    /// See `MessageService.Send`.
    pub async fn send(&self, who: &CallerCredentials, request: &v1::SendRequest) -> Result<v1::SendResponse, Refusal> {
        let began = Instant::now();
        let sent = async {
            let namespace = namespace_of(who, &request.team)?;
            let facts = self.facts_to_choose(&namespace, request).await?;
            let keys = usual_keys(who);
            let done = self.decide_for(who, &namespace, &keys, |tx| send::send(tx, who, request, &facts)).await?;
            Ok(v1::SendResponse { durability: durability(done.durability).into(), ..done.value })
        }
        .await;
        self.metrics.sent(request, &sent, began.elapsed());
        sent
    }

    /// Returns what is known of the members among which a message to `@any:TAG` chooses.
    async fn facts_to_choose(&self, namespace: &Namespace, request: &v1::SendRequest) -> Result<send::Facts, Refusal> {
        let Some(tag) = tags::any_tag(request.body.as_ref()) else { return Ok(send::Facts::new()) };
        let team = self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?.pop().flatten();
        let Some(team) = team else { return Ok(send::Facts::new()) };
        let holders: Vec<&MemberRecord> = tags::reached(&team, None).filter(|it| it.tags.contains(&tag)).collect();
        let leases = self.store.leases(namespace).await.map_err(unavailable)?;
        let facts = self.facts(namespace, &holders, &leases).await?;
        Ok(holders.iter().map(|holder| holder.name.folded().to_owned()).zip(facts).collect())
    }

    /// See `MessageService.Ack`. Returns how many messages have left the inbox.
    pub async fn acknowledge(&self, who: &CallerCredentials, request: &v1::AckRequest) -> Result<u32, Refusal> {
        let member = match (&who.credential, who.credential.team()) {
            (Credential::Console { .. }, Some(_)) => match self.caller(who, "").await?.2 {
                Principal::Member { name, .. } => Some(name),
                Principal::Operator | Principal::Observer => None,
            },
            _ => None,
        };
        let acknowledgement = Acknowledgement::check(who, member, request)?;
        let Acknowledgement { who, member, message_ids } = &acknowledgement;
        let namespace = namespace_of(who, "")?;
        let mailbox = self.notifier.mailbox(&namespace, member, who.session_id.as_ref());
        let mut leaving: Vec<Leaving> = Vec::with_capacity(message_ids.len());
        let mut elsewhere: Vec<MessageId> = Vec::new();
        for id in message_ids {
            match mailbox.as_ref().and_then(|mailbox| mailbox.unacked(*id)) {
                Some(message) => leaving.push(message),
                None => elsewhere.push(*id),
            }
        }
        if !elsewhere.is_empty() {
            leaving.extend(self.find_in_inbox(&namespace, member, &elsewhere).await?);
        }
        leaving.sort_by_key(|message| message.sequence);
        leaving.dedup_by_key(|message| message.sequence);
        let guard = mailbox.as_ref().map(|mailbox| mailbox.leaving(&leaving));
        self.decide(&namespace, &usual_keys(who), |tx| session::acknowledge(tx, &acknowledgement, &leaving)).await?;
        if let Some(guard) = guard {
            guard.done();
        }
        self.metrics.acks.inc_by(leaving.len() as u64);
        Ok(u32::try_from(leaving.len()).unwrap_or(u32::MAX))
    }

    /// Finds messages that no session of this coordinator has delivered. Those that are not in the inbox were
    /// acknowledged before.
    async fn find_in_inbox(
        &self,
        namespace: &Namespace,
        member: &Name,
        ids: &[MessageId],
    ) -> Result<Vec<Leaving>, Refusal> {
        let entries = self.inbox_entries(namespace, member, WHOLE_INBOX).await?;
        let places: HashMap<MessageId, u64> = entries.into_iter().map(|(sequence, id)| (id, sequence)).collect();
        let facts = self.session_facts(namespace, member).await?;
        Ok(ids
            .iter()
            .filter_map(|id| {
                let sequence = *places.get(id)?;
                Some(facts.leaving(sequence, *id))
            })
            .collect())
    }

    /// Returns the sequences and ids of messages in an inbox.
    pub async fn inbox_entries(
        &self,
        namespace: &Namespace,
        member: &Name,
        range: Range,
    ) -> Result<Vec<(u64, MessageId)>, Refusal> {
        let entries = self.decoded_entries(namespace, &streams::inbox(member), range).await?;
        Ok(entries.into_iter().map(|(sequence, entry)| (sequence, entry.message_id)).collect())
    }

    /// Returns everything that is in an inbox. `stream`: the inbox.
    pub(super) async fn whole_inbox(&self, namespace: &Namespace, stream: &str) -> Result<Vec<InboxEntry>, Refusal> {
        let entries = self.decoded_entries(namespace, stream, WHOLE_INBOX).await?;
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    async fn decoded_entries(
        &self,
        namespace: &Namespace,
        stream: &str,
        range: Range,
    ) -> Result<Vec<(u64, InboxEntry)>, Refusal> {
        let entries = self.entries(namespace, stream, range).await?;
        let decode = |entry: Entry| {
            let decoded = InboxEntry::decode(&entry.data).ok_or_else(|| corrupt(namespace, "an inbox entry"))?;
            Ok((entry.sequence, decoded))
        };
        entries.into_iter().map(decode).collect()
    }

    /// Takes what a member that was stopped by force has sent out of the inboxes of others, except its latest messages.
    pub(super) async fn clear_flood(&self, namespace: &Namespace, sender: &str) -> Result<(), Refusal> {
        let team = self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?.pop().flatten();
        let owners: Vec<Name> = team.iter().flat_map(|team| &team.members).map(|member| member.name.clone()).collect();
        let inboxes: Vec<String> = owners.iter().map(streams::inbox).collect();
        let extents = self.store.extents(namespace, &inboxes).await.map_err(unavailable)?;
        for ((owner, inbox), extent) in owners.iter().zip(&inboxes).zip(extents) {
            if extent.entries <= inbox::SHARE_ENTRIES {
                continue;
            }
            let flood = inbox::flood(self.decoded_entries(namespace, inbox, WHOLE_INBOX).await?, sender, &self.limits);
            for batch in flood.chunks(CLEARED_AT_ONCE) {
                self.decide(namespace, &[], |tx| inbox::clear_flood(tx, owner, batch)).await?;
            }
        }
        Ok(())
    }

    /// Returns messages by their ids. `None` if the message does not exist.
    pub async fn messages(
        &self,
        namespace: &Namespace,
        ids: Vec<MessageId>,
    ) -> Result<Vec<Option<Arc<v1::Message>>>, Refusal> {
        self.fetch(namespace, ids.iter().map(MessageId::to_string).collect()).await
    }

    /// See `MessageService.ListInbox`.
    pub async fn list_inbox(
        &self,
        who: &CallerCredentials,
        request: &v1::ListInboxRequest,
    ) -> Result<v1::ListInboxResponse, Refusal> {
        let mut page = Page::new(page_size(request.page_size)?);
        let mut covered = page::number(&request.page_token)?.unwrap_or(0);
        query::check_inbox_named(who, &request.member)?;
        let (namespace, team, caller) = self.caller(who, &request.team).await?;
        let member = &query::inbox_owner(&team, &caller, &request.member)?;
        let incarnation = team.member(member).map_or(0, |member| member.incarnation);
        let total = self.extent(&namespace, &streams::inbox(member)).await?.entries;
        let entries = self.inbox_entries(&namespace, member, Range::after(covered, page.size())).await?;
        let facts = self.session_facts(&namespace, member).await?;
        let mut may_have_more = entries.len() == page.size();
        let (mut rest, mut batch) = (&entries[..], Batch::new());
        'page: while !rest.is_empty() {
            let (next, others) = rest.split_at(batch.size().min(rest.len()));
            rest = others;
            let messages = self.messages(&namespace, next.iter().map(|(_, id)| *id).collect()).await?;
            batch.had(next.len(), messages.iter().flatten().map(|message| message.encoded_len()).sum());
            for ((sequence, _), message) in next.iter().zip(messages) {
                // The next session will move a message for another life to the dead letters.
                if let Some(message) = message.filter(|message| !is_for_another_life(message, incarnation)) {
                    let (sequence, delivery_count) = (*sequence, facts.delivery_count(*sequence));
                    let message = Some(Arc::unwrap_or_clone(message));
                    if !page.add(v1::Delivery { sequence, delivery_count, message }) {
                        may_have_more = true;
                        break 'page;
                    }
                }
                covered = *sequence;
            }
        }
        let next_page_token = if may_have_more { page::token(covered) } else { String::new() };
        Ok(v1::ListInboxResponse { deliveries: page.into_items(), total, next_page_token })
    }

    /// See `MessageService.GetMessage`.
    pub async fn get_message(
        &self,
        who: &CallerCredentials,
        request: &v1::GetMessageRequest,
    ) -> Result<v1::GetMessageResponse, Refusal> {
        let id = MessageId::parse(&request.message_id, "message_id")?;
        let (namespace, _, caller) = self.caller(who, &request.team).await?;
        let found = self.messages(&namespace, vec![id]).await?.pop().flatten();
        let message = query::visible_message(&caller, found)?;
        let mut lookup = ReceiptLookup::default();
        let receipts = self.receipts(&namespace, &message, &mut lookup).await?;
        Ok(v1::GetMessageResponse { message: Some(v1::Message::clone(&message)), receipts })
    }

    /// Returns the receipt of a message at each recipient. `lookup` keeps the inboxes read for earlier messages.
    pub(super) async fn receipts(
        &self,
        namespace: &Namespace,
        message: &v1::Message,
        lookup: &mut ReceiptLookup,
    ) -> Result<Vec<v1::Receipt>, Refusal> {
        let names: Vec<Name> = message.recipients.iter().filter_map(|name| Name::parse(name, "member").ok()).collect();
        let id = MessageId::known(&message.id).ok_or_else(|| corrupt(namespace, "a message's id"))?;
        let ids = names.iter().map(|name| receipt_id(id, name)).collect();
        let finished = self.fetch::<ReceiptRecord>(namespace, ids).await?;
        let mut receipts = Vec::with_capacity(names.len());
        for (name, finished) in names.iter().zip(finished) {
            let mut facts = ReceiptFacts { finished, ..ReceiptFacts::default() };
            if facts.finished.is_none() {
                if !lookup.inboxes.contains_key(name) {
                    // The inbox first: the session read after it may be ahead, but never behind.
                    let entries = self.inbox_entries(namespace, name, WHOLE_INBOX).await?;
                    let places = entries.into_iter().map(|(sequence, id)| (id, sequence)).collect();
                    let session = self.session_facts(namespace, name).await?;
                    lookup.inboxes.insert(name.clone(), (places, session));
                }
                let (places, session) = &lookup.inboxes[name];
                facts.queued_at = places.get(&id).copied();
                facts.session.clone_from(&session.session);
                facts.cursor.clone_from(&session.cursor);
                if facts.queued_at.is_none() {
                    // It may have left the inbox between the two reads.
                    let id = receipt_id(id, name);
                    facts.finished = self.fetch::<ReceiptRecord>(namespace, vec![id]).await?.pop().flatten();
                }
            }
            receipts.push(query::show_receipt(message, name.as_str(), &facts));
        }
        Ok(receipts)
    }
}

/// Inboxes that were read for receipts: the sequence of each message, and how far the session has gotten.
#[derive(Debug, Default)]
pub(super) struct ReceiptLookup {
    inboxes: HashMap<Name, (HashMap<MessageId, u64>, SessionFacts)>,
}

fn durability(durability: Durability) -> v1::Durability {
    match durability {
        Durability::Applied => v1::Durability::Applied,
        Durability::Fsynced => v1::Durability::Fsynced,
        Durability::Replicated => v1::Durability::Replicated,
    }
}
