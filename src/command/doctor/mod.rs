//! `teamwire doctor`: diagnoses a team and says what to do next.

mod age;
mod finding;
mod history;
mod host;
mod inbox;
mod member;
mod program;
mod quota;
mod reader;

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamwire_client::{Reason, v1};
use teamwire_proto::v1::{RequestKind, RequestState};

use self::{
    age::{age, duration_text},
    finding::Finding,
    member::{delete_blocked, unknown, untried},
    quota::quota,
    reader::Reader,
};
use super::{Output, id::is_named, setup};
use crate::{
    context::{Caller, ContextArgs},
    failure::{Failure, REFUSED},
    show,
};

pub(in crate::command) use self::history::crashes;

/// Diagnose the team: find stuck messages, members and requests, and say what to do next
///
/// Reports these problems, and exits with 1 if it finds any:
///
/// - not queued: messages are refused, because the name is unknown or the inbox is full
///
/// - store refuses writes: nothing can be sent until the coordinator's administrator has acted
///
/// - quota exceeded: the team, its tasks, or the history of its tasks has reached its quota, so teammates can add nothing more
///   to it
///
/// - not delivered: messages wait because no process reads the inbox
///
/// - not acknowledged: messages were delivered but never acknowledged
///
/// - not exited: the member did not exit after it approved its shutdown, or did not answer the request to shut down
///
/// - plan unanswered: a plan awaits the lead's answer
///
/// - permission unanswered: a permission request awaits an answer
///
/// - lost: the member's lease and the grace period after it have expired
///
/// - not started: a host has not started a teammate that was ordered from it
///
/// - host lost: the lease of a host that has started teammates has expired
///
/// - failed: the member's program failed and left messages behind
///
/// - failing: the member's program runs, but one of its turns failed at least 30 s ago (see --patience), and none has succeeded
///   since
///
/// - troubled: something keeps the member's program from its work, for example that it has not loaded the team's tools
///
/// - crashing: the member's program has crashed at least three times in 10 minutes, and its runner restarts it
///
/// - setup outdated: the settings that `teamwire setup` has written on this machine start a teamwire that no longer exists
///
/// It also notes the following, which are not problems:
///
/// - a quota that is at least 80% used
///
/// - messages that you have not read
///
/// - messages that a detached member other than you has not read or acknowledged yet
///
/// - messages that became dead letters in the last hour
///
/// - programs that failed and left no messages behind
///
/// - agent programs of another version than the one that teamwire is tested with
///
/// - hosts that cannot start anyone, because they are lost or offer no profile
///
/// - which members keep the team from being deleted, if you are the lead or the operator
///
/// If a member has exited and its program did not fail, the report leaves it out, unless you name it as MEMBER. The advice
/// depends on who asks: a teammate learns what to tell the lead.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire doctor\n    teamwire doctor --json")]
pub(super) struct Doctor {
    /// Check only this member or host; an unknown name is reported as "not queued"
    member: Option<String>,
    /// How long something can take before it counts as a problem, in seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    patience: u64,
    #[command(flatten)]
    pub output: Output,
}

