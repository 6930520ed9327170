//! Streams that follow a team's tasks or history: first what exists, then what changes, until the client leaves or the
//! team is deleted.

use std::{pin::Pin, sync::Arc, time::Duration};

use teamwire_proto::{Reason, Refusal, credential::Credential};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::Status;

use super::services::{self, Services};
use crate::{
    domain::identity::{CallerCredentials, operator_replaced, team_not_found},
    store::Namespace,
};

/// How many frames wait for a client at most, unless what it follows says otherwise.
pub(super) const FRAMES_MAX: usize = 32;

/// How often a follower reads without a notification, in case one was lost.
const POLL: Duration = Duration::from_secs(2);

/// The frames that a client reads.
pub(super) type Frames<F> = Pin<Box<dyn Stream<Item = Result<F, Status>> + Send>>;

/// Something that can be followed.
#[tonic::async_trait]
pub(super) trait Followed: Send + 'static {
    type Frame: Send + 'static;

    /// How many frames wait for a slow client at most.
    const FRAMES_MAX: usize = FRAMES_MAX;

    /// Returns the next frames, and whether more are available at once.
    async fn next(&mut self) -> Result<(Vec<Self::Frame>, bool), Refusal>;
}

impl Services {
    /// Follows something in a namespace, and reads it whenever the watch changes.
    pub(super) fn follow<F: Followed>(
        &self,
        who: Arc<CallerCredentials>,
        namespace: Namespace,
        watch: watch::Receiver<u64>,
        followed: F,
    ) -> Frames<F::Frame> {
        let (frames, out) = mpsc::channel(F::FRAMES_MAX);
        let this = self.clone();
        tokio::spawn(async move {
            let sent = this.while_signed_in(&who, this.send_frames(&who, watch, followed, &frames));
            let refusal = match this.draining.run_until_cancelled(sent).await {
                Some(Ok(())) => return,
                // The credential of a deleted team is invalid; here that is known to be the reason.
                Some(Err(refusal)) if refusal.reason == Reason::CredentialInvalid => match &who.credential {
                    Credential::Operator { .. } => operator_replaced(),
                    _ => team_not_found(namespace.as_str()),
                },
                Some(Err(refusal)) => refusal,
                None => services::draining(),
            };
            let _ = frames.send(Err(refusal.into())).await;
        });
        Box::pin(ReceiverStream::new(out))
    }

    async fn send_frames<F: Followed>(
        &self,
        who: &CallerCredentials,
        mut watch: watch::Receiver<u64>,
        mut followed: F,
        frames: &mpsc::Sender<Result<F::Frame, Status>>,
    ) -> Result<(), Refusal> {
        loop {
            watch.mark_unchanged();
            match followed.next().await {
                Ok((next, has_more)) => {
                    self.heartbeats.record_caller(who);
                    for frame in next {
                        if frames.send(Ok(frame)).await.is_err() {
                            return Ok(());
                        }
                    }
                    if has_more {
                        continue;
                    }
                }
                Err(refusal) if refusal.reason == Reason::StoreUnavailable => {}
                Err(refusal) => return Err(refusal),
            }
            tokio::select! {
                _ = watch.changed() => {}
                () = sleep(POLL) => {}
                () = frames.closed() => return Ok(()),
            }
        }
    }
}
