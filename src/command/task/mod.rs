//! `teamwire task`: the task board.

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
use super::Output;
use crate::{
    context::{Caller, ContextArgs},
    failure::Failure,
    show as print,
};

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Add a task to the board
    Create(Create),
    /// List the tasks, or follow the board
    List(List),
    /// See all of one task
    Show(Show),
    /// Change a task, assign it, or say what it waits for
    Update(Update),
    /// Take one task
    Claim(Claim),
    /// Take the next task that is ready: the oldest assigned to you, or else the oldest assigned to nobody
    Next(Next),
    /// Complete a task that you have taken
    Complete(Complete),
    /// Give a task that you have taken back to the board
    Release(Release),
    /// Take a task off the board
    Delete(Delete),
}

impl Task {
    pub async fn run(self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
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

fn said(output: Output, task: &v1::Task, what: &str) {
    if output.json {
        print::line(&print::json("Task", task));
        return;
    }
    let assigned = match (task.status(), task.owner.as_str()) {
        (TaskStatus::Pending, owner) if !owner.is_empty() => format!(", for {owner}"),
        _ => String::new(),
    };
    anstream::println!(
        "{what} task {}: {}{assigned}",
        print::paint(print::bold(), task.id),
        print::plain(&task.subject)
    );
}

fn unblocked(ids: &[u64]) {
    if !ids.is_empty() {
        let list: Vec<String> = ids.iter().map(u64::to_string).collect();
        anstream::println!("Nothing is in the way any more of: {}", list.join(", "));
    }
}

fn optional_text(argument: Option<&str>) -> Result<Option<String>, Failure> {
    argument.map(super::text).transpose()
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
