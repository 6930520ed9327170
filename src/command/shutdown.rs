//! `teamwire shutdown`: asks a member to shut down, or forces it to.

use std::time::Duration;

use clap::Args;
use teamwire_client::{Error, message, v1};
use teamwire_proto::{
    Reason,
    v1::{MemberState, RequestState, Role},
    word,
};

use super::{
    Output, shown,
    waiting::{self, wait_for},
};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::{Failure, LOST, NOT_IN_TIME, REJECTED, UNANSWERED},
    show,
};

/// How long to wait for a member to exit after it approved: more than its runner's grace period.
const EXIT_PATIENCE: Duration = Duration::from_secs(60);

/// Ask a member to shut down, or stop it by force
///
/// The member approves or rejects the request. With --wait, the exit code is 0 if it approved and its process exited, 3
/// if it rejected, 4 if the request was cancelled or expired without an answer, and 5 if it approved but its process
/// did not exit within 60 s. If an earlier request is still pending, the command waits for that one instead. In that
/// case, it also exits with 5 if the earlier request has no answer after --deadline plus 30 s. The command also
/// acknowledges the messages in your inbox about the answer and the exit, because it has shown them.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire shutdown backend \"All tasks are done\" --wait\n    teamwire shutdown backend --force"
)]
pub(super) struct Shutdown {
    /// The member to shut down
    #[arg(value_name = "MEMBER")]
    name: String,
    /// Why it should shut down; shown to the member
    #[arg(default_value = "", hide_default_value = true)]
    reason: String,
    /// Wait for the answer and for the process to exit; in a terminal, show what is still awaited
    #[arg(long, short)]
    wait: bool,
    /// How long the request stays open, in seconds
    #[arg(long, default_value_t = 600, value_name = "SECONDS", value_parser = parse_deadline, allow_negative_numbers = true)]
    deadline: u32,
    /// Stop the member immediately without asking it: its credential no longer works, and its runner kills the process.
    /// If the member has not started yet, cancel its order
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub output: Output,
}

pub(super) fn parse_deadline(text: &str) -> Result<u32, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| "give a number of seconds, at least 1, such as 600".to_owned())
}

