//! `teamwire task list`.

use clap::{Args, ValueEnum};
use teamwire_client::v1;
use teamwire_proto::{
    name::{Address, Name},
    v1::TaskStatus,
};

use super::Output;
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::Failure,
    show,
};

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire task list\n    teamwire task list --follow")]
pub(crate) struct List {
    /// Only tasks with this status [default: all except deleted]
    #[arg(long, value_enum)]
    status: Option<Status>,
    /// Only tasks owned by this member
    #[arg(long, short, value_name = "MEMBER")]
    owner: Option<String>,
    /// Only tasks that can be claimed now
    #[arg(long, conflicts_with = "status")]
    ready: bool,
    /// Print every change until interrupted
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Status {
    Pending,
    InProgress,
    InReview,
    Completed,
    Deleted,
}

impl From<Status> for TaskStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::InProgress => Self::InProgress,
            Status::InReview => Self::InReview,
            Status::Completed => Self::Completed,
            Status::Deleted => Self::Deleted,
        }
    }
}

impl List {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        if self.follow {
            return self.follow(&caller).await;
        }
        let request = v1::ListTasksRequest {
            status: self.status.map_or(TaskStatus::Unspecified, TaskStatus::from).into(),
            owner: self.owner.clone().unwrap_or_default(),
            ready_only: self.ready,
            ..v1::ListTasksRequest::default()
        };
        let tasks = caller.client.list_all_tasks(request, usize::MAX).await?.tasks;
        if self.output.json {
            tasks.iter().for_each(|task| show::line(&show::json("Task", task)));
        } else if tasks.is_empty() {
            let is_filtered = self.status.is_some() || self.owner.is_some() || self.ready;
            let what = if is_filtered { "No tasks match." } else { "The board is empty." };
            anstream::println!("{what} Create a task with `teamwire task create SUBJECT`.");
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

    /// Returns the name of the owner to filter by. Listing one task first makes the coordinator refuse an unknown
    /// member.
    async fn owner_named(&self, caller: &Caller) -> Result<Option<Name>, Failure> {
        let Some(owner) = &self.owner else { return Ok(None) };
        let one = v1::ListTasksRequest { owner: owner.clone(), page_size: 1, ..v1::ListTasksRequest::default() };
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
