//! `teamwire shutdown`: asks a member to end, or makes it.

use std::time::Duration;

use clap::Args;
use teamwire_client::{Error, message, v1};
use teamwire_proto::{
    Reason,
    v1::{MemberState, RequestState},
};

use super::Output;
use crate::{
    context::{Caller, ContextArgs},
    failure::{Failure, NOT_IN_TIME, REJECTED, UNANSWERED},
    show,
};

/// How long a member has to exit after it has agreed to: its runner's grace, and time to be told.
const EXIT_PATIENCE: Duration = Duration::from_secs(60);

/// Ask a member to shut down, or stop it by force
///
/// The member approves or rejects. With --wait: exit code 0 when it has approved and its process has ended, 3 when it
/// has rejected, 4 when the request has expired or was cancelled, 5 when it has not exited in time.
#[derive(Args, Debug)]
pub struct Shutdown {
    /// The member
    name: String,
    /// Why, for the member
    #[arg(default_value = "", hide_default_value = true)]
    reason: String,
    /// Wait for the answer, and for the end of the process
    #[arg(long, short)]
    wait: bool,
    /// How long the request stays open, in seconds
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    deadline: u32,
    /// Stop it at once, without asking: its credential is refused from now on, and its runner kills it
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Shutdown {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        if self.force {
            return self.force(&caller).await;
        }
        let mut ask = message::shutdown_request(self.name.clone(), self.reason.clone());
        if let Some(v1::send_request::Body::ShutdownRequest(body)) = &mut ask.body {
            body.deadline_seconds = self.deadline;
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
                    anstream::println!("A request is pending already {}", show::paint(show::dim(), &id));
                }
                id
            }
            // It has agreed before and is about to end: then its end is what is waited for.
            Err(Error::Refused(refusal)) if refusal.reason == Reason::AgentExited && self.wait => {
                let name = self.name.split('@').next().unwrap_or(&self.name);
                return match find(&caller, name).await? {
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
        let request = caller.client.wait_decision(request_id, patience).await?;
        let name = request.member.clone();
        let code = match request.state() {
            RequestState::Approved => return self.wait_for_exit(caller, &name, Some(&request)).await,
            RequestState::Rejected => REJECTED,
            RequestState::Expired | RequestState::Cancelled => UNANSWERED,
            RequestState::Pending | RequestState::Unspecified => NOT_IN_TIME,
        };
        if self.output.json {
            show::line(&serde_json::json!({ "request": show::json("Request", &request) }));
        }
        Err(Failure::with_code(code, format!("{name} goes on: {}", show::request_text(&request))))
    }

    async fn force(&self, caller: &Caller) -> Result<(), Failure> {
        let ask = v1::ForceStopRequest {
            member: self.name.clone(),
            reason: self.reason.clone(),
            ..v1::ForceStopRequest::default()
        };
        let member = caller.client.force_stop(ask).await?.member.ok_or_else(show::incomplete)?;
        if !self.output.json {
            anstream::println!("{} is stopped by force.", member.name);
        }
        if self.wait {
            return self.wait_for_exit(caller, &member.name, None).await;
        }
        if self.output.json {
            show::line(&serde_json::json!({ "member": show::json("Member", &member) }));
        }
        Ok(())
    }

    async fn wait_for_exit(&self, caller: &Caller, name: &str, request: Option<&v1::Request>) -> Result<(), Failure> {
        if let (Some(request), false) = (request, self.output.json) {
            let said =
                if request.reason.is_empty() { String::new() } else { format!(": {}", show::plain(&request.reason)) };
            anstream::println!("{name} has approved{said}");
        }
        // The history brings whatever changes the member's state, also what happened before we began to follow.
        let follow = v1::FollowHistoryRequest {
            after_sequence: self.newest_before(caller).await?,
            ..v1::FollowHistoryRequest::default()
        };
        let mut news = caller.client.follow_history(follow);
        let exited = async {
            loop {
                if let Some(member) = find(caller, name).await?
                    && member.state() == MemberState::Exited
                {
                    return Ok::<_, Failure>(member);
                }
                match news.next().await {
                    Some(entry) => drop(entry?),
                    None => return Err(show::incomplete()),
                }
            }
        };
        let Ok(member) = tokio::time::timeout(EXIT_PATIENCE, exited).await else {
            return Err(Failure::with_code(
                NOT_IN_TIME,
                format!(
                    "{name} has agreed to end, but has not reported its exit within {} s. Look after its process, or stop it \
                     with `teamwire shutdown {name} --force`.",
                    EXIT_PATIENCE.as_secs()
                ),
            ));
        };
        let member = member?;
        let exit = member.exit.clone().unwrap_or_default();
        if self.output.json {
            let request = request.map(|request| show::json("Request", request));
            show::line(&serde_json::json!({ "request": request, "member": show::json("Member", &member) }));
        } else {
            anstream::println!("{name} has exited: {}.", show::exit_text(&exit));
        }
        Ok(())
    }

    async fn newest_before(&self, caller: &Caller) -> Result<u64, Failure> {
        let newest = v1::ListHistoryRequest { limit: 1, newest: true, ..v1::ListHistoryRequest::default() };
        Ok(caller.client.list_history(newest).await?.next_after_sequence.saturating_sub(1))
    }
}

async fn find(caller: &Caller, name: &str) -> Result<Option<v1::Member>, Failure> {
    let reply = caller.client.list_members(v1::ListMembersRequest::default()).await?;
    Ok(reply.members.into_iter().find(|member| member.name.eq_ignore_ascii_case(name)))
}