impl Shutdown {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        if self.force {
            return self.force(&caller).await;
        }
        let mut ask = message::shutdown_request(self.name.clone(), self.reason.clone());
        if let Some(v1::send_request::Body::ShutdownRequest(body)) = &mut ask.body {
            body.ttl = Some(prost_types::Duration { seconds: self.deadline.into(), nanos: 0 });
        }
        let request_id = match caller.client.send(ask).await {
            Ok(reply) => {
                if self.output.json && !self.wait {
                    show::line(&show::json("SendResponse", &reply));
                } else if !self.output.json {
                    anstream::println!(
                        "Asked {} to shut down {}",
                        reply.recipients.join(", "),
                        show::paint(show::dim(), &reply.request_id)
                    );
                }
                reply.request_id
            }
            Err(Error::Refused(refusal)) if refusal.reason == Reason::ShutdownPending && self.wait => {
                let id = refusal.metadata.get("request_id").cloned().ok_or_else(show::incomplete)?;
                if !self.output.json {
                    anstream::println!("A request is already pending {}", show::paint(show::dim(), &id));
                }
                id
            }
            // The member approved an earlier request and is stopping: wait for its exit.
            Err(Error::Refused(refusal)) if refusal.reason == Reason::AgentExited && self.wait => {
                return match caller.find_member(&self.name).await? {
                    Some(member) if member.state() == MemberState::Stopping => {
                        self.wait_for_exit(&caller, &member.name, None).await
                    }
                    _ => Err(refusal.into()),
                };
            }
            Err(error) => return Err(error.into()),
        };
        if self.wait { self.wait(&caller, &request_id).await } else { Ok(()) }
    }

    async fn wait(&self, caller: &Caller, request_id: &str) -> Result<(), Failure> {
        let patience = Duration::from_secs(u64::from(self.deadline) + 30);
        let open = Duration::from_secs(self.deadline.into());
        let request = waiting::decision(caller, request_id, open, patience).await?;
        let name = request.member.clone();
        let code = match request.state() {
            RequestState::Approved => {
                let exited = self.wait_for_exit(caller, &name, Some(&request)).await;
                shown::acknowledge_decision(caller, &request).await;
                return exited;
            }
            RequestState::Rejected => REJECTED,
            RequestState::Expired | RequestState::Cancelled => UNANSWERED,
            RequestState::Pending | RequestState::Unspecified => NOT_IN_TIME,
        };
        if self.output.json {
            show::line(&serde_json::json!({ "request": show::json("Request", &request) }));
        }
        shown::acknowledge_decision(caller, &request).await;
        Err(Failure::with_code(code, format!("{name} was not shut down: {}", show::request_text(&request))))
    }

    async fn force(&self, caller: &Caller) -> Result<(), Failure> {
        let member = caller.client.force_stop(&self.name, &self.reason).await?;
        let (name, is_host, is_over) =
            (&member.name, member.role() == Role::Host, member.state() == MemberState::Exited);
        if !self.output.json {
            match (is_host, is_over) {
                (true, _) => {
                    anstream::println!("Stopped the host {name} by force. The teammates that it started keep running.")
                }
                (_, true) => anstream::println!("Cancelled the order of {name}, which had not started."),
                _ => anstream::println!("Stopped {name} by force."),
            }
        }
        if self.wait && !is_host && !is_over {
            return self.wait_for_exit(caller, &member.name, None).await;
        }
        if self.output.json {
            show::line(&serde_json::json!({ "member": show::json("Member", &member) }));
        }
        Ok(())
    }

    async fn wait_for_exit(&self, caller: &Caller, name: &str, request: Option<&v1::Request>) -> Result<(), Failure> {
        if let (Some(request), false) = (request, self.output.json) {
            let reason =
                if request.reason.is_empty() { String::new() } else { format!(": {}", show::plain(&request.reason)) };
            anstream::println!("{name} approved{reason}");
        }
        // Every change to the member's state is in the history. Starting before the newest entry misses none that
        // happens while the stream opens.
        let follow = v1::FollowHistoryRequest {
            after_sequence: waiting::last_sequence(caller).await?.saturating_sub(1),
            ..v1::FollowHistoryRequest::default()
        };
        let mut entries = caller.waiting_client().follow_history(follow);
        let exited = async {
            loop {
                match caller.find_member(name).await? {
                    Some(member) if member.state() == MemberState::Exited => return Ok::<_, Failure>(member),
                    Some(member) if member.state() == MemberState::Lost => return Err(unseen(name, "was lost")),
                    _ => {}
                }
                match entries.next().await {
                    Some(Err(error)) if error.store_end().is_some() => {}
                    Some(entry) => drop(entry?),
                    None => return Err(show::incomplete()),
                }
            }
        };
        let status = async || Some(format!("{name} is stopping, and its process has not ended"));
        let waited = wait_for(EXIT_PATIENCE, status, tokio::time::timeout(EXIT_PATIENCE, exited)).await;
        // The member may have exited while the coordinator was away. Fails if the coordinator still is.
        let last_look = match &waited {
            Ok(_) => None,
            Err(_) => caller.find_member(name).await?.filter(|member| member.state() == MemberState::Exited),
        };
        let Some(member) = waited.ok().or(last_look.map(Ok)) else {
            return Err(Failure::with_code(
                NOT_IN_TIME,
                format!(
                    "{name} is stopping, and its process has not ended within {} s. Check the process, or {}.",
                    EXIT_PATIENCE.as_secs(),
                    match self.force {
                        true => "end it on its machine".to_owned(),
                        false => format!("stop it with `teamwire shutdown {name} --force`"),
                    }
                ),
            ));
        };
        let member = member?;
        let exit = member.exit.clone().unwrap_or_default();
        if exit.code.is_none() && exit.signal == 0 {
            shown::acknowledge_exit(caller, &member).await;
            return Err(unseen(name, &format!("counts as exited ({})", show::plain(&word::exit_and_duration(&exit)))));
        }
        if self.output.json {
            let request = request.map(|request| show::json("Request", request));
            show::line(&serde_json::json!({ "request": request, "member": show::json("Member", &member) }));
        } else {
            anstream::println!("{name} exited: {}.", show::plain(&word::exit_and_duration(&exit)));
        }
        shown::acknowledge_exit(caller, &member).await;
        Ok(())
    }
}

/// Says that no one has seen a member's process end.
fn unseen(name: &str, how: &str) -> Failure {
    Failure::with_code(
        LOST,
        format!("{name} {how}. No one has seen its process end, so it may still run: check it on its machine."),
    )
}
