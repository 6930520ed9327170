//! `BackupService`.

use std::time::Duration;

use teamwire_proto::v1::{self, backup_service_server::BackupService};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{
    follow::Frames,
    services::{self, Services},
};

/// How long a client may read nothing. A backup holds a snapshot of the store, which must not last forever.
const STALL_MAX: Duration = Duration::from_secs(30);

#[tonic::async_trait]
impl BackupService for Services {
    type BackupStream = Frames<v1::BackupResponse>;

    async fn backup(&self, request: Request<v1::BackupRequest>) -> Result<Response<Self::BackupStream>, Status> {
        let (who, v1::BackupRequest {}) = self.open(request).await?;
        let mut pieces = self.coordinator.backup(&who).await?;
        let (frames, out) = mpsc::channel(1);
        let draining = self.draining.clone();
        tokio::spawn(async move {
            let passed_on = draining.run_until_cancelled(async {
                while let Some(piece) = pieces.recv().await {
                    let frame = piece.map(|lines| v1::BackupResponse { lines: lines.to_vec() });
                    match timeout(STALL_MAX, frames.send(frame.map_err(Status::from))).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return,
                        Err(_) => {
                            tracing::warn!("a backup was abandoned: its client has read nothing for {STALL_MAX:?}");
                            return;
                        }
                    }
                }
            });
            if passed_on.await.is_none() {
                let _ = timeout(STALL_MAX, frames.send(Err(services::draining().into()))).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(out))))
    }
}
