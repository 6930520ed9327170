//! `teamwire task update`.

use clap::Args;
use teamwire_client::v1;

use super::{Output, optional_text, pair, said};
use crate::{context::ContextArgs, failure::Failure, show};

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
    pub(super) output: Output,
}

impl Update {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
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
