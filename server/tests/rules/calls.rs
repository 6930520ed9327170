//! The calls that are one rule each, as the services make them.

use async_trait::async_trait;
use teamwire_proto::{Refusal, v1};
use teamwire_server::{
    coordinator::{Coordinator, decide::Touches},
    domain::{
        activity, host,
        identity::CallerCredentials,
        membership, permission_rules,
        request::permission,
        runner_query, spending, subscriptions,
        task::{claim, edit},
    },
};

/// The calls that are one rule each.
#[async_trait]
pub(crate) trait RuleCalls {
    async fn invite(&self, who: &CallerCredentials, ask: &v1::InviteRequest) -> Result<v1::InviteResponse, Refusal>;
    async fn create_observer(
        &self,
        who: &CallerCredentials,
        ask: &v1::CreateObserverRequest,
    ) -> Result<v1::CreateObserverResponse, Refusal>;
    async fn leave(&self, who: &CallerCredentials, ask: &v1::LeaveRequest) -> Result<(), Refusal>;
    async fn heartbeat(
        &self,
        who: &CallerCredentials,
        ask: &v1::HeartbeatRequest,
    ) -> Result<v1::HeartbeatResponse, Refusal>;
    async fn last_turn(
        &self,
        who: &CallerCredentials,
        ask: &v1::GetLastTurnRequest,
    ) -> Result<v1::GetLastTurnResponse, Refusal>;
    async fn answer_query(&self, who: &CallerCredentials, ask: &v1::AnswerQueryRequest) -> Result<(), Refusal>;
    async fn set_budget(&self, who: &CallerCredentials, ask: &v1::SetBudgetRequest) -> Result<v1::BudgetUse, Refusal>;
    async fn set_notice_level(
        &self,
        who: &CallerCredentials,
        ask: &v1::SetNoticeLevelRequest,
    ) -> Result<v1::Member, Refusal>;
    async fn set_tags(&self, who: &CallerCredentials, ask: &v1::SetTagsRequest) -> Result<v1::Member, Refusal>;
    async fn subscribe_to_event(
        &self,
        who: &CallerCredentials,
        ask: &v1::SubscribeToEventRequest,
    ) -> Result<v1::SubscribeToEventResponse, Refusal>;
    async fn list_event_subscriptions(
        &self,
        who: &CallerCredentials,
        ask: &v1::ListEventSubscriptionsRequest,
    ) -> Result<v1::ListEventSubscriptionsResponse, Refusal>;
    async fn cancel_event_subscription(
        &self,
        who: &CallerCredentials,
        ask: &v1::CancelEventSubscriptionRequest,
    ) -> Result<(), Refusal>;
    async fn withdraw(&self, who: &CallerCredentials, ask: &v1::WithdrawRequest) -> Result<v1::Request, Refusal>;
    async fn add_permission_rule(
        &self,
        who: &CallerCredentials,
        ask: &v1::AddPermissionRuleRequest,
    ) -> Result<v1::AddPermissionRuleResponse, Refusal>;
    async fn list_permission_rules(
        &self,
        who: &CallerCredentials,
        ask: &v1::ListPermissionRulesRequest,
    ) -> Result<v1::ListPermissionRulesResponse, Refusal>;
    async fn revoke_permission_rule(
        &self,
        who: &CallerCredentials,
        ask: &v1::RevokePermissionRuleRequest,
    ) -> Result<v1::RevokePermissionRuleResponse, Refusal>;
    async fn use_permission_rule(
        &self,
        who: &CallerCredentials,
        ask: &v1::UsePermissionRuleRequest,
    ) -> Result<v1::UsePermissionRuleResponse, Refusal>;
    async fn update_host(&self, who: &CallerCredentials, ask: &v1::UpdateHostRequest) -> Result<v1::Host, Refusal>;
    async fn take_order(
        &self,
        who: &CallerCredentials,
        ask: &v1::TakeOrderRequest,
    ) -> Result<v1::TakeOrderResponse, Refusal>;
    async fn report_exit(
        &self,
        who: &CallerCredentials,
        ask: &v1::ReportExitRequest,
    ) -> Result<v1::ReportExitResponse, Refusal>;
    async fn create_task(
        &self,
        who: &CallerCredentials,
        ask: &v1::CreateTaskRequest,
    ) -> Result<v1::CreateTaskResponse, Refusal>;
    async fn get_task(&self, who: &CallerCredentials, named: &str, id: u64) -> Result<v1::GetTaskResponse, Refusal>;
    async fn update_task(&self, who: &CallerCredentials, ask: &v1::UpdateTaskRequest) -> Result<v1::Task, Refusal>;
    async fn delete_task(&self, who: &CallerCredentials, named: &str, id: u64) -> Result<Vec<u64>, Refusal>;
    async fn claim_task(&self, who: &CallerCredentials, ask: &v1::ClaimTaskRequest) -> Result<v1::Claim, Refusal>;
    async fn complete_task(
        &self,
        who: &CallerCredentials,
        ask: &v1::CompleteTaskRequest,
    ) -> Result<v1::CompleteTaskResponse, Refusal>;
    async fn release_task(&self, who: &CallerCredentials, ask: &v1::ReleaseTaskRequest) -> Result<v1::Task, Refusal>;
}

