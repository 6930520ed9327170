//! `teamwire task`: the task board.

use std::{collections::BTreeMap, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use teamwire_client::v1;
use teamwire_proto::{
    name::{Address, Name},
    v1::TaskStatus,
};

use super::Output;
use crate::{
    context::{Caller, ContextArgs},
    failure::{Failure, NOT_IN_TIME},
    show,
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

#[derive(Args, Debug)]
pub struct Create {
    /// What is to be done, on one line
    subject: String,
    /// All that a member needs to know; - reads it from standard input
    #[arg(long, short)]
    description: Option<String>,
    /// What it is called while somebody does it, such as "Running the tests"
    #[arg(long, value_name = "TEXT")]
    active_form: Option<String>,
    /// Assign it to this member, who is told
    #[arg(long, short, value_name = "MEMBER")]
    owner: Option<String>,
    /// A task that must be completed first; may be given again
    #[arg(long, short, value_name = "ID", value_delimiter = ',')]
    blocked_by: Vec<u64>,
    /// A pair to keep with it; may be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub struct List {
    /// Only tasks that stand so; without it, all but deleted ones
    #[arg(long, value_enum)]
    status: Option<Status>,
    /// Only tasks of this member
    #[arg(long, short, value_name = "MEMBER")]
    owner: Option<String>,
    /// Only tasks that could be taken now
    #[arg(long, conflicts_with = "status")]
    ready: bool,
    /// Go on with every change, until interrupted
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Status {
    Pending,
    InProgress,
    Completed,
    Deleted,
}

impl From<Status> for TaskStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::InProgress => Self::InProgress,
            Status::Completed => Self::Completed,
            Status::Deleted => Self::Deleted,
        }
    }
}

