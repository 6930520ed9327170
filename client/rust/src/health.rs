//! Health checks.

use teamwire_proto::method::Effect;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use crate::{Client, Error, client::Call};

impl Client {
    /// Returns whether a service, such as `teamwire.v1.MessageService`, can be used now; "" stands for all of them.
    ///
    /// Returns false for a service that the coordinator does not have. Needs no credential.
    pub async fn is_serving(&self, service: &str) -> Result<bool, Error> {
        let request = HealthCheckRequest { service: service.to_owned() };
        let call = Call::new("Check", Effect::Read);
        let reply = self
            .call(call, request, |channel, request| async move { HealthClient::new(channel).check(request).await })
            .await;
        match reply {
            Ok(reply) => Ok(reply.status() == ServingStatus::Serving),
            Err(Error::Unexpected { status, .. }) if status.code() == Code::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
