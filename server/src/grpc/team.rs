//! `TeamService`.

use teamwire_proto::{
    credential::Credential,
    v1::{self, team_service_server::TeamService},
};
use tonic::{Request, Response, Status};

use super::{
    admission::Admitted,
    services::{Services, draining},
};
use crate::{
    coordinator::decide::Touches,
    domain::{activity, membership, runner_query, spending, subscriptions},
};

#[tonic::async_trait]
impl TeamService for Services {
    async fn create_team(
        &self,
        request: Request<v1::CreateTeamRequest>,
    ) -> Result<Response<v1::CreateTeamResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(self.coordinator.create_team(&who, &request).await?))
    }

    async fn get_team(&self, request: Request<v1::GetTeamRequest>) -> Result<Response<v1::GetTeamResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let team = self.coordinator.get_team(&who, &request.team).await?;
        Ok(Response::new(v1::GetTeamResponse { team: Some(team) }))
    }

    async fn list_teams(
        &self,
        request: Request<v1::ListTeamsRequest>,
    ) -> Result<Response<v1::ListTeamsResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(self.coordinator.list_teams(&who, &request).await?))
    }

    async fn delete_team(
        &self,
        request: Request<v1::DeleteTeamRequest>,
    ) -> Result<Response<v1::DeleteTeamResponse>, Status> {
        let (who, request) = self.open(request).await?;
        self.coordinator.delete_team(&who, &request.team).await?;
        Ok(Response::new(v1::DeleteTeamResponse {}))
    }

    async fn invite(&self, request: Request<v1::InviteRequest>) -> Result<Response<v1::InviteResponse>, Status> {
        let (Admitted { who, call, .. }, request) = self.admit(request).await?;
        let mut reply = self
            .coordinator
            .rule(&who, &request.team, Touches::Team, |tx| membership::invite(tx, &who, &request))
            .await?;
        reply.join_string =
            self.advertised.join_string(&reply.join_token, call.called_at(self.advertised.socket.as_ref()).as_ref());
        call.has_created_credential(&reply.join_token);
        Ok(Response::new(reply))
    }

    async fn create_observer(
        &self,
        request: Request<v1::CreateObserverRequest>,
    ) -> Result<Response<v1::CreateObserverResponse>, Status> {
        let (Admitted { who, call, .. }, request) = self.admit(request).await?;
        let reply = self
            .coordinator
            .rule(&who, &request.team, Touches::Team, |tx| membership::create_observer(tx, &who, &request))
            .await?;
        call.has_created_credential(&reply.credential);
        Ok(Response::new(reply))
    }

    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<v1::JoinResponse>, Status> {
        let (Admitted { who, account, call }, request) = self.admit(request).await?;
        // The lead has said how often a join token may be used.
        if let (Some(account), Credential::Member { .. }) = (account, &who.credential) {
            account.begin_session()?;
        }
        let reply = self.coordinator.join(&who, &request).await?;
        if let Some(member) = &reply.member {
            call.has_created(member.name.clone());
        }
        Ok(Response::new(reply))
    }

    async fn leave(&self, request: Request<v1::LeaveRequest>) -> Result<Response<v1::LeaveResponse>, Status> {
        let (who, request) = self.open(request).await?;
        self.coordinator.rule(&who, "", Touches::Life, |tx| membership::leave(tx, &who, &request)).await?;
        Ok(Response::new(v1::LeaveResponse {}))
    }

    async fn list_members(
        &self,
        request: Request<v1::ListMembersRequest>,
    ) -> Result<Response<v1::ListMembersResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(self.coordinator.list_members(&who, &request).await?))
    }

    async fn diagnose(&self, request: Request<v1::DiagnoseRequest>) -> Result<Response<v1::DiagnoseResponse>, Status> {
        let (Admitted { who, call, .. }, request) = self.admit(request).await?;
        let (reply, examined) = self.coordinator.diagnose(&who, &request).await?;
        call.has_examined(examined);
        Ok(Response::new(reply))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(
            self.coordinator.rule(&who, "", Touches::Team, |tx| membership::heartbeat(tx, &who, &request)).await?,
        ))
    }

    async fn report_activity(
        &self,
        request: Request<v1::ReportActivityRequest>,
    ) -> Result<Response<v1::ReportActivityResponse>, Status> {
        let (who, request) = self.open(request).await?;
        Ok(Response::new(self.coordinator.report_activity(&who, &request).await?))
    }

    async fn list_activity(
        &self,
        request: Request<v1::ListActivityRequest>,
    ) -> Result<Response<v1::ListActivityResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let at_once = v1::ListActivityRequest { wait: None, ..request.clone() };
        let listed = self.coordinator.list_activity(&who, &at_once).await?;
        if request.wait.is_none() || !listed.lines.is_empty() {
            return Ok(Response::new(listed));
        }
        // The caller is authenticated, and gives heartbeats from here on.
        let listing = self.while_signed_in(&who, self.coordinator.list_activity(&who, &request));
        let waited = self.heartbeats.while_waiting(&who, listing);
        // A waiting caller does not keep a coordinator from draining: it can ask the next one.
        let listed = match self.draining.run_until_cancelled(waited).await {
            Some(waited) => waited?,
            None => listed,
        };
        Ok(Response::new(listed))
    }

    async fn get_last_turn(
        &self,
        request: Request<v1::GetLastTurnRequest>,
    ) -> Result<Response<v1::GetLastTurnResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let team = &request.team;
        Ok(Response::new(
            self.coordinator.rule(&who, team, Touches::Team, |tx| activity::last_turn(tx, &who, &request)).await?,
        ))
    }

    async fn read_transcript(
        &self,
        request: Request<v1::ReadTranscriptRequest>,
    ) -> Result<Response<v1::ReadTranscriptResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let reading = self.while_signed_in(&who, self.coordinator.read_transcript(&who, &request));
        let waited = self.heartbeats.while_waiting(&who, reading);
        match self.draining.run_until_cancelled(waited).await {
            Some(page) => Ok(Response::new(page?)),
            None => Err(draining().into()),
        }
    }

    async fn read_work(&self, request: Request<v1::ReadWorkRequest>) -> Result<Response<v1::ReadWorkResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let reading = self.while_signed_in(&who, self.coordinator.read_work(&who, &request));
        let waited = self.heartbeats.while_waiting(&who, reading);
        match self.draining.run_until_cancelled(waited).await {
            Some(work) => Ok(Response::new(work?)),
            None => Err(draining().into()),
        }
    }

    async fn send_base(&self, request: Request<v1::SendBaseRequest>) -> Result<Response<v1::SendBaseResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let sending = self.while_signed_in(&who, self.coordinator.send_base(&who, &request));
        let waited = self.heartbeats.while_waiting(&who, sending);
        match self.draining.run_until_cancelled(waited).await {
            Some(reply) => Ok(Response::new(reply?)),
            None => Err(draining().into()),
        }
    }

    async fn answer_query(
        &self,
        request: Request<v1::AnswerQueryRequest>,
    ) -> Result<Response<v1::AnswerQueryResponse>, Status> {
        let (who, request) = self.open(request).await?;
        self.coordinator.rule(&who, "", Touches::Team, |tx| runner_query::answer(tx, &who, &request)).await?;
        Ok(Response::new(v1::AnswerQueryResponse {}))
    }

    async fn set_budget(
        &self,
        request: Request<v1::SetBudgetRequest>,
    ) -> Result<Response<v1::SetBudgetResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let team = &request.team;
        let set = self.coordinator.rule(&who, team, Touches::Team, |tx| spending::set(tx, &who, &request)).await?;
        Ok(Response::new(v1::SetBudgetResponse { r#use: Some(set) }))
    }

    async fn set_tags(&self, request: Request<v1::SetTagsRequest>) -> Result<Response<v1::SetTagsResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let team = &request.team;
        let member =
            self.coordinator.rule(&who, team, Touches::Team, |tx| membership::set_tags(tx, &who, &request)).await?;
        Ok(Response::new(v1::SetTagsResponse { member: Some(member) }))
    }

    async fn subscribe_to_event(
        &self,
        request: Request<v1::SubscribeToEventRequest>,
    ) -> Result<Response<v1::SubscribeToEventResponse>, Status> {
        let (Admitted { who, account, .. }, request) = self.admit(request).await?;
        // It may cause a message at once.
        if let Some(account) = account {
            account.send(false)?;
        }
        let team = &request.team;
        Ok(Response::new(
            self.coordinator.rule(&who, team, Touches::Team, |tx| subscriptions::subscribe(tx, &who, &request)).await?,
        ))
    }

    async fn list_event_subscriptions(
        &self,
        request: Request<v1::ListEventSubscriptionsRequest>,
    ) -> Result<Response<v1::ListEventSubscriptionsResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let team = &request.team;
        Ok(Response::new(
            self.coordinator.rule(&who, team, Touches::Team, |tx| subscriptions::list(tx, &who, &request)).await?,
        ))
    }

    async fn cancel_event_subscription(
        &self,
        request: Request<v1::CancelEventSubscriptionRequest>,
    ) -> Result<Response<v1::CancelEventSubscriptionResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let team = &request.team;
        self.coordinator.rule(&who, team, Touches::Team, |tx| subscriptions::cancel(tx, &who, &request)).await?;
        Ok(Response::new(v1::CancelEventSubscriptionResponse {}))
    }

    async fn force_stop(
        &self,
        request: Request<v1::ForceStopRequest>,
    ) -> Result<Response<v1::ForceStopResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let member = self.coordinator.force_stop(&who, &request).await?;
        Ok(Response::new(v1::ForceStopResponse { member: Some(member) }))
    }

    async fn set_lead(&self, request: Request<v1::SetLeadRequest>) -> Result<Response<v1::SetLeadResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let team = self.coordinator.set_lead(&who, &request).await?;
        Ok(Response::new(v1::SetLeadResponse { team: Some(team) }))
    }

    async fn set_notice_level(
        &self,
        request: Request<v1::SetNoticeLevelRequest>,
    ) -> Result<Response<v1::SetNoticeLevelResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let member = self
            .coordinator
            .rule(&who, &request.team, Touches::Team, |tx| membership::set_notice_level(tx, &who, &request))
            .await?;
        Ok(Response::new(v1::SetNoticeLevelResponse { member: Some(member) }))
    }
}
