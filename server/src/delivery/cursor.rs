//! The cursor: how far a session has gotten, and how far it may go.
//!
//! A session *reserves* sequences in the store, a window at a time, before it delivers them. It records its progress
//! now and then; only the record that it makes when it closes is exact.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{Reason, Refusal};
use tokio::{
    task::{JoinError, JoinHandle},
    time::Instant,
};

use crate::{
    coordinator::Coordinator,
    domain::{
        records::{CursorRecord, SessionRecord},
        session::RESERVED_AHEAD,
    },
    notify::{Mailbox, Work},
};

/// The shortest time between two records of a session's progress.
const RECORD_INTERVAL: Duration = Duration::from_millis(200);

/// A cursor on its way into the store, on a separate task: the session's loop does other things meanwhile, and a future
/// that is not polled must not hold anything in the store. Returns how far the session may go then.
type Recording = JoinHandle<Result<u64, Refusal>>;

/// The progress of a session.
pub(super) struct Cursor {
    coordinator: Arc<Coordinator>,
    mailbox: Arc<Mailbox>,
    record: CursorRecord,
    /// The cursor has moved since it was last recorded.
    has_moved: bool,
    /// One at a time, or an older cursor could replace a newer one.
    recording: Option<Recording>,
    record_at: Instant,
}

impl Cursor {
    /// Starts at the beginning, with sequences up to `reserved` reserved already.
    pub(super) fn new(
        coordinator: Arc<Coordinator>,
        mailbox: Arc<Mailbox>,
        session: &SessionRecord,
        reserved: u64,
    ) -> Self {
        let record = CursorRecord { epoch: session.epoch, reserved, ..CursorRecord::default() };
        Self { coordinator, mailbox, record, has_moved: false, recording: None, record_at: Instant::now() }
    }

    /// Records that the session has delivered everything up to a sequence.
    pub(super) fn moved_to(&mut self, sequence: u64) {
        self.record.delivered = sequence;
        self.record.overtook.retain(|overtook| *overtook > sequence);
        self.has_moved = true;
        self.mailbox.set_cursor(&self.record);
    }

    /// Records that the session has delivered a message ahead of its turn.
    pub(super) fn overtook(&mut self, sequence: u64) {
        self.record.overtook.push(sequence);
        self.has_moved = true;
        self.mailbox.set_cursor(&self.record);
    }

    /// Returns whether the session has delivered this message, in its turn or ahead of it.
    pub(super) fn has_delivered(&self, sequence: u64) -> bool {
        self.record.has_delivered(sequence)
    }

    /// Starts to record the cursor, and to reserve further, if it is time.
    pub(super) fn record_if_due(&mut self) {
        let is_due = Instant::now() >= self.record_at || self.is_near_reserved();
        if self.has_moved && self.recording.is_none() && is_due {
            self.recording = Some(self.start_recording());
            self.record_at = Instant::now() + RECORD_INTERVAL;
        }
    }

    /// Waits until the running recording has ended, or the next one is due.
    pub(super) async fn progress(&mut self) {
        if let Some(recording) = &mut self.recording {
            let recorded = recording.await;
            self.recording = None;
            self.recorded(recorded);
        } else if self.has_moved {
            tokio::time::sleep_until(self.record_at).await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Returns whether so few reserved sequences are left that more should be reserved, before a delivery has to wait.
    fn is_near_reserved(&self) -> bool {
        self.record.reserved < self.record.delivered + RESERVED_AHEAD / 2
    }

    fn start_recording(&mut self) -> Recording {
        self.has_moved = false;
        let reserved = self.record.reserved.max(self.record.delivered + RESERVED_AHEAD);
        let cursor = CursorRecord { reserved, unacked: self.mailbox.unacked_places(), ..self.record.clone() };
        let (coordinator, mailbox) = (Arc::clone(&self.coordinator), Arc::clone(&self.mailbox));
        tokio::spawn(async move {
            coordinator.advance(&mailbox.namespace, &mailbox.member, &mailbox.session_id, &cursor).await?;
            Ok(reserved)
        })
    }

    /// Takes over the result of a recording. Only what is in the store counts as reserved.
    fn recorded(&mut self, recorded: Result<Result<u64, Refusal>, JoinError>) {
        match recorded.unwrap_or_else(|error| Err(interrupted(&error))) {
            Ok(reserved) => self.record.reserved = self.record.reserved.max(reserved),
            Err(refusal) => {
                self.has_moved = true;
                // The store may have lost the session.
                if matches!(refusal.reason, Reason::SessionSuperseded | Reason::StoreUnavailable) {
                    self.mailbox.note(Work::Verify);
                }
            }
        }
    }

    /// Makes sure that a sequence is reserved before it is delivered.
    pub(super) async fn reserve(&mut self, sequence: u64) -> Result<(), Refusal> {
        if sequence <= self.record.reserved {
            return Ok(());
        }
        let reserved = sequence + RESERVED_AHEAD;
        if let Some(recording) = self.recording.take() {
            let recorded = recording.await;
            self.recorded(recorded);
        }
        let cursor = CursorRecord { reserved, unacked: self.mailbox.unacked_places(), ..self.record.clone() };
        let Mailbox { namespace, member, session_id, .. } = &*self.mailbox;
        Box::pin(self.coordinator.advance(namespace, member, session_id, &cursor)).await?;
        self.record.reserved = reserved;
        Ok(())
    }

    /// Records the session's exact progress, and closes it.
    pub(super) async fn close(mut self) -> Result<(), Refusal> {
        self.record.unacked = self.mailbox.unacked_places();
        let Mailbox { namespace, member, session_id, .. } = &*self.mailbox;
        self.coordinator.close_session(namespace, member, session_id, &self.record).await
    }
}

fn interrupted(error: &JoinError) -> Refusal {
    Refusal::new(Reason::Internal, format!("A session could not record how far it has gotten: {error}."))
}
