//! Backing up the store, while the coordinator serves it.

use std::sync::Arc;

use bytes::Bytes;
use teamwire_proto::Refusal;
use tokio::sync::mpsc;

use super::{Coordinator, store_errors::unavailable};
use crate::{
    domain::{access, identity::CallerCredentials},
    store::{Namespace, backup},
};

/// How many pieces of a backup wait for a slow client.
const PIECES_MAX: usize = 4;

impl Coordinator {
    /// See `BackupService.Backup`. The backup ends early if the receiver is dropped.
    pub async fn backup(&self, who: &CallerCredentials) -> Result<mpsc::Receiver<Result<Bytes, Refusal>>, Refusal> {
        self.decide(&Namespace::directory(), &[], |tx| access::may_back_up(tx, who)).await?;
        let (results, receiver) = mpsc::channel(1);
        let (store, turn) = (Arc::clone(&self.store), Arc::clone(&self.backup));
        tokio::spawn(async move {
            // One at a time: each holds a snapshot of the store.
            let _turn = tokio::select! {
                turn = turn.lock_owned() => turn,
                () = results.closed() => return,
            };
            let (pieces, mut written) = mpsc::channel(PIECES_MAX);
            let writing = backup::write(&*store, pieces);
            let passing_on = async {
                while let Some(piece) = written.recv().await {
                    if results.send(Ok(piece)).await.is_err() {
                        written.close();
                        return;
                    }
                }
            };
            let (outcome, ()) = tokio::join!(writing, passing_on);
            match outcome {
                Ok(counts) => tracing::info!(?counts, "the store was backed up"),
                Err(error) => {
                    tracing::warn!(%error, "a backup has failed");
                    // The client may be the reason, and gone.
                    let _ = results.send(Err(unavailable(error))).await;
                }
            }
        });
        Ok(receiver)
    }
}
