//! `RequestService`.

use teamwire_proto::v1::{self, request_service_server::RequestService};
use tonic::{Request, Response, Status};

use super::services::Services;
use crate::{
    coordinator::decide::Touches,
    domain::{permission_rules, request::permission, tx::Tx},
};

#[tonic::async_trait]
impl RequestService for Services {
    async fn get_request(
        &self,
        request: Request<v1::GetRequestRequest>,
    ) -> Result<Response<v1::GetRequestResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let found = self.coordinator.get_request(&who, &request.team, &request.request_id).await?;
        Ok(Response::new(v1::GetRequestResponse { request: Some(found) }))
    }

    async fn list_requests(
        &self,
        request: Request<v1::ListRequestsRequest>,
    ) -> Result<Response<v1::ListRequestsResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(self.coordinator.list_requests(&who, &request).await?))
    }

    async fn withdraw(&self, request: Request<v1::WithdrawRequest>) -> Result<Response<v1::WithdrawResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let withdrawn = self
            .coordinator
            .rule(&who, &request.team, Touches::Team, |tx| permission::withdraw(tx, &who, &request))
            .await?;
        Ok(Response::new(v1::WithdrawResponse { request: Some(withdrawn) }))
    }

    async fn add_permission_rule(
        &self,
        request: Request<v1::AddPermissionRuleRequest>,
    ) -> Result<Response<v1::AddPermissionRuleResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let rule = |tx: &mut Tx<'_>| permission_rules::add(tx, &who, &request);
        Ok(Response::new(self.coordinator.rule(&who, &request.team, Touches::Team, rule).await?))
    }

    async fn list_permission_rules(
        &self,
        request: Request<v1::ListPermissionRulesRequest>,
    ) -> Result<Response<v1::ListPermissionRulesResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let rule = |tx: &mut Tx<'_>| permission_rules::list(tx, &who, &request);
        Ok(Response::new(self.coordinator.rule(&who, &request.team, Touches::Team, rule).await?))
    }

    async fn revoke_permission_rule(
        &self,
        request: Request<v1::RevokePermissionRuleRequest>,
    ) -> Result<Response<v1::RevokePermissionRuleResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let rule = |tx: &mut Tx<'_>| permission_rules::revoke(tx, &who, &request);
        Ok(Response::new(self.coordinator.rule(&who, &request.team, Touches::Team, rule).await?))
    }

    async fn use_permission_rule(
        &self,
        request: Request<v1::UsePermissionRuleRequest>,
    ) -> Result<Response<v1::UsePermissionRuleResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let rule = |tx: &mut Tx<'_>| permission_rules::use_rule(tx, &who, &request);
        Ok(Response::new(self.coordinator.rule(&who, "", Touches::Team, rule).await?))
    }

    async fn wait_for_decision(
        &self,
        request: Request<v1::WaitForDecisionRequest>,
    ) -> Result<Response<v1::WaitForDecisionResponse>, Status> {
        let (who, request) = self.open(request).await?;
        // Authenticates the caller, who gives heartbeats from here on.
        self.coordinator.get_request(&who, &request.team, &request.request_id).await?;
        let decision = self.while_signed_in(&who, self.coordinator.wait_for_decision(&who, &request));
        let waited = self.heartbeats.while_waiting(&who, decision);
        // A waiting caller does not keep a coordinator from draining: it can ask the next one.
        let found = match self.draining.run_until_cancelled(waited).await {
            Some(found) => found?,
            None => self.coordinator.get_request(&who, &request.team, &request.request_id).await?,
        };
        Ok(Response::new(v1::WaitForDecisionResponse { request: Some(found) }))
    }
}
