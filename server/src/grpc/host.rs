//! `HostService`.

use teamwire_proto::v1::{self, host_service_server::HostService};
use tonic::{Request, Response, Status};

use super::services::Services;
use crate::{coordinator::decide::Touches, domain::host};

#[tonic::async_trait]
impl HostService for Services {
    async fn spawn(&self, request: Request<v1::SpawnRequest>) -> Result<Response<v1::SpawnResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(self.coordinator.spawn(&who, &request).await?))
    }

    async fn list_hosts(
        &self,
        request: Request<v1::ListHostsRequest>,
    ) -> Result<Response<v1::ListHostsResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(self.coordinator.list_hosts(&who, &request).await?))
    }

    async fn update_host(
        &self,
        request: Request<v1::UpdateHostRequest>,
    ) -> Result<Response<v1::UpdateHostResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let host = self.coordinator.rule(&who, "", Touches::Team, |tx| host::update(tx, &who, &request)).await?;
        Ok(Response::new(v1::UpdateHostResponse { host: Some(host) }))
    }

    async fn take_order(
        &self,
        request: Request<v1::TakeOrderRequest>,
    ) -> Result<Response<v1::TakeOrderResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(self.coordinator.rule(&who, "", Touches::Team, |tx| host::take(tx, &who, &request)).await?))
    }

    async fn refuse_order(
        &self,
        request: Request<v1::RefuseOrderRequest>,
    ) -> Result<Response<v1::RefuseOrderResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let answered = self.coordinator.refuse_order(&who, &request).await?;
        Ok(Response::new(v1::RefuseOrderResponse { request: Some(answered) }))
    }

    async fn report_exit(
        &self,
        request: Request<v1::ReportExitRequest>,
    ) -> Result<Response<v1::ReportExitResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let reply = self.coordinator.rule(&who, "", Touches::Life, |tx| host::report_exit(tx, &who, &request)).await?;
        Ok(Response::new(reply))
    }
}
