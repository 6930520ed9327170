//! `teamwire task update`.

use clap::Args;
use teamwire_client::v1;

use super::{Output, optional_text, pair, report, task_number};
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire task update 7 --owner backend\n    teamwire task update 7 --not-blocked-by 3"
)]
pub(crate) struct Update {
    /// The task's number
    #[arg(value_parser = task_number)]
    id: u64,
    /// What to do, on one line
    #[arg(long, short)]
    subject: Option<String>,
    /// Everything a member needs to know to do the task; use '-' to read it from standard input
    #[arg(long, short)]
    description: Option<String>,
    /// The name of the task while it is in progress
    #[arg(long, value_name = "TEXT")]
    active_form: Option<String>,
    /// Assign the task to this member, who gets a notice
    #[arg(long, short, value_name = "MEMBER")]
    owner: Option<String>,
    /// Remove the owner
    #[arg(long, conflicts_with = "owner")]
    no_owner: bool,
    /// Numbers of tasks that must also be completed first, such as 7 or 7,8,9; may be repeated
    #[arg(long, short, value_name = "ID", value_delimiter = ',', value_parser = task_number)]
    blocked_by: Vec<u64>,
    /// Numbers of tasks that no longer need to be completed first, such as 7 or 7,8,9; may be repeated
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = task_number)]
    not_blocked_by: Vec<u64>,
    /// Files that the task will also change; see `teamwire task create --help`
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    path: Vec<String>,
    /// Files that the task will not change after all; may be repeated
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    not_path: Vec<String>,
    /// Whether claims of tasks that overlap are refused
    #[arg(long, value_name = "BOOL")]
    exclusive: Option<bool>,
    /// Have this member, or team-lead, review the result
    #[arg(long, short, value_name = "MEMBER")]
    review: Option<String>,
    /// Complete the task without a review, and do not merge it
    #[arg(long, conflicts_with_all = ["review", "merge_on_approval"])]
    no_review: bool,
    /// Whether the approved commit is merged
    #[arg(long, value_name = "BOOL")]
    merge_on_approval: Option<bool>,
    /// Metadata to set; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    /// A metadata key to remove; may be repeated
    #[arg(long, value_name = "KEY")]
    no_meta: Vec<String>,
    /// Update only if the task still has this version (see `task show --json`)
    #[arg(long, value_name = "VERSION", default_value_t = 0, hide_default_value = true)]
    if_version: u64,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Update {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let request = v1::UpdateTaskRequest {
            task_id: self.id,
            expected_version: self.if_version,
            subject: self.subject.clone(),
            description: optional_text(self.description.as_deref())?,
            active_form: self.active_form.clone(),
            owner: if self.no_owner { Some(String::new()) } else { self.owner.clone() },
            add_blocked_by: self.blocked_by.clone(),
            remove_blocked_by: self.not_blocked_by.clone(),
            add_paths: self.path.clone(),
            remove_paths: self.not_path.clone(),
            exclusive: self.exclusive,
            reviewer: if self.no_review { Some(String::new()) } else { self.review.clone() },
            merge_on_approval: if self.no_review { Some(false) } else { self.merge_on_approval },
            set_metadata: self.meta.iter().cloned().collect(),
            remove_metadata: self.no_meta.clone(),
            ..v1::UpdateTaskRequest::default()
        };
        let unchanged =
            v1::UpdateTaskRequest { task_id: self.id, expected_version: self.if_version, ..Default::default() };
        if request == unchanged {
            return Err(Failure::usage(
                "Nothing to change. Give at least one option; see `teamwire task update --help`.",
            ));
        }
        let task = caller.client.update_task(request).await?.task.ok_or_else(show::incomplete)?;
        report(self.output, &task, "Updated");
        Ok(())
    }
}