#[derive(Args, Debug)]
pub struct Show {
    /// The task's number
    id: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub struct Update {
    /// The task's number
    id: u64,
    /// What is to be done, on one line
    #[arg(long, short)]
    subject: Option<String>,
    /// All that a member needs to know; - reads it from standard input
    #[arg(long, short)]
    description: Option<String>,
    /// What it is called while somebody does it
    #[arg(long, value_name = "TEXT")]
    active_form: Option<String>,
    /// Assign it to this member, who is told
    #[arg(long, short, value_name = "MEMBER")]
    owner: Option<String>,
    /// Assign it to nobody
    #[arg(long, conflicts_with = "owner")]
    no_owner: bool,
    /// A task that must be completed first; may be given again
    #[arg(long, short, value_name = "ID", value_delimiter = ',')]
    blocked_by: Vec<u64>,
    /// A task that need not be completed first any more; may be given again
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    not_blocked_by: Vec<u64>,
    /// A pair to keep with it; may be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    /// A key whose pair to drop; may be given again
    #[arg(long, value_name = "KEY")]
    no_meta: Vec<String>,
    /// Only if it still has this version (see `task show --json`)
    #[arg(long, value_name = "VERSION", default_value_t = 0, hide_default_value = true)]
    if_version: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub struct Claim {
    /// The task's number
    id: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub struct Next {
    /// Wait for a task, this many seconds; exit code 5 when none came
    #[arg(long, short, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    wait: u64,
    #[command(flatten)]
    output: Output,
}

/// Which claim is meant.
#[derive(Args, Debug)]
pub struct ClaimArgs {
    /// The task's number
    id: u64,
    /// The token of the claim [default: that of the claim that you hold]
    ///
    /// A program that works on a task gives it, so that it is refused when the task has gone to somebody else meanwhile.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

#[derive(Args, Debug)]
pub struct Complete {
    #[command(flatten)]
    claim: ClaimArgs,
    /// What came of it; - reads it from standard input
    #[arg(long, short)]
    result: Option<String>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub struct Release {
    #[command(flatten)]
    claim: ClaimArgs,
    /// Why, for whoever takes it next
    #[arg(long, short, default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub struct Delete {
    /// The task's number
    id: u64,
    #[command(flatten)]
    output: Output,
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

impl Create {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let request = v1::CreateTaskRequest {
            subject: self.subject.clone(),
            description: optional_text(self.description.as_deref())?.unwrap_or_default(),
            active_form: self.active_form.clone().unwrap_or_default(),
            owner: self.owner.clone().unwrap_or_default(),
            blocked_by: self.blocked_by.clone(),
            metadata: self.meta.iter().cloned().collect::<BTreeMap<_, _>>(),
            ..v1::CreateTaskRequest::default()
        };
        let task = caller.client.create_task(request).await?.task.ok_or_else(show::incomplete)?;
        said(self.output, &task, "Added");
        Ok(())
    }
}

impl List {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        if self.follow {
            return self.follow(&caller).await;
        }
        let mut request = v1::ListTasksRequest {
            status: self.status.map_or(TaskStatus::Unspecified, TaskStatus::from).into(),
            owner: self.owner.clone().unwrap_or_default(),
            ready_only: self.ready,
            limit: 1_000,
            ..v1::ListTasksRequest::default()
        };
        let mut tasks = Vec::new();
        loop {
            let page = caller.client.list_tasks(request.clone()).await?;
            tasks.extend(page.tasks);
            request.after_id = page.next_after_id;
            if !page.more {
                break;
            }
        }
        if self.output.json {
            tasks.iter().for_each(|task| show::line(&show::json("Task", task)));
        } else if tasks.is_empty() {
            anstream::println!("There is no such task. Add one with `teamwire task create SUBJECT`.");
        } else {
            show::tasks(&tasks);
        }
        Ok(())
    }

    async fn follow(&self, caller: &Caller) -> Result<(), Failure> {
        let owner = self.owner_named(caller).await?;
        let mut frames = caller.client.follow_tasks(v1::FollowTasksRequest::default());
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        loop {
            let frame = tokio::select! {
                frame = frames.next() => frame,
                _ = &mut interrupted => return Ok(()),
            };
            let Some(frame) = frame else { return Ok(()) };
            let Some(task) = frame?.task else { continue };
            if !self.wants(&task, owner.as_ref()) {
                continue;
            }
            if self.output.json {
                show::line(&show::json("Task", &task));
            } else {
                show::task_line(&task);
            }
        }
    }

    /// Returns the owner as tasks name it. Refused, as a list is, where there is no such member.
    async fn owner_named(&self, caller: &Caller) -> Result<Option<Name>, Failure> {
        let Some(owner) = &self.owner else { return Ok(None) };
        let one = v1::ListTasksRequest { owner: owner.clone(), limit: 1, ..v1::ListTasksRequest::default() };
        caller.client.list_tasks(one).await?;
        let address = Address::parse(owner, "owner")?;
        if !address.is_lead_alias() {
            return Ok(Some(address.member));
        }
        let team = caller.client.get_team(v1::GetTeamRequest::default()).await?.team.unwrap_or_default();
        Ok(Some(Name::parse(&team.lead, "lead")?))
    }

    fn wants(&self, task: &v1::Task, owner: Option<&Name>) -> bool {
        self.status.is_none_or(|status| task.status() == status.into())
            && owner.is_none_or(|owner| Name::parse(&task.owner, "owner").is_ok_and(|of| of == *owner))
            && (!self.ready || task.status() == TaskStatus::Pending && task.waiting_for.is_empty())
    }
}

impl Show {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let reply = get(&caller, self.id).await?;
        if self.output.json {
            show::line(&show::json("GetTaskResponse", &reply));
            return Ok(());
        }
        show::task(&reply.task.ok_or_else(show::incomplete)?);
        if !reply.claim_token.is_empty() {
            anstream::println!("{}", show::paint(show::dim(), format!("claim token: {}", reply.claim_token)));
        }
        Ok(())
    }
}

impl Update {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let request = v1::UpdateTaskRequest {
            task_id: self.id,
            expected_version: self.if_version,
            subject: self.subject.clone(),
            description: optional_text(self.description.as_deref())?,
            active_form: self.active_form.clone(),
            owner: if self.no_owner { Some(String::new()) } else { self.owner.clone() },
            add_blocked_by: self.blocked_by.clone(),
            remove_blocked_by: self.not_blocked_by.clone(),
            set_metadata: self.meta.iter().cloned().collect(),
            remove_metadata: self.no_meta.clone(),
            ..v1::UpdateTaskRequest::default()
        };
        let bare = v1::UpdateTaskRequest { task_id: self.id, expected_version: self.if_version, ..Default::default() };
        if request == bare {
            return Err(Failure::usage("Say what to change: see `teamwire task update --help`."));
        }
        let task = caller.client.update_task(request).await?.task.ok_or_else(show::incomplete)?;
        said(self.output, &task, "Changed");
        Ok(())
    }
}

impl Claim {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let claim = caller.client.claim_task(self.id).await?.claim.ok_or_else(show::incomplete)?;
        claimed(self.output, &claim);
        Ok(())
    }
}

impl Next {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        match caller.client.claim_next_task(Duration::from_secs(self.wait)).await? {
            Some(claim) => {
                claimed(self.output, &claim);
                Ok(())
            }
            None => Err(Failure::with_code(
                NOT_IN_TIME,
                "There is no task to take just now. See `teamwire task list`, or wait for one with --wait SECONDS.",
            )),
        }
    }
}

