//! Why a session ends, or pauses.

use teamwire_proto::{Reason, Refusal, id::RequestId, v1::CloseReason};

/// Why a session ends.
pub(super) enum End {
    /// The coordinator ends it, with a last frame.
    Closing { reason: CloseReason, detail: &'static str, request_id: Option<RequestId> },
    /// The coordinator refuses to continue it.
    Refused(Refusal),
    /// The client is gone.
    Gone,
    /// The client takes no frames.
    Slow,
}

impl End {
    pub(super) fn closing(reason: CloseReason, detail: &'static str) -> Self {
        Self::Closing { reason, detail, request_id: None }
    }

    /// Returns whether the client is to open another session.
    pub(super) fn is_asking_to_reconnect(&self) -> bool {
        matches!(self, Self::Closing { reason: CloseReason::Draining, .. })
    }

    /// Returns whether the frames that wait are of no use: the client reads none, or they will be delivered in a newer
    /// session.
    pub(super) fn leaves_frames(&self) -> bool {
        matches!(self, Self::Slow | Self::Closing { reason: CloseReason::Superseded, .. })
    }

    /// The member has approved its shutdown or, without a request, is leaving voluntarily.
    pub(super) fn shutdown_approved(request_id: Option<RequestId>) -> Self {
        let detail = match request_id {
            None => "The member leaves. End the process.",
            Some(_) => "The shutdown was approved. End the process.",
        };
        Self::Closing { reason: CloseReason::ShutdownApproved, detail, request_id }
    }

    /// A newer session holds the inbox.
    pub(super) fn superseded() -> Self {
        Self::closing(CloseReason::Superseded, "A newer process or session holds this inbox.")
    }

    /// The team is no longer there. `is_lost`: the store has lost it.
    pub(super) fn team_gone(is_lost: bool) -> Self {
        if !is_lost {
            return Self::closing(CloseReason::TeamDeleted, "The team was deleted.");
        }
        let detail = "The store lost this team and everything in it, for example because Redis was emptied. Restore the store from \
                      a backup, or create the team again.";
        Self::closing(CloseReason::DataLost, detail)
    }

    /// The inbox, or the session itself, has gone back to an earlier state.
    pub(super) fn restart() -> Self {
        let detail = "The store has lost commits that it had acknowledged. Reconnect, to continue with what is left.";
        Self::closing(CloseReason::Draining, detail)
    }
}

/// Why delivering stops.
pub(super) enum DeliverError {
    /// The session ends.
    End(End),
    /// The store fails; the session waits for it.
    Store,
}

impl From<End> for DeliverError {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

impl From<Refusal> for DeliverError {
    fn from(refusal: Refusal) -> Self {
        if refusal.reason == Reason::SessionSuperseded {
            return End::superseded().into();
        }
        tracing::debug!(%refusal, "a session waits for the store");
        Self::Store
    }
}
