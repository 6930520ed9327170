//! `AccessService`.

use std::time::Duration;

use teamwire_proto::{
    Refusal,
    v1::{self, access_service_server::AccessService},
};
use tokio::time::sleep;
use tonic::{Request, Response, Status};

use super::{admission::Admitted, services::Services};
use crate::domain::identity::CallerCredentials;

/// How often the credential of a caller that has a stream open, or waits, is checked: it may be revoked.
const CHECK: Duration = Duration::from_secs(1);

#[tonic::async_trait]
impl AccessService for Services {
    async fn create_sign_in_code(
        &self,
        request: Request<v1::CreateSignInCodeRequest>,
    ) -> Result<Response<v1::CreateSignInCodeResponse>, Status> {
        let (Admitted { who, call, .. }, request) = self.admit(request).await?;
        let reply = self.coordinator.create_sign_in_code(&who, &request).await?;
        call.has_created_credential(&reply.code);
        let reply = v1::CreateSignInCodeResponse {
            console_address: self.console_address.clone(),
            mcp_address: self.mcp_address.clone(),
            ..reply
        };
        Ok(Response::new(reply))
    }

    async fn sign_in(&self, request: Request<v1::SignInRequest>) -> Result<Response<v1::SignInResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let reply = self.coordinator.sign_in(&who, &request).await?;
        Ok(Response::new(v1::SignInResponse { caller: reply.caller.map(with_version), ..reply }))
    }

    async fn get_caller(
        &self,
        request: Request<v1::GetCallerRequest>,
    ) -> Result<Response<v1::GetCallerResponse>, Status> {
        let (who, _) = self.open(request).await?;
        let caller = self.coordinator.get_caller(&who).await?;
        Ok(Response::new(v1::GetCallerResponse { caller: Some(with_version(caller)) }))
    }

    async fn list_credentials(
        &self,
        request: Request<v1::ListCredentialsRequest>,
    ) -> Result<Response<v1::ListCredentialsResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(self.coordinator.list_credentials(&who, &request).await?))
    }

    async fn revoke_credential(
        &self,
        request: Request<v1::RevokeCredentialRequest>,
    ) -> Result<Response<v1::RevokeCredentialResponse>, Status> {
        let (who, request) = self.open(request).await?;
        self.coordinator.revoke_credential(&who, &request).await?;
        Ok(Response::new(v1::RevokeCredentialResponse {}))
    }
}

fn with_version(caller: v1::Caller) -> v1::Caller {
    v1::Caller { server_version: env!("CARGO_PKG_VERSION").to_owned(), ..caller }
}

impl Services {
    /// Awaits something for a caller, as long as the caller's credential is neither revoked nor replaced.
    pub(super) async fn while_signed_in<T>(
        &self,
        who: &CallerCredentials,
        waited: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let revoked = async {
            loop {
                sleep(CHECK).await;
                match self.coordinator.refuse_revoked(who).await {
                    Ok(()) => {}
                    // It does not say whether the credential is revoked, and the call may be about to succeed.
                    Err(refusal) if !refusal.reason.is_outcome_known() => {}
                    Err(refusal) => return refusal,
                }
            }
        };
        tokio::select! {
            biased;
            done = waited => done,
            refusal = revoked => Err(refusal),
        }
    }
}
