//! `teamwire task`: creates, claims, completes and lists tasks of the team's board.

mod claim;
mod create;
mod delete;
mod list;
mod show;
mod update;

use clap::Subcommand;
use teamwire_client::v1;
use teamwire_proto::v1::TaskStatus;

use self::{
    claim::{Claim, Complete, Next, Release},
    create::Create,
    delete::Delete,
    list::List,
    show::Show,
    update::Update,
};
use super::{Output, pair};
use crate::{
    context::{Caller, ContextArgs},
    failure::Failure,
    show::{bold, json, line, paint, plain},
};

/// Share work on the team's task board: create, claim, complete and follow tasks
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n\n    teamwire task create \"Write the migration\" --owner backend\n    teamwire task next --wait 5m\n    teamwire task complete 7 --result \"done in 3f2c1a\""
)]
pub(super) enum Task {
    /// Add a task to the board
    Create(Create),
    /// List tasks, or follow the board
    List(List),
    /// Show one task in full
    Show(Show),
    /// Change, assign or block a task
    Update(Update),
    /// Claim a task
    Claim(Claim),
    /// Claim the next ready task: the oldest one assigned to you, or else the oldest unassigned one
    Next(Next),
    /// Complete a task that you claimed
    Complete(Complete),
    /// Return a claimed task to the board
    Release(Release),
    /// Delete a task from the board
    Delete(Delete),
}

impl Task {
    pub(super) async fn run(self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        match self {
            Self::Create(command) => (command.run(context).await, command.output.json),
            Self::List(command) => (command.run(context).await, command.output.json),
            Self::Show(command) => (command.run(context).await, command.output.json),
            Self::Update(command) => (command.run(context).await, command.output.json),
            Self::Claim(command) => (command.run(context).await, command.output.json),
            Self::Next(command) => (command.run(context).await, command.output.json),
            Self::Complete(command) => (command.run(context).await, command.output.json),
            Self::Release(command) => (command.run(context).await, command.output.json),
            Self::Delete(command) => (command.run(context).await, command.output.json),
        }
    }
}

async fn get(caller: &Caller, id: u64) -> Result<v1::GetTaskResponse, Failure> {
    Ok(caller.client.get_task(v1::GetTaskRequest { task_id: id, ..v1::GetTaskRequest::default() }).await?)
}

fn report(output: Output, task: &v1::Task, action: &str) {
    if output.json {
        line(&json("Task", task));
        return;
    }
    let assigned = match (task.status(), task.owner.as_str()) {
        (TaskStatus::Pending, owner) if !owner.is_empty() => format!(", for {owner}"),
        _ => String::new(),
    };
    anstream::println!("{action} task {}: {}{assigned}", paint(bold(), task.id), plain(&task.subject));
}

fn report_unblocked(ids: &[u64]) {
    if !ids.is_empty() {
        let list: Vec<String> = ids.iter().map(u64::to_string).collect();
        anstream::println!("Unblocked tasks: {}", list.join(", "));
    }
}

fn optional_text(argument: Option<&str>) -> Result<Option<String>, Failure> {
    argument.map(super::text).transpose()
}

fn task_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "give the task's number, such as 7; `teamwire task list` shows it".to_owned())
}
