//! `teamwire doctor`: finds what keeps a team from working, says why, and what to do next.

use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::json;
use teamwire_client::{Reason, v1};
use teamwire_proto::{
    v1::{MemberState, ReceiptState, RequestKind, RequestState, Role},
    word,
};

use super::Output;
use crate::{
    context::{Caller, ContextArgs},
    failure::{Failure, REFUSED},
    show,
};

/// How many waiting messages of a member are looked at one by one.
const LOOKED_AT: usize = 20;

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

/// What was found.
struct Finding {
    /// One of the classes that the help names.
    class: &'static str,
    /// A note is no problem.
    is_problem: bool,
    member: String,
    message_id: String,
    /// What is wrong, and why.
    text: String,
    /// What to do.
    next: String,
}

impl Finding {
    fn problem(class: &'static str, member: &str, text: String, next: String) -> Self {
        Self { class, is_problem: true, member: member.to_owned(), message_id: String::new(), text, next }
    }

    fn note(class: &'static str, text: String, next: String) -> Self {
        Self { is_problem: false, ..Self::problem(class, "", text, next) }
    }

    fn about(self, message_id: &str) -> Self {
        Self { message_id: message_id.to_owned(), ..self }
    }
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

    /// Messages to it would be refused.
    fn not_queued(&self, member: &v1::Member, findings: &mut Vec<Finding>) {
        let name = &member.name;
        let is_named = self.member.is_some();
        match member.state() {
            MemberState::Exited if is_named => findings.push(Finding::problem(
                "not_queued",
                name,
                format!("{name} has exited ({}): messages to it are refused.", exit(member)),
                format!("Start it again with `teamwire run {name} -- COMMAND`, or send to somebody else."),
            )),
            MemberState::Stopping if is_named => findings.push(Finding::problem(
                "not_queued",
                name,
                format!("{name} is stopping: messages to it are refused."),
                "Wait until it has exited and start it again, or send to somebody else.".to_owned(),
            )),
            _ if member.inbox_full => findings.push(Finding::problem(
                "not_queued",
                name,
                format!("The inbox of {name} is full with {} messages: more are refused.", member.inbox_depth),
                format!("See what it holds with `teamwire inbox --of {name}`, and why below."),
            )),
            _ => {}
        }
    }

    /// It was asked to end, and has not.
    fn not_gone_offline(&self, member: &v1::Member, findings: &mut Vec<Finding>) {
        let (name, since) = (&member.name, age(member.state_since.as_ref()));
        match member.state() {
            MemberState::Stopping if since >= self.patience() => findings.push(Finding::problem(
                "not_gone_offline",
                name,
                format!("{name} agreed to end, or was made to, {} ago, and its exit was not reported.", text(since)),
                match host(member) {
                    "" => format!("Look for its process and end it; `teamwire shutdown {name} --force` fences it."),
                    host => format!(
                        "Look for its process on {host} and end it; `teamwire shutdown {name} --force` fences it."
                    ),
                },
            )),
            MemberState::Lost => findings.push(Finding::problem(
                "lost",
                name,
                format!("Nothing was heard of {name} for {}. Its messages wait in its inbox.", text(since)),
                format!("Start it again with `teamwire run {name} -- COMMAND`; a message reaches it then."),
            )),
            _ => {}
        }
    }

