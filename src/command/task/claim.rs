//! `teamwire task claim`, `next`, `complete` and `release`.

use std::{env, time::Duration};

use clap::Args;
use teamwire_agents::work;
use teamwire_client::v1;

use super::{Output, get, optional_text, report, report_unblocked, task_number};
use crate::{
    command::waiting::{Wait, wait_for},
    context::{Caller, ContextArgs, Who},
    failure::{Failure, NOT_IN_TIME},
    show,
};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire task claim 7")]
pub(crate) struct Claim {
    /// The task's number
    #[arg(value_parser = task_number)]
    id: u64,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire task next\n    teamwire task next --wait 5m")]
pub(crate) struct Next {
    /// Wait until a task is ready, for up to DURATION, such as 90s (10m if DURATION is left out); the exit code is 5 if
    /// none becomes ready
    #[arg(long, short, value_name = "DURATION", num_args = 0..=1, default_missing_value = "10m")]
    wait: Option<Wait>,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire task complete 7 --result \"done in 3f2c1a\"")]
pub(crate) struct Complete {
    #[command(flatten)]
    claim: ClaimArgs,
    /// The result of the task; use '-' to read it from standard input
    #[arg(long, short)]
    result: Option<String>,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire task release 7 --reason \"needs access to the billing database\"")]
pub(crate) struct Release {
    #[command(flatten)]
    claim: ClaimArgs,
    /// Why you are releasing it; shown to the next member that claims the task
    #[arg(long, short, default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    pub(super) output: Output,
}

/// The claim to complete or release.
#[derive(Args, Debug)]
pub(super) struct ClaimArgs {
    /// The task's number
    #[arg(value_parser = task_number)]
    id: u64,
    /// The claim token [default: the token of your current claim]
    ///
    /// A program that works on a task should pass its token: the coordinator then refuses the call if another member
    /// has claimed the task in the meantime.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

impl Claim {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let claim = caller.client.claim_task(self.id).await?.claim.ok_or_else(show::incomplete)?;
        report_claim(self.output, &claim);
        Ok(())
    }
}

impl Next {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let Wait(patience) = self.wait.unwrap_or(Wait(Duration::ZERO));
        let status = async || Some("No task is ready".to_owned());
        match wait_for(patience, status, caller.client.claim_next_task(patience)).await? {
            Some(claim) => {
                report_claim(self.output, &claim);
                Ok(())
            }
            None => Err(Failure::with_code(
                NOT_IN_TIME,
                "No task is ready. See `teamwire task list`, or wait for one with --wait.",
            )),
        }
    }
}

impl Complete {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let known = get(&caller, self.claim.id).await?;
        let work = work::to_review(known.task.as_ref(), &env::current_dir().unwrap_or_default()).await;
        let request = v1::CompleteTaskRequest {
            task_id: self.claim.id,
            claim_token: self.claim.token.clone().unwrap_or(known.claim_token),
            result: optional_text(self.result.as_deref())?.unwrap_or_default(),
            work,
            ..v1::CompleteTaskRequest::default()
        };
        let reply = caller.client.complete_task(request).await?;
        if self.output.json {
            show::line(&show::json("CompleteTaskResponse", &reply));
            return Ok(());
        }
        let task = reply.task.ok_or_else(show::incomplete)?;
        if task.status() == v1::TaskStatus::InReview {
            let reviewer = &task.reviewer;
            anstream::println!("Task {} is in review by {reviewer}: {}", task.id, show::one_line(&task.subject));
            return Ok(());
        }
        report(self.output, &task, "Completed");
        report_unblocked(&reply.unblocked);
        Ok(())
    }
}

impl Release {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let request = v1::ReleaseTaskRequest {
            task_id: self.claim.id,
            claim_token: self.claim.token(&caller).await?,
            reason: self.reason.clone(),
            ..v1::ReleaseTaskRequest::default()
        };
        let task = caller.client.release_task(request).await?.task.ok_or_else(show::incomplete)?;
        report(self.output, &task, "Released");
        Ok(())
    }
}

impl ClaimArgs {
    /// Returns the given token or else the token of the caller's claim; empty if the caller has not claimed the task.
    async fn token(&self, caller: &Caller) -> Result<String, Failure> {
        match &self.token {
            Some(token) => Ok(token.clone()),
            None => Ok(get(caller, self.id).await?.claim_token),
        }
    }
}

fn report_claim(output: Output, claim: &v1::Claim) {
    if output.json {
        show::line(&show::json("Claim", claim));
        return;
    }
    if let Some(task) = &claim.task {
        show::task(task);
        anstream::println!(
            "You claimed it. When it is done: teamwire task complete {0}. To give it back: teamwire task release {0}",
            task.id
        );
        claim.warnings.iter().for_each(|warning| show::warn(warning));
    }
}