#[async_trait]
impl RuleCalls for Coordinator {
    async fn invite(&self, who: &CallerCredentials, ask: &v1::InviteRequest) -> Result<v1::InviteResponse, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| membership::invite(tx, who, ask)).await
    }

    async fn create_observer(
        &self,
        who: &CallerCredentials,
        ask: &v1::CreateObserverRequest,
    ) -> Result<v1::CreateObserverResponse, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| membership::create_observer(tx, who, ask)).await
    }

    async fn leave(&self, who: &CallerCredentials, ask: &v1::LeaveRequest) -> Result<(), Refusal> {
        self.rule(who, "", Touches::Life, |tx| membership::leave(tx, who, ask)).await
    }

    async fn heartbeat(
        &self,
        who: &CallerCredentials,
        ask: &v1::HeartbeatRequest,
    ) -> Result<v1::HeartbeatResponse, Refusal> {
        self.rule(who, "", Touches::Team, |tx| membership::heartbeat(tx, who, ask)).await
    }

    async fn last_turn(
        &self,
        who: &CallerCredentials,
        ask: &v1::GetLastTurnRequest,
    ) -> Result<v1::GetLastTurnResponse, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| activity::last_turn(tx, who, ask)).await
    }

    async fn set_budget(&self, who: &CallerCredentials, ask: &v1::SetBudgetRequest) -> Result<v1::BudgetUse, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| spending::set(tx, who, ask)).await
    }

    async fn answer_query(&self, who: &CallerCredentials, ask: &v1::AnswerQueryRequest) -> Result<(), Refusal> {
        self.rule(who, "", Touches::Team, |tx| runner_query::answer(tx, who, ask)).await
    }

    async fn set_notice_level(
        &self,
        who: &CallerCredentials,
        ask: &v1::SetNoticeLevelRequest,
    ) -> Result<v1::Member, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| membership::set_notice_level(tx, who, ask)).await
    }

    async fn set_tags(&self, who: &CallerCredentials, ask: &v1::SetTagsRequest) -> Result<v1::Member, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| membership::set_tags(tx, who, ask)).await
    }

    async fn subscribe_to_event(
        &self,
        who: &CallerCredentials,
        ask: &v1::SubscribeToEventRequest,
    ) -> Result<v1::SubscribeToEventResponse, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| subscriptions::subscribe(tx, who, ask)).await
    }

    async fn list_event_subscriptions(
        &self,
        who: &CallerCredentials,
        ask: &v1::ListEventSubscriptionsRequest,
    ) -> Result<v1::ListEventSubscriptionsResponse, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| subscriptions::list(tx, who, ask)).await
    }

    async fn cancel_event_subscription(
        &self,
        who: &CallerCredentials,
        ask: &v1::CancelEventSubscriptionRequest,
    ) -> Result<(), Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| subscriptions::cancel(tx, who, ask)).await
    }

    async fn withdraw(&self, who: &CallerCredentials, ask: &v1::WithdrawRequest) -> Result<v1::Request, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| permission::withdraw(tx, who, ask)).await
    }

    async fn add_permission_rule(
        &self,
        who: &CallerCredentials,
        ask: &v1::AddPermissionRuleRequest,
    ) -> Result<v1::AddPermissionRuleResponse, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| permission_rules::add(tx, who, ask)).await
    }

    async fn list_permission_rules(
        &self,
        who: &CallerCredentials,
        ask: &v1::ListPermissionRulesRequest,
    ) -> Result<v1::ListPermissionRulesResponse, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| permission_rules::list(tx, who, ask)).await
    }

    async fn revoke_permission_rule(
        &self,
        who: &CallerCredentials,
        ask: &v1::RevokePermissionRuleRequest,
    ) -> Result<v1::RevokePermissionRuleResponse, Refusal> {
        self.rule(who, &ask.team, Touches::Team, |tx| permission_rules::revoke(tx, who, ask)).await
    }

    async fn use_permission_rule(
        &self,
        who: &CallerCredentials,
        ask: &v1::UsePermissionRuleRequest,
    ) -> Result<v1::UsePermissionRuleResponse, Refusal> {
        self.rule(who, "", Touches::Team, |tx| permission_rules::use_rule(tx, who, ask)).await
    }

    async fn update_host(&self, who: &CallerCredentials, ask: &v1::UpdateHostRequest) -> Result<v1::Host, Refusal> {
        self.rule(who, "", Touches::Team, |tx| host::update(tx, who, ask)).await
    }

    async fn take_order(
        &self,
        who: &CallerCredentials,
        ask: &v1::TakeOrderRequest,
    ) -> Result<v1::TakeOrderResponse, Refusal> {
        self.rule(who, "", Touches::Team, |tx| host::take(tx, who, ask)).await
    }

    async fn report_exit(
        &self,
        who: &CallerCredentials,
        ask: &v1::ReportExitRequest,
    ) -> Result<v1::ReportExitResponse, Refusal> {
        self.rule(who, "", Touches::Life, |tx| host::report_exit(tx, who, ask)).await
    }

    async fn create_task(
        &self,
        who: &CallerCredentials,
        ask: &v1::CreateTaskRequest,
    ) -> Result<v1::CreateTaskResponse, Refusal> {
        self.rule(who, &ask.team, Touches::Board(None), |tx| edit::create(tx, who, ask)).await
    }

    async fn get_task(&self, who: &CallerCredentials, named: &str, id: u64) -> Result<v1::GetTaskResponse, Refusal> {
        self.rule(who, named, Touches::Task(id), |tx| edit::get(tx, who, named, id)).await
    }

    async fn update_task(&self, who: &CallerCredentials, ask: &v1::UpdateTaskRequest) -> Result<v1::Task, Refusal> {
        self.rule(who, &ask.team, Touches::Board(Some(ask.task_id)), |tx| edit::update(tx, who, ask)).await
    }

    async fn delete_task(&self, who: &CallerCredentials, named: &str, id: u64) -> Result<Vec<u64>, Refusal> {
        self.rule(who, named, Touches::Board(Some(id)), |tx| edit::delete(tx, who, named, id)).await
    }

    async fn claim_task(&self, who: &CallerCredentials, ask: &v1::ClaimTaskRequest) -> Result<v1::Claim, Refusal> {
        self.rule(who, "", Touches::Board(Some(ask.task_id)), |tx| claim::claim(tx, who, ask)).await
    }

    async fn complete_task(
        &self,
        who: &CallerCredentials,
        ask: &v1::CompleteTaskRequest,
    ) -> Result<v1::CompleteTaskResponse, Refusal> {
        self.rule(who, &ask.team, Touches::Board(Some(ask.task_id)), |tx| claim::complete(tx, who, ask)).await
    }

    async fn release_task(&self, who: &CallerCredentials, ask: &v1::ReleaseTaskRequest) -> Result<v1::Task, Refusal> {
        self.rule(who, &ask.team, Touches::Board(Some(ask.task_id)), |tx| claim::release(tx, who, ask)).await
    }
}
