//! `teamwire doctor`: shows what the coordinator finds wrong in a team, and what is wrong on this machine.

use clap::Args;
use serde_json::json;
use teamwire_client::v1;
use teamwire_proto::v1::{Finding, FindingClass, Severity};

use super::{Output, setup};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::{Failure, REFUSED},
    show,
};

/// Diagnose the team: find stuck messages, members and requests, and say what to do next
///
/// Reports these problems, and exits with 1 if it finds any:
///
/// - not notified: notifications to people about the team are not delivered; only the lead and the operator learn this
///
/// - not queued: messages are refused, because the name is unknown or the inbox is full
///
/// - store refuses writes: nothing can be sent until the coordinator's administrator has acted
///
/// - writes lost: the store has lost changes in the last hour that the coordinator had confirmed
///
/// - quota exceeded: the team, its tasks, or the history of its tasks has reached its quota, so teammates can add
///   nothing more to it
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
/// - failing: the member's program runs, but one of its turns failed at least 30 s ago (see --patience), and none has
///   succeeded since
///
/// - troubled: something keeps the member's program from its work, for example that it has not loaded the team's tools
///
/// - crashing: the member's program has crashed at least three times in 10 minutes, and its runner restarts it
///
/// - setup outdated: the settings that `teamwire setup` has written on this machine start a teamwire that no longer
///   exists
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
/// - hosts that cannot start anyone, because they are lost, offer no profile, or have no free slot
///
/// - which members keep the team from being deleted, if you are the lead or the operator
///
/// If a member has exited and its program did not fail, the report leaves it out, unless you name it as MEMBER. The
/// advice depends on who asks: a teammate learns what to tell the lead.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire doctor\n    teamwire doctor --json")]
pub(super) struct Doctor {
    /// Check only this member or host; an unknown name is reported as "not queued"
    member: Option<String>,
    /// How long something can take before it counts as a problem, in seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=PATIENCE_MAX))]
    patience: u64,
    #[command(flatten)]
    pub output: Output,
}

/// A hundred years, in seconds.
const PATIENCE_MAX: u64 = 3_155_760_000;

/// The class of a finding of this machine, beside those of the protocol.
const SETUP_OUTDATED: &str = "setup_outdated";

impl Doctor {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let team = caller.client.get_team(v1::GetTeamRequest::default()).await?.team.ok_or_else(show::incomplete)?;
        let request = v1::DiagnoseRequest {
            member: self.member.clone().unwrap_or_default(),
            patience: prost_types::Duration::try_from(std::time::Duration::from_secs(self.patience)).ok(),
            ..v1::DiagnoseRequest::default()
        };
        let found = caller.client.diagnose(request).await?.findings;
        let mut findings: Vec<(String, Finding)> = outdated_setups();
        findings.extend(found.into_iter().map(|finding| (class(&finding), finding)));
        self.print(&team, &caller, &findings)
    }

    fn print(&self, team: &v1::Team, caller: &Caller, findings: &[(String, Finding)]) -> Result<(), Failure> {
        let is_problem = |finding: &Finding| finding.severity() == Severity::Problem;
        let problems = findings.iter().filter(|(_, finding)| is_problem(finding)).count();
        if self.output.json {
            for (class, finding) in findings {
                show::line(&json!({
                    "class": class,
                    "severity": severity(finding),
                    "member": finding.member,
                    "message_id": finding.message_id,
                    "request_id": finding.request_id,
                    "text": finding.text,
                    "next": finding.next,
                }));
            }
        } else {
            anstream::println!("Team {} at {}: the coordinator and its store are up.", team.name, caller.address);
            for (class, finding) in findings {
                let class = format!("{}, {}:", severity(finding), class.replace('_', " "));
                let style = if is_problem(finding) { show::warning() } else { show::dim() };
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
            count => Err(Failure::with_code(REFUSED, format!("Found {}.", show::count(count as u64, "problem")))),
        }
    }
}

/// Reports settings on this machine that start a teamwire which no longer exists.
fn outdated_setups() -> Vec<(String, Finding)> {
    let found = setup::outdated().into_iter().map(|(program, file, gone)| {
        let (title, file, gone) = (program.title(), file.display(), gone.display());
        let finding = Finding {
            severity: Severity::Problem.into(),
            text: format!("{title} cannot reach the team: {file} starts {gone}, which does not exist any more."),
            next: format!("Write the settings again: `teamwire setup {}`.", program.name()),
            ..Finding::default()
        };
        (SETUP_OUTDATED.to_owned(), finding)
    });
    found.collect()
}

/// Returns the name of a finding's class, as in JSON.
fn class(finding: &Finding) -> String {
    match FindingClass::try_from(finding.class) {
        Ok(class) => class.as_str_name().trim_start_matches("FINDING_CLASS_").to_ascii_lowercase(),
        // A newer coordinator's.
        Err(_) => format!("class_{}", finding.class),
    }
}

fn severity(finding: &Finding) -> &'static str {
    match finding.severity() {
        Severity::Problem => "problem",
        Severity::Note | Severity::Unspecified => "note",
    }
}
