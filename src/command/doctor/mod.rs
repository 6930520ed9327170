//! `teamwire doctor`: finds what keeps a team from working, says why, and what to do next.

mod age;
mod finding;
mod member;

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamwire_client::{Reason, v1};
use teamwire_proto::v1::{RequestKind, RequestState, Role};

use self::{
    age::{age, text},
    finding::Finding,
    member::{delete_blocked, unknown},
};
use super::Output;
use crate::{
    context::{Caller, ContextArgs},
    failure::{Failure, REFUSED},
    show,
};

/// Find what keeps the team from working, and what to do next
///
/// Looks for messages that were not queued (nobody of that name, exited, inbox full), not injected (nobody reads the
/// inbox), not consumed (read but never acknowledged), for members that do not go offline after their shutdown or do not
/// answer it, for plans without an answer, and says whether the team could be deleted. Exit code 1 when there is a problem.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Only this member, or one that a message could not be sent to
    member: Option<String>,
    /// How long something may take before it counts as a problem, in seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    patience: u64,
    #[command(flatten)]
    pub output: Output,
}

impl Doctor {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let team = caller.client.get_team(v1::GetTeamRequest::default()).await?.team.ok_or_else(show::incomplete)?;
        let members = caller.client.list_members(v1::ListMembersRequest::default()).await?.members;
        let mut findings = Vec::new();
        let is_wanted = |member: &v1::Member| {
            self.member.as_deref().is_none_or(|named| {
                member.name.eq_ignore_ascii_case(named)
                    || named.eq_ignore_ascii_case("team-lead") && member.role() == Role::Lead
            })
        };
        let wanted: Vec<&v1::Member> = members.iter().filter(|member| is_wanted(member)).collect();
        if let (Some(named), []) = (&self.member, wanted.as_slice()) {
            findings.push(unknown(named, &members));
        }
        for member in wanted {
            self.not_queued(member, &mut findings);
            self.not_gone_offline(member, &mut findings);
            self.waiting(&caller, member, &mut findings).await?;
        }
        self.requests(&caller, &mut findings).await?;
        if self.member.is_none() {
            findings.extend(delete_blocked(&caller, &members));
        }
        self.print(&team, &caller, &findings)
    }

    /// Requests that nobody answers.
    async fn requests(&self, caller: &Caller, findings: &mut Vec<Finding>) -> Result<(), Failure> {
        let request = v1::ListRequestsRequest {
            state: RequestState::Pending.into(),
            member: self.member.clone().unwrap_or_default(),
            ..v1::ListRequestsRequest::default()
        };
        let pending = match caller.client.list_requests(request).await {
            Ok(reply) => reply.requests,
            // Named, and not there: said already.
            Err(error) if error.reason() == Some(Reason::AgentNotFound) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for request in pending {
            let waits = age(request.created_at.as_ref());
            if waits < self.patience() {
                continue;
            }
            let (id, name) = (&request.id, &request.member);
            findings.push(match request.kind() {
                RequestKind::PlanApproval => Finding::problem(
                    "plan_unanswered",
                    name,
                    format!("The plan of {name} has waited for an answer for {}.", text(waits)),
                    format!("The lead decides: `teamwire approve {id}` or `teamwire reject {id} --reason \"…\"`."),
                ),
                _ => Finding::problem(
                    "not_gone_offline",
                    name,
                    format!("{name} has not answered its shutdown request for {}.", text(waits)),
                    format!(
                        "Wait for it (`teamwire requests {id} --wait`), or stop it: `teamwire shutdown {name} --force`."
                    ),
                ),
            });
        }
        Ok(())
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }

    fn print(&self, team: &v1::Team, caller: &Caller, findings: &[Finding]) -> Result<(), Failure> {
        let problems = findings.iter().filter(|finding| finding.is_problem).count();
        if self.output.json {
            for finding in findings {
                show::line(&json!({
                    "class": finding.class,
                    "severity": if finding.is_problem { "problem" } else { "note" },
                    "member": finding.member,
                    "message_id": finding.message_id,
                    "text": finding.text,
                    "next": finding.next,
                }));
            }
        } else {
            anstream::println!("Team {} at {}: the coordinator and its store answer.", team.name, caller.address);
            for finding in findings {
                let class = finding.class.replace('_', " ");
                let style = if finding.is_problem { show::warning() } else { show::dim() };
                anstream::println!("\n{} {}", show::paint(style, class), show::plain(&finding.text));
                if !finding.message_id.is_empty() {
                    anstream::println!("    message: teamwire message show {}", finding.message_id);
                }
                anstream::println!("    next:    {}", finding.next);
            }
            if problems == 0 {
                anstream::println!("\nNo problem was found.");
            }
        }
        match problems {
            0 => Ok(()),
            1 => Err(Failure::with_code(REFUSED, "1 problem was found.")),
            n => Err(Failure::with_code(REFUSED, format!("{n} problems were found."))),
        }
    }
}
