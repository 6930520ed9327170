//! Calls as any gRPC client makes them: no retries, nothing that the Rust client does by itself.

use teamwire_proto::v1::{
    self, message_service_client::MessageServiceClient, send_request::Body, task_service_client::TaskServiceClient,
    team_service_client::TeamServiceClient,
};
use tokio::time::timeout;
use tonic::{Code, Request, Status, Streaming, transport::Channel};
use tonic_types::StatusExt as _;

use crate::world::PATIENCE;

/// Calls as the protocol has it, without anything that a client library adds.
pub(crate) struct Raw {
    pub channel: Channel,
    pub credential: Option<String>,
}

impl Raw {
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(credential) = &self.credential {
            request.metadata_mut().insert("authorization", format!("Bearer {credential}").parse().unwrap());
        }
        request
    }

    /// Calls one coordinator over one connection, which is made with the first call.
    pub(crate) fn at(address: &str, credential: &str) -> Self {
        let channel = Channel::from_shared(address.to_owned()).unwrap().connect_lazy();
        Self { channel, credential: Some(credential.to_owned()) }
    }

    pub(crate) async fn send(&self, body: Option<Body>) -> Result<(), Status> {
        self.send_all(v1::SendRequest { body, ..v1::SendRequest::default() }).await
    }

    pub(crate) async fn send_all(&self, request: v1::SendRequest) -> Result<(), Status> {
        self.messages().send(self.request(request)).await.map(drop)
    }

    pub(crate) fn messages(&self) -> MessageServiceClient<Channel> {
        MessageServiceClient::new(self.channel.clone())
    }

    pub(crate) fn tasks(&self) -> TaskServiceClient<Channel> {
        TaskServiceClient::new(self.channel.clone())
    }

    pub(crate) fn teams(&self) -> TeamServiceClient<Channel> {
        TeamServiceClient::new(self.channel.clone())
    }
}

/// Asserts that a call was refused by the table.
#[track_caller]
pub(crate) fn refused(outcome: Result<(), Status>, code: Code, reason: &str, field: &str) -> Status {
    let status = outcome.expect_err(reason);
    let details = status.get_error_details();
    let info = details.error_info().expect("an ErrorInfo");
    let violation = details.bad_request().and_then(|bad| bad.field_violations.first());
    let named = violation.map_or("", |violation| violation.field.as_str());
    let found = (status.code(), info.reason.as_str(), info.domain.as_str(), named);
    assert_eq!(found, (code, reason, "teamwire", field), "{status}");
    assert!(status.message().len() > 20, "no help: {status}");
    assert!(violation.is_none_or(|violation| !violation.description.is_empty()), "{status}");
    status
}

/// Reads a stream to its end. Returns why it has ended.
pub(crate) async fn end_of<T>(mut frames: Streaming<T>) -> Status {
    let end = async {
        loop {
            match frames.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended without saying why"),
                Err(status) => return status,
            }
        }
    };
    timeout(PATIENCE, end).await.expect("the stream ends")
}
