//! Receives a backup of a coordinator's store.

use std::fmt;

use teamwire_proto::{Method, v1};
use tonic::Streaming;

use crate::{
    Client, Error,
    client::{Call, backups},
    retry::Failure,
};

/// A backup as it arrives.
pub struct BackupStream {
    client: Client,
    frames: Streaming<v1::BackupResponse>,
}

impl fmt::Debug for BackupStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupStream").finish_non_exhaustive()
    }
}

impl Client {
    /// Begins a backup of the whole store. Only the operator may.
    pub async fn backup(&self) -> Result<BackupStream, Error> {
        let call = Call::of(Method::Backup);
        let frames = self
            .open(call, v1::BackupRequest {}, |channel, request| async move { backups(channel).backup(request).await })
            .await?;
        Ok(BackupStream { client: self.clone(), frames })
    }
}

impl BackupStream {
    /// Waits for the next lines. `None` if the stream has ended; the backup is complete if its last line has come. A
    /// stream that breaks cannot be resumed.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.frames.message().await {
            Ok(frame) => Ok(frame.map(|frame| frame.lines)),
            Err(status) => {
                let failure = Failure::of(&status);
                Err(self.client.error(Call::of(Method::Backup), failure, false, status))
            }
        }
    }
}
