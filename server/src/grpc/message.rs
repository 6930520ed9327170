//! `MessageService`.

use std::pin::Pin;

use futures::stream::poll_fn;
use teamwire_proto::{
    failpoint,
    v1::{self, message_service_server::MessageService},
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::{admission::Admitted, services::Services};
use crate::{delivery::Session, domain::tags};

type Frames = Pin<Box<dyn Stream<Item = Result<v1::StreamResponse, Status>> + Send>>;

#[tonic::async_trait]
impl MessageService for Services {
    type StreamStream = Frames;

    async fn send(&self, request: Request<v1::SendRequest>) -> Result<Response<v1::SendResponse>, Status> {
        let (Admitted { who, account, .. }, request) = self.admit(request).await?;
        if let Some(account) = account {
            account.send(tags::reaches_many(request.body.as_ref()))?;
        }
        let reply = self.coordinator.send(&who, &request).await?;
        failpoint::reach("before-reply");
        Ok(Response::new(reply))
    }

    async fn stream(&self, request: Request<v1::StreamRequest>) -> Result<Response<Frames>, Status> {
        let (Admitted { who, account, .. }, request) = self.admit(request).await?;
        if let Some(account) = account {
            account.begin_session()?;
        }
        let session = Session::open(&self.coordinator, &who, &request).await?;
        let mut frames = session.start(self.pace, self.heartbeats.clone(), self.draining.clone(), &self.sessions);
        let frames =
            poll_fn(move |context| frames.poll_recv(context).map(|frame| frame.map(|it| it.map_err(Status::from))));
        Ok(Response::new(Box::pin(frames)))
    }

    async fn ack(&self, request: Request<v1::AckRequest>) -> Result<Response<v1::AckResponse>, Status> {
        let (who, request) = self.open(request).await?;
        // An acknowledged frame was written and has arrived.
        failpoint::reach("after-frame");
        let acked = self.coordinator.acknowledge(&who, &request).await?;
        Ok(Response::new(v1::AckResponse { acked }))
    }

    async fn get_message(
        &self,
        request: Request<v1::GetMessageRequest>,
    ) -> Result<Response<v1::GetMessageResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let reply = self.coordinator.get_message(&who, &request).await?;
        Ok(Response::new(reply))
    }

    async fn list_inbox(
        &self,
        request: Request<v1::ListInboxRequest>,
    ) -> Result<Response<v1::ListInboxResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let reply = self.coordinator.list_inbox(&who, &request).await?;
        Ok(Response::new(reply))
    }
}
