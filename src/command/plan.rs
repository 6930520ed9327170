//! `teamwire plan`: submits or answers a plan.

use clap::{Args, Subcommand};
use teamwire_client::{message, v1::RequestKind};

use super::{Output, answer, made_request::MadeRequest, waiting::Wait};
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
};

/// Submit a plan, or answer one
#[derive(Debug, Subcommand)]
pub(super) enum Plan {
    /// Submit a plan to the lead for approval
    Submit(Submit),
    /// Approve a teammate's plan
    #[command(
        after_help = "Examples:\n\n    teamwire plan approve last\n    teamwire plan approve REQUEST_ID -m \"go ahead\""
    )]
    Approve(answer::Approve),
    /// Reject a teammate's plan and say what to change
    #[command(after_help = "Example:\n\n    teamwire plan reject last --reason \"handle errors first\"")]
    Reject(answer::Reject),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire plan submit \"1. Add the column. 2. Backfill. 3. Switch the readers.\" --wait\n    teamwire plan submit - < plan.md"
)]
pub(super) struct Submit {
    /// The text of the plan; use '-' to read it from standard input
    plan: String,
    /// A one-line preview [default: the beginning of the plan]
    #[arg(long, short)]
    summary: Option<String>,
    /// Wait for the answer, for up to DURATION, such as 90s (24h if DURATION is left out): exit code 0 if approved, 3
    /// if rejected, 4 if expired or cancelled, 5 if no answer came
    #[arg(long, short, value_name = "DURATION", num_args = 0..=1, default_missing_value = "24h")]
    wait: Option<Wait>,
    #[command(flatten)]
    output: Output,
}

impl Plan {
    pub(super) async fn run(self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        match self {
            Self::Submit(command) => (command.run(context).await, command.output.json),
            Self::Approve(command) => {
                (command.run(context, Some(RequestKind::PlanApproval)).await, command.output.json)
            }
            Self::Reject(command) => (command.run(context, Some(RequestKind::PlanApproval)).await, command.output.json),
        }
    }
}

impl Submit {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let plan = super::text(&self.plan)?;
        let summary = self.summary.clone().unwrap_or_else(|| super::summary_of(&plan));
        let reply = caller.client.send(message::plan_approval_request(plan, summary)).await?;
        let made = MadeRequest { caller: &caller, reply: &reply, noun: "plan", output: self.output };
        made.finish("Submitted to", self.wait).await
    }
}