impl Complete {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let request = v1::CompleteTaskRequest {
            task_id: self.claim.id,
            claim_token: self.claim.token(&caller).await?,
            result: optional_text(self.result.as_deref())?.unwrap_or_default(),
            ..v1::CompleteTaskRequest::default()
        };
        let reply = caller.client.complete_task(request).await?;
        if self.output.json {
            show::line(&show::json("CompleteTaskResponse", &reply));
            return Ok(());
        }
        said(self.output, &reply.task.ok_or_else(show::incomplete)?, "Completed");
        unblocked(&reply.unblocked);
        Ok(())
    }
}

impl Release {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let request = v1::ReleaseTaskRequest {
            task_id: self.claim.id,
            claim_token: self.claim.token(&caller).await?,
            reason: self.reason.clone(),
            ..v1::ReleaseTaskRequest::default()
        };
        let task = caller.client.release_task(request).await?.task.ok_or_else(show::incomplete)?;
        said(self.output, &task, "Gave back");
        Ok(())
    }
}

impl Delete {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let request = v1::DeleteTaskRequest { task_id: self.id, ..v1::DeleteTaskRequest::default() };
        let reply = caller.client.delete_task(request).await?;
        if self.output.json {
            show::line(&serde_json::json!({ "deleted": self.id, "unblocked": reply.unblocked }));
            return Ok(());
        }
        anstream::println!("Deleted task {}.", self.id);
        unblocked(&reply.unblocked);
        Ok(())
    }
}

impl ClaimArgs {
    /// Returns the token that was given, or that of the caller's claim. Empty: it has none.
    async fn token(&self, caller: &Caller) -> Result<String, Failure> {
        match &self.token {
            Some(token) => Ok(token.clone()),
            None => Ok(get(caller, self.id).await?.claim_token),
        }
    }
}

async fn get(caller: &Caller, id: u64) -> Result<v1::GetTaskResponse, Failure> {
    Ok(caller.client.get_task(v1::GetTaskRequest { task_id: id, ..v1::GetTaskRequest::default() }).await?)
}

fn claimed(output: Output, claim: &v1::Claim) {
    if output.json {
        show::line(&show::json("Claim", claim));
        return;
    }
    if let Some(task) = &claim.task {
        show::task(task);
        anstream::println!(
            "It is yours. When it is done: teamwire task complete {0}; to give it back: teamwire task release {0}",
            task.id
        );
    }
}

fn said(output: Output, task: &v1::Task, what: &str) {
    if output.json {
        show::line(&show::json("Task", task));
        return;
    }
    let assigned = match (task.status(), task.owner.as_str()) {
        (TaskStatus::Pending, owner) if !owner.is_empty() => format!(", for {owner}"),
        _ => String::new(),
    };
    anstream::println!("{what} task {}: {}{assigned}", show::paint(show::bold(), task.id), show::plain(&task.subject));
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