    /// Messages that it has not processed.
    async fn waiting(&self, caller: &Caller, member: &v1::Member, findings: &mut Vec<Finding>) -> Result<(), Failure> {
        if member.inbox_depth == 0 {
            return Ok(());
        }
        let limit = u32::try_from(LOOKED_AT).unwrap_or(u32::MAX);
        let request = v1::ListInboxRequest { member: member.name.clone(), limit, ..v1::ListInboxRequest::default() };
        let listed = match caller.client.list_inbox(request).await {
            Ok(listed) => listed,
            // A teammate sees its own only; what the roster says must do for the others.
            Err(error) if error.reason() == Some(Reason::LeadOnly) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for message in listed.deliveries.into_iter().filter_map(|delivery| delivery.message) {
            let request = v1::GetMessageRequest { message_id: message.id.clone(), ..v1::GetMessageRequest::default() };
            let receipts = caller.client.get_message(request).await?.receipts;
            let Some(receipt) = receipts.iter().find(|receipt| receipt.recipient == member.name) else { continue };
            findings.extend(self.why_unprocessed(member, &message, receipt));
        }
        if listed.total > LOOKED_AT as u64 {
            findings.push(Finding::note(
                "more",
                format!("{} more messages wait for {}.", listed.total - LOOKED_AT as u64, member.name),
                format!("See them with `teamwire inbox --of {} --limit 1000`.", member.name),
            ));
        }
        Ok(())
    }

    fn why_unprocessed(&self, member: &v1::Member, message: &v1::Message, receipt: &v1::Receipt) -> Option<Finding> {
        let (name, what) = (&member.name, show::short(&show::says(message).0, 50));
        let queued = age(message.sent_at.as_ref());
        let delivered = age(receipt.delivered_at.as_ref());
        let found = match receipt.state() {
            ReceiptState::Queued if queued >= self.patience() && !member.connected => Finding::problem(
                "not_injected",
                name,
                format!("\"{what}\" has waited for {} because nobody reads {name}'s inbox.", text(queued)),
                format!(
                    "Start its runner (`teamwire run {name} -- COMMAND`), or read it (`teamwire --as {name} inbox`)."
                ),
            ),
            ReceiptState::Queued if queued >= self.patience() => Finding::problem(
                "not_injected",
                name,
                format!(
                    "\"{what}\" has waited for {} although {name} is connected: it holds so many messages without having \
                     acknowledged them that it is given no more.",
                    text(queued)
                ),
                format!("Have it acknowledge what it has done, or start it again: `teamwire shutdown {name}`."),
            ),
            ReceiptState::Delivered if delivered >= self.patience() => Finding::problem(
                "not_consumed",
                name,
                format!(
                    "{name} was given \"{what}\" {} ago ({} times in all) and has not acknowledged it.",
                    text(delivered),
                    receipt.delivery_count
                ),
                if member.connected {
                    format!("It may still be at work. Ask it (`teamwire send {name} …`), or look at its log.")
                } else {
                    format!("Its process is gone; with a new one it comes again: `teamwire run {name} -- COMMAND`.")
                },
            ),
            _ => return None,
        };
        Some(found.about(&message.id))
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

fn unknown(named: &str, members: &[v1::Member]) -> Finding {
    let known: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    Finding::problem(
        "not_queued",
        named,
        format!("There is no member \"{named}\": messages to it are refused. There are: {}.", known.join(", ")),
        format!("Mind the spelling, or let it join: `teamwire run {named} -- COMMAND`."),
    )
}

/// Says who keeps the team from being deleted.
fn delete_blocked(caller: &Caller, members: &[v1::Member]) -> Option<Finding> {
    let is_gone = |member: &v1::Member| matches!(member.state(), MemberState::Exited | MemberState::Lost);
    let live: Vec<&v1::Member> = members.iter().filter(|member| !is_gone(member) && !caller.is(&member.name)).collect();
    let names: Vec<String> =
        live.iter().map(|member| format!("{} ({})", member.name, word::member_state(member.state()))).collect();
    let first = live.first()?;
    Some(Finding::note(
        "delete_blocked",
        format!("The team cannot be deleted while these are live: {}.", names.join(", ")),
        format!("Ask each to end with `teamwire shutdown {} --wait`, or stop it with --force.", first.name),
    ))
}

fn exit(member: &v1::Member) -> String {
    member.exit.as_ref().map_or_else(|| "how is not known".to_owned(), show::exit_text)
}

fn host(member: &v1::Member) -> &str {
    member.attributes.as_ref().map_or("", |attributes| attributes.host.as_str())
}

/// Returns how long ago something was.
fn age(at: Option<&prost_types::Timestamp>) -> Duration {
    let at = at.and_then(|at| SystemTime::try_from(*at).ok());
    at.and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default()
}

fn text(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}
