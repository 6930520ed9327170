//! `AuditService`.

use teamwire_proto::v1::{self, audit_service_server::AuditService};
use tonic::{Request, Response, Status};

use super::services::Services;

#[tonic::async_trait]
impl AuditService for Services {
    async fn list_audit_chains(
        &self,
        request: Request<v1::ListAuditChainsRequest>,
    ) -> Result<Response<v1::ListAuditChainsResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(self.coordinator.list_audit_chains(&who, &request).await?))
    }

    async fn list_audit_entries(
        &self,
        request: Request<v1::ListAuditEntriesRequest>,
    ) -> Result<Response<v1::ListAuditEntriesResponse>, Status> {
        let (who, request) = self.open(request).await?;
        if request.page_token.is_empty() {
            self.audit.settle().await;
        }
        Ok(Response::new(self.coordinator.list_audit_entries(&who, &request).await?))
    }
}
