//! `teamwire task delete`.

use clap::Args;
use teamwire_client::v1;

use super::{Output, report_unblocked, task_number};
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire task delete 7")]
pub(crate) struct Delete {
    /// The task's number
    #[arg(value_parser = task_number)]
    id: u64,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Delete {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let request = v1::DeleteTaskRequest { task_id: self.id, ..v1::DeleteTaskRequest::default() };
        let reply = caller.client.delete_task(request).await?;
        if self.output.json {
            show::line(&serde_json::json!({ "deleted": self.id, "unblocked": reply.unblocked }));
            return Ok(());
        }
        anstream::println!("Deleted task {}.", self.id);
        report_unblocked(&reply.unblocked);
        Ok(())
    }
}
