//! What the language of [`team`](crate::team) has to say of the task board.

use teamwire_proto::{Refusal, v1};

use crate::{
    calls::RuleCalls as _,
    team::{Calls, Member, Team, answer_plan, named, plan, presented},
};

/// A claim, by the number of its task and its token.
pub(crate) type Claimed = (u64, String);

impl Team {
    pub(crate) async fn try_add(
        &self,
        from: &impl Calls,
        request: v1::CreateTaskRequest,
    ) -> Result<v1::CreateTaskResponse, Refusal> {
        let request = v1::CreateTaskRequest { team: named(from), ..request };
        self.coordinator.create_task(from.who(), &request).await
    }

    /// The lead adds a task.
    pub(crate) async fn add(&self, request: v1::CreateTaskRequest) -> u64 {
        self.try_add(&self.lead, request).await.unwrap().task.unwrap().id
    }

    /// Has the lead add unassigned tasks.
    pub(crate) async fn add_some(&self, count: usize) {
        for number in 0..count {
            self.add(task(&format!("number {number}"))).await;
        }
    }

    /// A task as the operator sees it.
    pub(crate) async fn task(&self, id: u64) -> v1::Task {
        self.coordinator.get_task(&self.operator, "alpha", id).await.unwrap().task.unwrap()
    }

    pub(crate) async fn try_claim(&self, member: &impl Calls, id: u64) -> Result<v1::Claim, Refusal> {
        let request = v1::ClaimTaskRequest { task_id: id, ..Default::default() };
        self.coordinator.claim_task(member.who(), &request).await
    }

    /// Claims a task and returns the token.
    pub(crate) async fn claim(&self, member: &Member, id: u64) -> String {
        self.try_claim(member, id).await.unwrap().token
    }

    pub(crate) async fn try_next(&self, member: &impl Calls) -> Result<Option<Claimed>, Refusal> {
        let claim = self.coordinator.claim_next_task(member.who(), &v1::ClaimNextTaskRequest::default()).await?;
        Ok(claim.map(|claim| (claim.task.unwrap().id, claim.token)))
    }

    /// Claims what there is to do and returns the task's number.
    pub(crate) async fn next(&self, member: &Member) -> Option<u64> {
        self.try_next(member).await.unwrap().map(|(id, _)| id)
    }

    pub(crate) async fn try_complete(
        &self,
        from: &impl Calls,
        id: u64,
        token: &str,
    ) -> Result<v1::CompleteTaskResponse, Refusal> {
        let request = v1::CompleteTaskRequest {
            team: named(from),
            task_id: id,
            claim_token: token.to_owned(),
            result: "done".to_owned(),
            work: None,
        };
        self.coordinator.complete_task(from.who(), &request).await
    }

    /// The operator completes a task. Returns what waits no more.
    pub(crate) async fn complete(&self, id: u64) -> Vec<u64> {
        self.try_complete(&self.operator, id, "").await.unwrap().unblocked
    }

    pub(crate) async fn try_release(&self, from: &impl Calls, id: u64, token: &str) -> Result<v1::Task, Refusal> {
        let request = v1::ReleaseTaskRequest {
            team: named(from),
            task_id: id,
            claim_token: token.to_owned(),
            reason: "too hard".to_owned(),
        };
        self.coordinator.release_task(from.who(), &request).await
    }

    pub(crate) async fn try_update(
        &self,
        from: &impl Calls,
        request: v1::UpdateTaskRequest,
    ) -> Result<v1::Task, Refusal> {
        let request = v1::UpdateTaskRequest { team: named(from), ..request };
        self.coordinator.update_task(from.who(), &request).await
    }

    /// The lead changes a task.
    pub(crate) async fn update(&self, request: v1::UpdateTaskRequest) -> v1::Task {
        self.try_update(&self.lead, request).await.unwrap()
    }

    pub(crate) async fn try_remove(&self, from: &impl Calls, id: u64) -> Result<Vec<u64>, Refusal> {
        self.coordinator.delete_task(from.who(), &named(from), id).await
    }

    pub(crate) async fn try_list(
        &self,
        from: &impl Calls,
        request: v1::ListTasksRequest,
    ) -> Result<v1::ListTasksResponse, Refusal> {
        let request = v1::ListTasksRequest { team: named(from), ..request };
        self.coordinator.list_tasks(from.who(), &request).await
    }

    /// The numbers of the tasks that a list has.
    pub(crate) async fn listed(&self, request: v1::ListTasksRequest) -> Vec<u64> {
        ids(&self.try_list(&self.operator, request).await.unwrap())
    }

    /// A new member that must have a plan approved before it works.
    pub(crate) async fn join_with_plan_required(&self, name: &str) -> Member {
        let invite =
            v1::InviteRequest { member: name.to_owned(), plan_mode_required: true, ..v1::InviteRequest::default() };
        let token = self.coordinator.invite(&self.lead.who, &invite).await.unwrap().join_token;
        let reply = self.coordinator.join(&presented(&token), &v1::JoinRequest::default()).await.unwrap();
        Member::new(name, &reply.credential)
    }

    /// The member submits a plan and the lead answers it.
    pub(crate) async fn plan_and_answer(&self, member: &Member, approve: bool) {
        let id = self.ask(member, plan("first this, then that")).await;
        self.send(&self.lead, answer_plan(&member.name, &id, Some(approve), "because")).await;
    }
}

pub(crate) fn ids(list: &v1::ListTasksResponse) -> Vec<u64> {
    list.tasks.iter().map(|task| task.id).collect()
}

pub(crate) fn task(subject: &str) -> v1::CreateTaskRequest {
    v1::CreateTaskRequest { subject: subject.to_owned(), ..Default::default() }
}

/// A task that waits for others.
pub(crate) fn after(blocked_by: &[u64]) -> v1::CreateTaskRequest {
    v1::CreateTaskRequest { blocked_by: blocked_by.to_vec(), ..task("later") }
}

/// A task assigned to a member.
pub(crate) fn task_for(owner: &str) -> v1::CreateTaskRequest {
    v1::CreateTaskRequest { owner: owner.to_owned(), ..task("for one") }
}

/// A change to a task that changes nothing yet.
pub(crate) fn change(id: u64) -> v1::UpdateTaskRequest {
    v1::UpdateTaskRequest { task_id: id, ..Default::default() }
}

pub(crate) fn assign(id: u64, owner: &str) -> v1::UpdateTaskRequest {
    v1::UpdateTaskRequest { owner: Some(owner.to_owned()), ..change(id) }
}

pub(crate) fn wait_for(id: u64, blocked_by: &[u64]) -> v1::UpdateTaskRequest {
    v1::UpdateTaskRequest { add_blocked_by: blocked_by.to_vec(), ..change(id) }
}
