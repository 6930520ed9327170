//! `teamwire task create`.

use std::collections::BTreeMap;

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
    after_help = "Examples:\n\n    teamwire task create \"Write the migration\" --owner backend\n    teamwire task create \"Deploy\" --blocked-by 1,2\n    teamwire task create \"Log in\" --path 'src/login/**' --review team-lead --merge-on-approval"
)]
pub(crate) struct Create {
    /// What to do, on one line
    subject: String,
    /// Everything a member needs to know to do the task; use '-' to read it from standard input
    #[arg(long, short)]
    description: Option<String>,
    /// The name of the task while it is in progress, such as "Running the tests"
    #[arg(long, value_name = "TEXT")]
    active_form: Option<String>,
    /// Assign the task to this member, who gets a notice
    #[arg(long, short, value_name = "MEMBER")]
    owner: Option<String>,
    /// Numbers of tasks that must be completed first, such as 7 or 7,8,9; may be repeated
    #[arg(long, short, value_name = "ID", value_delimiter = ',', value_parser = task_number)]
    blocked_by: Vec<u64>,
    /// Files that the task will change, as paths or patterns below the root of the repository, such as 'src/**/*.rs'; may
    /// be repeated. Claims of tasks that overlap are warned of
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    path: Vec<String>,
    /// Refuse claims of tasks that overlap with it while it is in progress, and the other way round
    #[arg(long, requires = "path")]
    exclusive: bool,
    /// Have this member, or team-lead, review the result: the task is completed once it approves
    #[arg(long, short, value_name = "MEMBER")]
    review: Option<String>,
    /// Merge the approved commit into the branch that the owner's worktree began from
    #[arg(long, requires = "review")]
    merge_on_approval: bool,
    /// Metadata to store with the task; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Create {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let request = v1::CreateTaskRequest {
            subject: self.subject.clone(),
            description: optional_text(self.description.as_deref())?.unwrap_or_default(),
            active_form: self.active_form.clone().unwrap_or_default(),
            owner: self.owner.clone().unwrap_or_default(),
            blocked_by: self.blocked_by.clone(),
            paths: self.path.clone(),
            exclusive: self.exclusive,
            reviewer: self.review.clone().unwrap_or_default(),
            merge_on_approval: self.merge_on_approval,
            metadata: self.meta.iter().cloned().collect::<BTreeMap<_, _>>(),
            ..v1::CreateTaskRequest::default()
        };
        let task = caller.client.create_task(request).await?.task.ok_or_else(show::incomplete)?;
        report(self.output, &task, "Created");
        Ok(())
    }
}
