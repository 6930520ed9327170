//! `teamwire plan`: submits a plan, or answers one.

use std::time::Duration;

use clap::{Args, Subcommand};
use teamwire_client::{message, v1};
use teamwire_proto::v1::RequestState;

use super::{Output, answer};
use crate::{
    context::ContextArgs,
    failure::{Failure, NOT_IN_TIME, REJECTED, UNANSWERED},
    show,
};

#[derive(Debug, Subcommand)]
pub enum Plan {
    /// Submit a plan to the lead
    Submit(Submit),
    /// Approve a teammate's plan
    Approve(answer::Approve),
    /// Reject a teammate's plan, with what to change
    Reject(answer::Reject),
}

#[derive(Args, Debug)]
pub struct Submit {
    /// The plan; - reads it from standard input
    plan: String,
    /// One line that is shown as a preview
    #[arg(long, short)]
    summary: Option<String>,
    /// Wait for the answer: exit code 0 when approved, 3 when rejected, 4 when expired or cancelled
    #[arg(long, short)]
    wait: bool,
    #[command(flatten)]
    output: Output,
}

impl Plan {
    pub async fn run(self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        match self {
            Self::Submit(command) => (command.run(context).await, command.output.json),
            Self::Approve(command) => (command.run(context).await, command.output.json),
            Self::Reject(command) => (command.run(context).await, command.output.json),
        }
    }
}

impl Submit {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let plan = super::text(&self.plan)?;
        let summary = self.summary.clone().unwrap_or_else(|| super::summary_of(&plan));
        let reply = caller.client.send(message::plan_approval_request(plan, summary)).await?;
        if !self.output.json {
            anstream::println!(
                "Submitted to {} {}",
                reply.recipients.join(", "),
                show::paint(show::dim(), &reply.request_id)
            );
        }
        if !self.wait {
            if self.output.json {
                show::line(&show::json("SendResponse", &reply));
            }
            return Ok(());
        }
        let request = caller.client.wait_decision(&reply.request_id, Duration::from_secs(24 * 60 * 60)).await?;
        self.report(&request)
    }

    fn report(&self, request: &v1::Request) -> Result<(), Failure> {
        if self.output.json {
            show::line(&show::json("Request", request));
        }
        let text = show::request_text(request);
        match request.state() {
            RequestState::Approved => {
                if !self.output.json {
                    anstream::println!("Your plan is {text}");
                }
                Ok(())
            }
            RequestState::Rejected => Err(Failure::with_code(REJECTED, format!("Your plan is {text}"))),
            RequestState::Expired | RequestState::Cancelled => {
                Err(Failure::with_code(UNANSWERED, format!("Your plan is {text}")))
            }
            RequestState::Pending | RequestState::Unspecified => {
                Err(Failure::with_code(NOT_IN_TIME, "Your plan was not answered yet."))
            }
        }
    }
}
