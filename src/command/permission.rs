//! `teamwire permission`: asks for permission, withdraws or answers a request for it.

use clap::{Args, Subcommand};
use teamwire_client::{
    message,
    v1::{RequestKind, send_request::Body},
};

use super::{Output, answer, id, made_request::MadeRequest, shutdown::parse_deadline, waiting::Wait};
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// Ask for permission to use a tool, or answer such a request
#[derive(Debug, Subcommand)]
pub(super) enum Permission {
    /// Ask the lead or another member for permission
    ///
    /// A request that is not answered in time, 10 minutes by default, expires, which counts as a rejection.
    Request(Request),
    /// Withdraw a request for permission that you made
    Withdraw(Withdraw),
    /// Grant a member's request for permission
    #[command(
        after_help = "Examples:\n\n    teamwire permission approve last\n    teamwire permission approve REQUEST_ID -m \"only this once\""
    )]
    Approve(answer::Approve),
    /// Reject a member's request for permission
    #[command(
        after_help = "Example:\n\n    teamwire permission reject last --reason \"the build directory is shared\""
    )]
    Reject(answer::Reject),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire permission request --tool Bash --summary \"delete the build directory\" --detail \"rm -r target\" --wait\n    git diff | teamwire permission request --tool Edit --summary \"apply this patch\" --detail -"
)]
pub(super) struct Request {
    /// What you want to use
    #[arg(long, short)]
    tool: String,
    /// What you want to do with it, in one line
    #[arg(long, short)]
    summary: String,
    /// The command, the edit or whatever else the approver must see; use '-' to read it from standard input
    #[arg(long, short, default_value = "", hide_default_value = true)]
    detail: String,
    /// The member that decides [default: the lead]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    approver: String,
    /// How long the request stays open, in seconds [default: 600, unless the coordinator's configuration differs]
    #[arg(long, value_name = "SECONDS", value_parser = parse_deadline, allow_negative_numbers = true)]
    deadline: Option<u32>,
    /// Wait for the answer, for up to DURATION, such as 90s (10m if DURATION is left out): exit code 0 if approved, 3
    /// if rejected, 4 if expired or cancelled, 5 if no answer came
    #[arg(long, short, value_name = "DURATION", num_args = 0..=1, default_missing_value = "10m")]
    wait: Option<Wait>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire permission withdraw last")]
pub(super) struct Withdraw {
    /// The request: its id, the beginning or end of its id, or `last`: your newest pending one
    request_id: String,
    #[command(flatten)]
    output: Output,
}

impl Permission {
    pub(super) async fn run(self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        match self {
            Self::Request(command) => (command.run(context).await, command.output.json),
            Self::Withdraw(command) => (command.run(context).await, command.output.json),
            Self::Approve(command) => (command.run(context, Some(RequestKind::Permission)).await, command.output.json),
            Self::Reject(command) => (command.run(context, Some(RequestKind::Permission)).await, command.output.json),
        }
    }
}

impl Request {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let detail = if self.detail.is_empty() { String::new() } else { super::text(&self.detail)? };
        let mut request =
            message::permission_request(self.approver.as_str(), self.tool.as_str(), self.summary.as_str(), detail);
        if let Some(Body::PermissionRequest(body)) = &mut request.body {
            body.ttl = self.deadline.map(|seconds| prost_types::Duration { seconds: seconds.into(), nanos: 0 });
        }
        let reply = caller.client.send(request).await?;
        let made = MadeRequest { caller: &caller, reply: &reply, noun: "permission request", output: self.output };
        made.finish("Asked", self.wait).await
    }
}

impl Withdraw {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let request_id = id::request_to_withdraw(&caller, &self.request_id).await?;
        let request = caller.client.withdraw_request(&request_id).await?;
        if self.output.json {
            show::line(&show::json("Request", &request));
        } else {
            let (what, id) = (show::first_line_of_request(&request), show::paint(show::dim(), &request.id));
            anstream::println!("Your permission request{what} is {} {id}", show::request_text(&request));
        }
        Ok(())
    }
}
