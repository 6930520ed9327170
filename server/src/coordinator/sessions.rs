//! Sessions: opening one, recording its progress, and closing it.

use std::sync::Arc;

use teamwire_proto::{Refusal, id::MessageId, name::Name, v1};

use super::{
    Coordinator,
    keys::{member_key, team_key},
    store_errors::{corrupt, unavailable},
};
use crate::{
    domain::{
        dead_letters::{self, Undeliverable},
        identity::{CallerCredentials, namespace_of},
        inbox::Leaving,
        records::{CursorRecord, SessionRecord},
        secret::SessionId,
        session::{self, Earlier, Opened},
        streams,
        time::milliseconds,
        tx::{CachedRecord, Tx},
    },
    store::{Extent, Namespace, Range},
};

/// A session that was opened in the store.
#[derive(Debug)]
pub struct OpenedSession {
    /// The team's namespace.
    pub namespace: Namespace,
    /// What the rule has decided.
    pub opened: Opened,
    /// How many messages the inbox held.
    pub backlog: u64,
}

/// The progress of a member's latest session.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionFacts {
    pub(super) session: Option<Arc<SessionRecord>>,
    pub(super) cursor: Option<Arc<CursorRecord>>,
}

impl SessionFacts {
    fn opened_ms(&self) -> u64 {
        self.session.as_deref().map_or(0, |session| session.opened_ms)
    }

    fn current(&self) -> Option<&CursorRecord> {
        let epoch = self.session.as_deref()?.epoch;
        self.cursor.as_deref().filter(|cursor| cursor.epoch == epoch)
    }

    /// Returns how many times the message with a sequence was or may have been delivered.
    pub(super) fn delivery_count(&self, sequence: u64) -> u32 {
        let before = self.session.as_deref().map_or(0, |session| session.maybe_seen(sequence));
        before + u32::from(self.current().is_some_and(|cursor| cursor.has_delivered(sequence)))
    }

    /// Describes a message that is about to leave the inbox.
    pub(super) fn leaving(&self, sequence: u64, message_id: MessageId) -> Leaving {
        let delivered =
            self.current().and_then(|cursor| cursor.unacked.iter().find(|(unacked, _)| *unacked == sequence));
        Leaving {
            sequence,
            message_id,
            delivered_ms: delivered.map(|(_, at_ms)| *at_ms),
            delivery_count: self.delivery_count(sequence),
        }
    }
}

impl Coordinator {
    /// Opens a session on the caller's inbox; see `MessageService.Stream`.
    pub async fn open_session(
        &self,
        who: &CallerCredentials,
        request: &v1::StreamRequest,
    ) -> Result<OpenedSession, Refusal> {
        let member = session::subscriber(who)?;
        let namespace = namespace_of(who, "")?;
        let preload = [team_key(), member_key::<SessionRecord>(member), member_key::<CursorRecord>(member)];
        let extent = self.extent(&namespace, &streams::inbox(member)).await?;
        let tail = extent.next.saturating_sub(1);
        let earlier = match (self.notifier.mailbox(&namespace, member, None), self.alone_since_ms) {
            (Some(here), _) => Earlier::Here(here.cursor()),
            (None, Some(since_ms)) => Earlier::Over(self.last_deliverable(&namespace, member, since_ms, tail).await?),
            (None, None) => Earlier::Elsewhere,
        };
        let open = |tx: &mut Tx<'_>| session::open(tx, who, request, tail, &earlier);
        let opened = self.decide(&namespace, &preload, open).await?.value;
        Ok(OpenedSession { namespace, opened, backlog: extent.entries })
    }

