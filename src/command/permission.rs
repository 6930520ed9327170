//! `teamwire permission`: asks for permission, withdraws or answers a request for it.

use clap::{Args, Subcommand};
use teamwire_client::{
    message,
    v1::{self, RequestKind, send_request::Body},
};
use teamwire_proto::permission_rule;

use super::{
    Output, always, answer, confirm::Confirm, id, made_request::MadeRequest, shutdown::parse_deadline, waiting::Wait,
};
use crate::{
    context::{ContextArgs, Who},
    failure::{Failure, REFUSED},
    show,
};

/// Ask for permission to use a tool, or answer such a request
#[derive(Debug, Subcommand)]
pub(super) enum Permission {
    /// Ask the lead or another member for permission
    ///
    /// A request that is not answered in time, 10 minutes by default, expires, which counts as a rejection.
    Request(Request),
    /// List the rules that permit something without a request
    Rules(Rules),
    /// Add a rule that permits something without a request
    ///
    /// The runner of the member then answers its program at once, and the history records each use. Only the lead and the
    /// operator may add a rule, and no agent can. A rule compares words or paths. It cannot know what a program does:
    /// `cargo test` runs whatever the repository says.
    Allow(Allow),
    /// Revoke a rule
    ///
    /// Once the command has returned, the rule answers nothing any more. If a team file has the rule, remove it there, too:
    /// `teamwire up` adds it again.
    Revoke(Revoke),
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

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire permission rules")]
pub(super) struct Rules {
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire permission allow --tool Bash --command \"cargo test *\"\n    teamwire permission allow --tool Edit --path docs/ --member backend\n    teamwire permission allow --tool mcp__db__query --any"
)]
pub(super) struct Allow {
    /// The tool, spelled as in permission requests: `Bash` (Claude Code), `command` (Codex)
    #[arg(long, short)]
    tool: String,
    /// The words of one command. A last word `*` stands for any further words
    #[arg(long, short, value_name = "WORDS", group = "extent")]
    command: Option<String>,
    /// A file, or a directory with a `/` at its end; relative to the member's working directory, which is `./`
    #[arg(long, short, value_name = "PATH", group = "extent")]
    path: Option<String>,
    /// Whatever the tool is used for, if that is neither a command nor a file
    #[arg(long, group = "extent")]
    any: bool,
    /// Only this member [default: every member]
    #[arg(long, short, value_name = "NAME", default_value = "", hide_default_value = true)]
    member: String,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire permission revoke 3")]
pub(super) struct Revoke {
    /// The rules: their numbers in `teamwire permission rules`
    #[arg(value_name = "RULE", required = true)]
    rules: Vec<u64>,
    #[command(flatten)]
    output: Output,
}

impl Permission {
    pub(super) async fn run(self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        match self {
            Self::Request(command) => (command.run(context).await, command.output.json),
            Self::Rules(command) => (command.run(context).await, command.output.json),
            Self::Allow(command) => (command.run(context).await, command.output.json),
            Self::Revoke(command) => (command.run(context).await, command.output.json),
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

impl Rules {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let rules = caller.client.list_permission_rules(v1::ListPermissionRulesRequest::default()).await?.rules;
        if self.output.json {
            rules.iter().for_each(|rule| show::line(&show::json("PermissionRule", rule)));
        } else if rules.is_empty() {
            anstream::println!(
                "The team has no permission rule. To add one: `teamwire permission allow`, or `teamwire approve REQUEST_ID --always`."
            );
        } else {
            show::rules(&rules);
        }
        Ok(())
    }
}

impl Allow {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        always::refuse_agents()?;
        let rule = permission_rule::check(&v1::PermissionRule {
            member: self.member.clone(),
            tool: self.tool.clone(),
            command: self.command.clone().unwrap_or_default(),
            path: self.path.clone().unwrap_or_default(),
            any_use: self.any,
            ..v1::PermissionRule::default()
        })?;
        let caller = context.caller(Who::Current)?;
        if !rule.member.is_empty() && caller.find_member(&rule.member).await?.is_none() {
            show::warn(&format!("The team has no member {}. The rule is for a later one of this name.", rule.member));
        }
        if rule.command.ends_with(" *") {
            show::warn(
                "Any further words include options, with which many programs run other programs or write files.",
            );
        }
        self.confirm
            .ask_at_terminal(&format!("This rule answers without asking anyone: {}", show::rule_sentence(&rule)), "")?;
        let added = always::add(&caller, rule).await?;
        match self.output.json {
            true => show::line(&show::json("AddPermissionRuleResponse", &added)),
            false => always::say_added(&added),
        }
        Ok(())
    }
}

impl Revoke {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        for &rule_id in &self.rules {
            let request = v1::RevokePermissionRuleRequest { rule_id, ..v1::RevokePermissionRuleRequest::default() };
            let Some(rule) = caller.client.revoke_permission_rule(request).await?.rule else {
                let text = format!("There is no permission rule {rule_id}. `teamwire permission rules` lists them.");
                return Err(Failure::with_code(REFUSED, text));
            };
            match self.output.json {
                true => show::line(&show::json("PermissionRule", &rule)),
                false => anstream::println!("Revoked rule {rule_id}: {}", show::rule_sentence(&rule)),
            }
        }
        Ok(())
    }
}