impl Doctor {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let team = caller.client.get_team(v1::GetTeamRequest::default()).await?.team.ok_or_else(show::incomplete)?;
        let members = caller.client.members().await?;
        let hosts = caller.client.list_all_hosts(v1::ListHostsRequest::default(), usize::MAX).await?.hosts;
        let reader = Reader::new(&caller, &team);
        let mut findings = Vec::new();
        let is_wanted = |member: &v1::Member| self.member.as_deref().is_none_or(|named| is_named(member, named));
        let wanted: Vec<&v1::Member> = members.iter().filter(|member| is_wanted(member)).collect();
        let is_host = |named: &str| hosts.iter().any(|host| host.name.eq_ignore_ascii_case(named));
        if let (Some(named), []) = (&self.member, wanted.as_slice())
            && !is_host(named)
        {
            findings.push(unknown(&reader, named, &members));
        }
        if !caller.client.is_serving("writes").await.unwrap_or(true) {
            findings.push(Finding::problem(
                "store_refuses_writes",
                "",
                "The store refuses writes, so nothing can be sent: it is full, read-only, or lacks access rights."
                    .to_owned(),
                "Ask the coordinator's operator: the coordinator's log says why.".to_owned(),
            ));
        }
        findings.extend(setup::outdated().into_iter().map(|(program, file, gone)| {
            let (title, file, gone) = (program.title(), file.display(), gone.display());
            Finding::problem(
                "setup_outdated",
                "",
                format!("{title} cannot reach the team: {file} starts {gone}, which does not exist any more."),
                format!("Write the settings again: `teamwire setup {}`.", program.name()),
            )
        }));
        for member in wanted {
            self.not_queued(&caller, &reader, member, &mut findings).await?;
            self.not_exited(&reader, member, &mut findings);
            findings.extend(self.failing(&reader, member));
            findings.extend(self.troubled(&reader, member));
            findings.extend(untried(member));
            findings.extend(self.crashing(&caller, &reader, member).await?);
            self.waiting(&caller, &reader, member, &mut findings).await?;
        }
        self.hosts(&reader, &hosts, &members, &mut findings);
        self.requests(&caller, &reader, &mut findings).await?;
        findings.extend(self.dead_letters(&caller).await?);
        if self.member.is_none() {
            findings.extend(quota(&reader, &team));
            findings.extend(delete_blocked(&reader, &members));
        }
        self.print(&team, &caller, &findings)
    }

    /// Reports requests that have waited too long for an answer.
    async fn requests(&self, caller: &Caller, reader: &Reader, findings: &mut Vec<Finding>) -> Result<(), Failure> {
        let request = v1::ListRequestsRequest {
            state: RequestState::Pending.into(),
            member: self.member.clone().unwrap_or_default(),
            ..v1::ListRequestsRequest::default()
        };
        let pending = match caller.client.list_all_requests(request, usize::MAX).await {
            Ok(reply) => reply.requests,
            // An unknown member is reported already, and a host makes no requests.
            Err(error) if error.reason() == Some(Reason::AgentNotFound) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for request in pending {
            let waits = age(request.created_at.as_ref());
            if waits < self.patience() {
                continue;
            }
            let (id, name) = (&request.id, &request.member);
            // Only the lead and the member that was asked can do something about a shutdown request.
            if request.kind() == RequestKind::Shutdown && !reader.can_lead() && !reader.is(name) {
                continue;
            }
            if request.kind() == RequestKind::Spawn {
                findings.push(self.not_started(caller, reader, &request).await);
                continue;
            }
            findings.push(match request.kind() {
                RequestKind::PlanApproval => Finding::problem(
                    "plan_unanswered",
                    name,
                    format!("{name}'s plan has waited {} for an answer.", duration_text(waits)),
                    if reader.can_lead() {
                        format!("Decide it: `teamwire approve {id}` or `teamwire reject {id} --reason \"…\"`.")
                    } else {
                        format!("Only the lead can decide it. {}", reader.tell_lead())
                    },
                ),
                RequestKind::Permission => Finding::problem(
                    "permission_unanswered",
                    name,
                    format!(
                        "{name} has waited {} for permission: {}.",
                        duration_text(waits),
                        show::summary_of_request(&request)
                    ),
                    match request.approver.as_str() {
                        approver if !reader.is(name) && (reader.can_lead() || reader.is(approver)) => {
                            format!("Decide it: `teamwire approve {id}` or `teamwire reject {id} --reason \"…\"`.")
                        }
                        "" => format!("Only the lead can decide it. {}", reader.tell_lead()),
                        approver => format!("Only {approver} and the lead can decide it. Remind {approver}."),
                    },
                ),
                _ => Finding::problem(
                    "not_exited",
                    name,
                    format!("{name} has not answered its shutdown request in {}.", duration_text(waits)),
                    if reader.is(name) {
                        format!("Answer it: `teamwire approve {id}` or `teamwire reject {id} --reason \"…\"`.")
                    } else {
                        format!(
                            "Wait for it (`teamwire requests {id} --wait`), or stop it: `teamwire shutdown {name} --force`."
                        )
                    },
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
                    "severity": finding.severity(),
                    "member": finding.member,
                    "message_id": finding.message_id,
                    "text": finding.text,
                    "next": finding.next,
                }));
            }
        } else {
            anstream::println!("Team {} at {}: the coordinator and its store are up.", team.name, caller.address);
            for finding in findings {
                let class = format!("{}, {}:", finding.severity(), finding.class.replace('_', " "));
                let style = if finding.is_problem { show::warning() } else { show::dim() };
                anstream::println!("\n{} {}", show::paint(style, class), show::plain(&finding.text));
                if !finding.message_id.is_empty() {
                    anstream::println!("    message: teamwire message show {}", finding.message_id);
                }
                anstream::println!("    next:    {}", show::plain(&finding.next));
            }
            if problems == 0 {
                anstream::println!("\nNo problems found.");
            }
        }
        match problems {
            0 => Ok(()),
            1 => Err(Failure::with_code(REFUSED, "Found 1 problem.")),
            n => Err(Failure::with_code(REFUSED, format!("Found {n} problems."))),
        }
    }
}
