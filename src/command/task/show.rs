//! `teamwire task show`.

use clap::Args;

use super::{Output, get, task_number};
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire task show 7")]
pub(crate) struct Show {
    /// The task's number
    #[arg(value_parser = task_number)]
    id: u64,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Show {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
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
