//! `TaskUpdate`: edits a task, and changes its state.

use std::{collections::BTreeMap, env};

use rmcp::{handler::server::wrapper::Parameters, schemars::JsonSchema, tool, tool_router};
use serde::Deserialize;
use teamwire_client::{
    Error,
    v1::{self, TaskStatus},
};

use crate::{agent_text::escaped, work::to_review};

use super::{
    McpServer,
    tasks::TaskId,
    text::{failure, ids, task_line},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(rename_all = "camelCase")]
struct TaskUpdate {
    #[serde(alias = "task_id")]
    task_id: TaskId,
    /// in_progress takes the task, completed ends it, pending gives it back, deleted removes it.
    #[serde(default)]
    status: Option<Status>,
    /// With completed: the result. With pending: why you give it back.
    #[serde(default, alias = "reason")]
    result: String,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default, alias = "active_form")]
    active_form: Option<String>,
    /// The teammate to assign it to; an empty text for anyone.
    #[serde(default)]
    owner: Option<String>,
    /// Tasks that must be completed before this one.
    #[serde(default, alias = "add_blocked_by")]
    add_blocked_by: Vec<TaskId>,
    /// Tasks that wait for this one.
    #[serde(default, alias = "add_blocks")]
    add_blocks: Vec<TaskId>,
    /// Files that it will also change: see TaskCreate.
    #[serde(default, alias = "add_paths")]
    add_paths: Vec<String>,
    /// Who reviews the result: see TaskCreate. Empty: no one.
    #[serde(default)]
    reviewer: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
    Deleted,
}

#[tool_router(router = task_update_tools, vis = "pub(super)")]
impl McpServer {
    /// Change a task: take it (in_progress), complete it, give it back (pending), delete it, or edit its fields.
    #[tool(
        name = "TaskUpdate",
        annotations(
            title = "Update a task",
            read_only_hint = false,
            destructive_hint = false,
            open_world_hint = false
        )
    )]
    async fn task_update(&self, Parameters(update): Parameters<TaskUpdate>) -> Result<String, String> {
        let mut says = Vec::new();
        let done = self.update(update, &mut says).await;
        match done {
            Ok(()) if says.is_empty() => Err("Nothing to change: give a status or a field.".to_owned()),
            Ok(()) => Ok(says.join("\n")),
            Err(error) => {
                says.push(failure(error));
                Err(says.join("\n"))
            }
        }
    }
}

impl McpServer {
    /// Carries out an update, and appends a line for each step that succeeded.
    async fn update(&self, update: TaskUpdate, says: &mut Vec<String>) -> Result<(), Error> {
        let TaskId(task_id) = update.task_id;
        let status = update.status;
        let result = update.result.clone();
        for TaskId(blocked) in &update.add_blocks {
            let request = v1::UpdateTaskRequest {
                task_id: *blocked,
                add_blocked_by: vec![task_id],
                ..v1::UpdateTaskRequest::default()
            };
            self.client.update_task(request).await?;
            says.push(format!("#{blocked} waits for #{task_id}."));
        }
        if let Some(edit) = edit(update) {
            let task = self.client.update_task(edit).await?.task.unwrap_or_default();
            says.push(format!("Changed {}", task_line(&task)));
        }
        match status {
            None => {}
            Some(Status::InProgress) => self.take(task_id, says).await?,
            Some(Status::Completed) => {
                let get = v1::GetTaskRequest { task_id, ..v1::GetTaskRequest::default() };
                let known = self.client.get_task(get).await?;
                let work = match self.over_http {
                    Some(_) => None,
                    None => to_review(known.task.as_ref(), &env::current_dir().unwrap_or_default()).await,
                };
                let claim_token = known.claim_token;
                let request = v1::CompleteTaskRequest {
                    task_id,
                    claim_token,
                    result,
                    work,
                    ..v1::CompleteTaskRequest::default()
                };
                let reply = self.client.complete_task(request).await?;
                let task = reply.task.unwrap_or_default();
                says.push(match task.status() {
                    TaskStatus::InReview => format!(
                        "{} It is completed once {} approves it; the answer comes as a message. A newer commit on this branch \
                         voids the review.",
                        task_line(&task),
                        task.reviewer
                    ),
                    _ => format!("Completed {}", task_line(&task)),
                });
                if !reply.unblocked.is_empty() {
                    says.push(format!("Ready now: {}", ids(&reply.unblocked)));
                }
            }
            Some(Status::Pending) => {
                let claim_token = self.claim_token(task_id).await?;
                let request = v1::ReleaseTaskRequest {
                    task_id,
                    claim_token,
                    reason: result,
                    ..v1::ReleaseTaskRequest::default()
                };
                let task = self.client.release_task(request).await?.task.unwrap_or_default();
                says.push(format!("Gave back {}", task_line(&task)));
            }
            Some(Status::Deleted) => {
                self.client.delete_task(v1::DeleteTaskRequest { task_id, ..v1::DeleteTaskRequest::default() }).await?;
                says.push(format!("Deleted #{task_id}."));
            }
        }
        Ok(())
    }

    /// Claims a task, unless the member has it already.
    async fn take(&self, task_id: u64, says: &mut Vec<String>) -> Result<(), Error> {
        if !self.claim_token(task_id).await?.is_empty() {
            says.push(format!("You have #{task_id} already."));
            return Ok(());
        }
        let claim = self.client.claim_task(task_id).await?.claim.unwrap_or_default();
        says.push(format!("You have taken {}", task_line(&claim.task.unwrap_or_default())));
        says.extend(claim.warnings.iter().map(|warning| format!("Warning: {}", escaped(warning))));
        Ok(())
    }

    /// Returns the token of the member's claim. Empty if it has none.
    async fn claim_token(&self, task_id: u64) -> Result<String, Error> {
        let request = v1::GetTaskRequest { task_id, ..v1::GetTaskRequest::default() };
        Ok(self.client.get_task(request).await?.claim_token)
    }
}

/// Returns the edit of the task's fields. `None` if no field changes.
fn edit(update: TaskUpdate) -> Option<v1::UpdateTaskRequest> {
    let edit = v1::UpdateTaskRequest {
        subject: update.subject,
        description: update.description,
        active_form: update.active_form,
        owner: update.owner,
        add_blocked_by: update.add_blocked_by.iter().map(|id| id.0).collect(),
        add_paths: update.add_paths,
        reviewer: update.reviewer,
        set_metadata: update.metadata.into_iter().collect(),
        ..v1::UpdateTaskRequest::default()
    };
    (edit != v1::UpdateTaskRequest::default()).then_some(v1::UpdateTaskRequest { task_id: update.task_id.0, ..edit })
}