    /// Returns the last message of an inbox that the latest session can have delivered. A session that was open before
    /// `since_ms` ended then: its coordinator was another one.
    async fn last_deliverable(
        &self,
        namespace: &Namespace,
        member: &Name,
        since_ms: u64,
        tail: u64,
    ) -> Result<u64, Refusal> {
        let facts = self.session_facts(namespace, member).await?;
        let Some(cursor) = facts.current().filter(|_| facts.opened_ms() < since_ms) else { return Ok(tail) };
        let (mut low, mut high) = (cursor.delivered, cursor.reserved.min(tail));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let range = Range { first: middle, last: high, limit: 1, newest_first: false };
            let found = self.inbox_entries(namespace, member, range).await?.pop();
            let Some((sequence, id)) = found else {
                high = middle - 1;
                continue;
            };
            let message = self.messages(namespace, vec![id]).await?.pop().flatten();
            let sent_at = message.and_then(|message| message.sent_at);
            if sent_at.is_some_and(|sent_at| milliseconds(&sent_at) > since_ms) {
                high = middle - 1;
            } else {
                low = sequence;
            }
        }
        Ok(high)
    }

    /// Records the progress of a session.
    pub async fn advance(
        &self,
        namespace: &Namespace,
        member: &Name,
        session_id: &SessionId,
        cursor: &CursorRecord,
    ) -> Result<(), Refusal> {
        let preload = [member_key::<SessionRecord>(member)];
        self.decide(namespace, &preload, |tx| session::advance(tx, member, session_id, cursor)).await?;
        Ok(())
    }

    /// Closes a session whose stream has ended.
    pub async fn close_session(
        &self,
        namespace: &Namespace,
        member: &Name,
        session_id: &SessionId,
        cursor: &CursorRecord,
    ) -> Result<(), Refusal> {
        let preload = [member_key::<SessionRecord>(member)];
        self.decide(namespace, &preload, |tx| session::close(tx, member, session_id, cursor)).await?;
        Ok(())
    }

    /// Moves a message that cannot be delivered to the dead letters.
    pub async fn dead_letter(
        &self,
        namespace: &Namespace,
        member: &Name,
        session_id: &SessionId,
        leaving: &Leaving,
        message: &v1::Message,
        why: Undeliverable,
    ) -> Result<(), Refusal> {
        let preload = [team_key(), member_key::<SessionRecord>(member)];
        self.decide(namespace, &preload, |tx| dead_letters::dead_letter(tx, member, session_id, leaving, message, why))
            .await?;
        self.metrics.dead_lettered(why.as_str());
        Ok(())
    }

    /// Reads the latest session of a member from the store.
    pub async fn session_record(
        &self,
        namespace: &Namespace,
        member: &Name,
    ) -> Result<Option<Arc<SessionRecord>>, Refusal> {
        let found = self.fetch(namespace, vec![member.folded().to_owned()]).await?;
        Ok(found.into_iter().next().flatten())
    }

    /// Returns a version of what a team holds apart from its leases. While it is the same, so is that.
    pub async fn team_version(&self, namespace: &Namespace) -> Result<u64, Refusal> {
        self.store.version(namespace).await.map_err(unavailable)
    }

    /// Reads the extent of each member's inbox, and its latest session, from the store.
    pub async fn session_places(
        &self,
        namespace: &Namespace,
        members: &[&Name],
    ) -> Result<Vec<(Extent, Option<Arc<SessionRecord>>)>, Refusal> {
        let inboxes: Vec<String> = members.iter().map(|member| streams::inbox(member)).collect();
        let extents = self.store.extents(namespace, &inboxes).await.map_err(unavailable)?;
        let ids = members.iter().map(|member| member.folded().to_owned()).collect();
        let records = self.fetch::<SessionRecord>(namespace, ids).await?;
        Ok(extents.into_iter().zip(records).collect())
    }

    pub(super) async fn session_facts(&self, namespace: &Namespace, member: &Name) -> Result<SessionFacts, Refusal> {
        let keys = [member_key::<SessionRecord>(member), member_key::<CursorRecord>(member)];
        let records = self.store.read(namespace, &keys).await.map_err(unavailable)?;
        let mut records = records.into_iter().map(CachedRecord::new);
        let broken = |_| corrupt(namespace, "a session");
        let session = records.next().map_or(Ok(None), |record| record.get()).map_err(broken)?;
        let cursor = records.next().map_or(Ok(None), |record| record.get()).map_err(broken)?;
        Ok(SessionFacts { session, cursor })
    }
}
