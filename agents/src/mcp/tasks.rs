//! The task board: `TaskCreate`, `TaskList`, `TaskGet`, `TaskClaim`.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use rmcp::{handler::server::wrapper::Parameters, schemars::JsonSchema, tool, tool_router};
use serde::Deserialize;
use teamwire_client::v1;

use super::{
    McpServer,
    text::{failure, ids, task_line},
};
use crate::agent_text::escaped;

/// How many tasks a list shows.
const TASKS_MAX: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(rename_all = "camelCase")]
struct TaskCreate {
    /// What is to be done, on one line.
    subject: String,
    /// What its owner needs to know.
    #[serde(default)]
    description: String,
    /// What is shown while the task is in progress, such as "Running the tests".
    #[serde(default, alias = "active_form")]
    active_form: String,
    /// The teammate who is to do it. Default: anyone.
    #[serde(default)]
    owner: String,
    /// The tasks that must be completed first.
    #[serde(default, alias = "blocked_by")]
    blocked_by: Vec<TaskId>,
    /// Files that it will change, as paths or patterns below the root of the repository, such as src/**/*.rs. Taking a task
    /// that overlaps with one in progress brings a warning.
    #[serde(default)]
    paths: Vec<String>,
    /// Refuse that instead, while the task is in progress.
    #[serde(default)]
    exclusive: bool,
    /// Who reviews the result before the task counts as completed: a teammate, or team-lead. Default: no one.
    #[serde(default)]
    reviewer: String,
    /// Merge the approved commit. Needs a reviewer. Only the lead may set it.
    #[serde(default, alias = "merge_on_approval")]
    merge_on_approval: bool,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(rename_all = "camelCase")]
struct TaskGet {
    #[serde(alias = "task_id")]
    task_id: TaskId,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(rename_all = "camelCase")]
struct TaskClaim {
    /// The task to take. Default: the one that you should do next.
    #[serde(default, alias = "task_id")]
    task_id: Option<TaskId>,
}

/// The task's number.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", with = "String", inline)]
#[serde(try_from = "NumberOrText")]
pub(super) struct TaskId(pub(super) u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

impl TryFrom<NumberOrText> for TaskId {
    type Error = String;

    fn try_from(given: NumberOrText) -> Result<Self, String> {
        match given {
            NumberOrText::Number(number) => Ok(Self(number)),
            NumberOrText::Text(text) => text.trim_start_matches('#').parse().map(Self).map_err(|_| {
                format!("\"{}\" is not the number of a task. TaskList shows the numbers.", escaped(&text))
            }),
        }
    }
}

#[tool_router(router = task_tools, vis = "pub(super)")]
impl McpServer {
    /// Add a task to the team's board.
    #[tool(
        name = "TaskCreate",
        annotations(
            title = "Create a task",
            read_only_hint = false,
            destructive_hint = false,
            open_world_hint = false
        )
    )]
    async fn task_create(&self, Parameters(create): Parameters<TaskCreate>) -> Result<String, String> {
        let request = v1::CreateTaskRequest {
            subject: create.subject,
            description: create.description,
            active_form: create.active_form,
            owner: create.owner,
            blocked_by: create.blocked_by.iter().map(|id| id.0).collect(),
            metadata: create.metadata,
            paths: create.paths,
            exclusive: create.exclusive,
            reviewer: create.reviewer,
            merge_on_approval: create.merge_on_approval,
            ..v1::CreateTaskRequest::default()
        };
        let task = self.client.create_task(request).await.map_err(failure)?.task.unwrap_or_default();
        Ok(format!("Created {}", task_line(&task)))
    }

    /// List the tasks on the team's board.
    #[tool(name = "TaskList", annotations(title = "List the tasks", read_only_hint = true, open_world_hint = false))]
    async fn task_list(&self) -> Result<String, String> {
        let request = v1::ListTasksRequest::default();
        let listed = self.client.list_all_tasks(request, TASKS_MAX).await.map_err(failure)?;
        let mut lines: Vec<String> = listed.tasks.iter().map(task_line).collect();
        if lines.is_empty() {
            lines.push("The board is empty.".to_owned());
        }
        if !listed.next_page_token.is_empty() {
            lines.push("There are more tasks.".to_owned());
        }
        Ok(lines.join("\n"))
    }

    /// Read a task in full.
    #[tool(name = "TaskGet", annotations(title = "Read a task", read_only_hint = true, open_world_hint = false))]
    async fn task_get(&self, Parameters(get): Parameters<TaskGet>) -> Result<String, String> {
        let request = v1::GetTaskRequest { task_id: get.task_id.0, ..v1::GetTaskRequest::default() };
        Ok(in_full(&self.client.get_task(request).await.map_err(failure)?.task.unwrap_or_default()))
    }

    /// Take a task: you alone work on it until you complete it or give it back with TaskUpdate.
    #[tool(
        name = "TaskClaim",
        annotations(title = "Take a task", read_only_hint = false, destructive_hint = false, open_world_hint = false)
    )]
    async fn task_claim(&self, Parameters(claim): Parameters<TaskClaim>) -> Result<String, String> {
        let claim = match claim.task_id {
            Some(TaskId(id)) => self.client.claim_task(id).await.map_err(failure)?.claim,
            None => self.client.claim_next_task(Duration::ZERO).await.map_err(failure)?,
        };
        let warnings: String = claim
            .iter()
            .flat_map(|claim| &claim.warnings)
            .map(|warning| format!("\nWarning: {}", escaped(warning)))
            .collect();
        let Some(task) = claim.and_then(|claim| claim.task) else {
            return Ok("No task is ready. TaskList shows which ones wait, and for what.".to_owned());
        };
        let id = task.id;
        Ok(format!(
            "You have taken this task. When it is done: TaskUpdate {{\"taskId\":\"{id}\",\"status\":\"completed\"}}. To give \
             it back: status \"pending\".{warnings}\n{}",
            in_full(&task)
        ))
    }
}

fn in_full(task: &v1::Task) -> String {
    let mut text = task_line(task);
    if !task.blocks.is_empty() {
        _ = write!(text, "\nBlocks: {}", ids(&task.blocks));
    }
    if !task.paths.is_empty() {
        let exclusive = if task.exclusive { " exclusively" } else { "" };
        _ = write!(text, "\nChanges{exclusive}: {}", escaped(&task.paths.join(", ")));
    }
    if !task.reviewer.is_empty() {
        _ = write!(text, "\nReviewed by: {}", escaped(&task.reviewer));
    }
    for (key, value) in &task.metadata {
        _ = write!(text, "\n{}: {}", escaped(key), escaped(value));
    }
    for (label, value) in
        [("Last given back", &task.released_because), ("Description", &task.description), ("Result", &task.result)]
    {
        if !value.is_empty() {
            _ = write!(text, "\n{label}:\n{}", escaped(value));
        }
    }
    text
}
