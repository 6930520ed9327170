//! `teamwire approve` and `teamwire reject`: answer requests.

use std::io::stdin;

use clap::Args;
use teamwire_client::v1;
use teamwire_proto::{
    Reason, Refusal,
    v1::{RequestKind, RequestState},
};

use super::{
    Output, always,
    amount::amount,
    confirm::{ask, has_terminal},
    decision, id,
    walk::walk,
};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::{Failure, REFUSED},
    show,
};

/// Approve a request, or walk through all that wait for your answer
///
/// Without a request, at a terminal, the command shows each one that waits for your answer, the next to expire first, and
/// takes one key for it: a approves, r rejects and asks for the reason, w (always) also stores a permission rule, s
/// skips, q quits. Without a terminal, it lists the requests and fails.
///
/// Approving a shutdown request ends your process. Approving a plan lets its author start on tasks. Approving a
/// permission request allows its author to use the tool as described, once. Before that, the command shows the tool and
/// everything that it would do, and asks for confirmation if you are at a terminal. There, it also shows a plan and asks.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire approve\n    teamwire approve last\n    teamwire approve REQUEST_ID -m \"go ahead\"\n    teamwire approve REQUEST_ID --always"
)]
pub(super) struct Approve {
    /// The request: its id, the beginning or end of its id, or `last`: the newest one that waits for your answer [default:
    /// ask about all of them]
    request_id: Option<String>,
    /// A comment for the requester
    #[arg(long, short, requires = "request_id", default_value = "", hide_default_value = true)]
    message: String,
    /// For a permission request: also store a rule that permits the same from now on, without asking anyone. The command
    /// shows the rule first. `teamwire permission rules` lists rules, and `teamwire permission revoke` revokes them
    #[arg(long, requires = "request_id")]
    always: bool,
    /// With --always: a rule for every member of the team, and not only for the one that asks
    #[arg(long, requires = "always")]
    everyone: bool,
    /// For a request for more budget: by how much to raise it, such as "5 USD" or "200k tokens" [default: by
    /// its own amount, until it suffices]
    #[arg(long, requires = "request_id", value_name = "AMOUNT", value_parser = amount, conflicts_with = "always")]
    add: Option<v1::Budget>,
    /// Do not ask for confirmation at a terminal
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Reject a request
///
/// If you reject a shutdown request, your process keeps working. If you reject a plan, its author can submit another
/// one. If you reject a permission request, the member that asked must not use the tool.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire reject last --reason \"handle errors first\"")]
pub(super) struct Reject {
    /// The request: its id, the beginning or end of its id, or `last`: the newest one that waits for your answer
    request_id: String,
    /// Why, or what to change. At a terminal, the command asks for it if you give none
    #[arg(long, short, default_value = "", hide_default_value = true)]
    reason: String,
    /// Do not ask for a reason at a terminal
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Approve {
    /// `kind`: the only kind that the command answers. `None` if it answers any.
    pub(super) async fn run(&self, context: &ContextArgs, kind: Option<RequestKind>) -> Result<(), Failure> {
        let Some(request_id) = &self.request_id else {
            let caller = context.caller(Who::Current)?;
            return match has_terminal() && !self.output.json {
                true => walk(&caller, kind).await,
                false => Err(list_due(&caller, kind).await?),
            };
        };
        let verdict = match (self.always, self.add) {
            (true, _) => Verdict::Always { everyone: self.everyone },
            (false, Some(budget)) => Verdict::Add(budget),
            (false, None) => Verdict::Approve,
        };
        answer(context, request_id, kind, verdict, &self.message, self.yes, self.output).await
    }
}

/// Returns the failure that lists what waits for the caller's answer, because no person is there to be asked.
async fn list_due(caller: &Caller, kind: Option<RequestKind>) -> Result<Failure, Failure> {
    let due = id::due(caller, kind).await?;
    if due.is_empty() {
        return Ok(Failure::with_code(REFUSED, "Nothing waits for your answer. See `teamwire requests`."));
    }
    let line = |request: &v1::Request| {
        format!("\n    {} {}: {}", request.id, request.member, show::summary_of_request(request))
    };
    let lines: String = due.iter().map(line).collect();
    Ok(Failure::usage(format!(
        "Without a terminal, name the request to answer: `teamwire approve REQUEST_ID`. {} for your answer, the next to expire \
         first:{lines}",
        if due.len() == 1 { "This one waits".to_owned() } else { format!("These {} wait", due.len()) }
    )))
}

/// An answer to a request.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Reject,
    Approve,
    /// Yes, and a rule that permits the same from now on. `everyone`: to every member, and not only to the one that asks.
    Always {
        everyone: bool,
    },
    /// Yes, and by how much to raise the budgets that are used up.
    Add(v1::Budget),
}

/// The tool of the requests that ask for more budget.
const BUDGET: &str = "budget";

impl Reject {
    /// `kind`: the only kind that the command answers. `None` if it answers any.
    pub(super) async fn run(&self, context: &ContextArgs, kind: Option<RequestKind>) -> Result<(), Failure> {
        answer(context, &self.request_id, kind, Verdict::Reject, &self.reason, self.yes, self.output).await
    }
}

async fn answer(
    context: &ContextArgs,
    request_id: &str,
    kind: Option<RequestKind>,
    verdict: Verdict,
    text: &str,
    yes: bool,
    output: Output,
) -> Result<(), Failure> {
    let approve = verdict != Verdict::Reject;
    let caller = context.caller(Who::Current)?;
    let request_id = &id::request_to_answer(&caller, request_id, kind).await?;
    let request = v1::GetRequestRequest { request_id: request_id.to_owned(), ..v1::GetRequestRequest::default() };
    let request = caller.client.get_request(request).await?.request.ok_or_else(show::incomplete)?;
    if let Some(kind) = kind {
        expect_kind(&request, kind, approve)?;
    }
    match request.kind() {
        RequestKind::Permission if let Verdict::Always { everyone } = verdict => {
            store_rule(&caller, &request, everyone, yes, output).await?;
        }
        _ if matches!(verdict, Verdict::Always { .. }) => {
            return Err(Failure::usage(
                "--always stores a rule for a permission request, and this request is not one. Leave the option out.",
            ));
        }
        _ if matches!(verdict, Verdict::Add(_)) && request.tool != BUDGET => {
            return Err(Failure::usage(
                "--add raises a budget, and this request asks for something else. Leave the option out.",
            ));
        }
        RequestKind::Permission if approve => confirm(&request, yes, output)?,
        RequestKind::PlanApproval if approve && asks(&request, yes, output) => {
            anstream::eprintln!("The plan of {}:\n{}", request.member, show::plain_lines(&request.content));
            ask(&format!("Approve the plan of {}?", request.member))?;
        }
        RequestKind::Review if approve && asks(&request, yes, output) => {
            anstream::eprintln!("{}", show::review_of(&request));
            ask(&format!("Approve the work of {}?", request.member))?;
        }
        _ => {}
    }
    let text = match text {
        "" if !approve && asks(&request, yes, output) => ask_why(&request)?,
        text => text.to_owned(),
    };
    match verdict {
        Verdict::Add(budget) => {
            let body = v1::PermissionResponse {
                request_id: request_id.to_owned(),
                approve: Some(true),
                reason: text,
                add_budget: Some(budget),
            };
            let body = Some(v1::send_request::Body::PermissionResponse(body));
            let reply = caller.client.send(v1::SendRequest { body, ..v1::SendRequest::default() }).await?;
            decision::report(&caller, &reply, request_id, true, output.json).await
        }
        _ => decision::give(&caller, request_id, approve, &text, output.json).await,
    }
}

/// Shows the rule that permits what a request asks for, asks at a terminal, and stores it.
async fn store_rule(
    caller: &Caller,
    request: &v1::Request,
    everyone: bool,
    yes: bool,
    output: Output,
) -> Result<(), Failure> {
    always::refuse_agents()?;
    let rule = always::rule(request, everyone)
        .map_err(|why| Failure::usage(format!("{why} Approve this request without --always.")))?;
    if !output.json {
        anstream::eprintln!("{} asks for permission.\n{}", request.member, show::permission_in_full(request));
        anstream::eprintln!(
            "The rule, which answers from now on without asking anyone:\n    {}",
            show::rule_sentence(&rule)
        );
    }
    if asks(request, yes, output) {
        ask("Approve this request, and store the rule?")?;
    }
    if request.state() == RequestState::Pending {
        let added = always::add(caller, rule).await?;
        if !output.json {
            always::say_added(&added);
        }
    }
    Ok(())
}

/// Shows the tool and the whole command, and asks at a terminal: the person who decides must have seen the command.
fn confirm(request: &v1::Request, yes: bool, output: Output) -> Result<(), Failure> {
    if !output.json {
        anstream::eprintln!("{} asks for permission.\n{}", request.member, show::permission_in_full(request));
    }
    if !asks(request, yes, output) {
        return Ok(());
    }
    // A long command has moved its own beginning off the screen.
    ask(&format!("Approve {}?", show::summary_of_request(request)))
}

/// Returns whether a person is there to be asked about a request that is still open.
fn asks(request: &v1::Request, yes: bool, output: Output) -> bool {
    !yes && !output.json && has_terminal() && request.state() == RequestState::Pending
}

/// Asks why a request is rejected: the decision is final, and without a reason its author does not know what to change.
fn ask_why(request: &v1::Request) -> Result<String, Failure> {
    anstream::eprintln!("{}", show::summary_of_request(request));
    anstream::eprint!("Why do you reject it? (Enter gives no reason, Ctrl+C leaves it open) ");
    let mut why = String::new();
    if stdin().read_line(&mut why)? == 0 {
        return Err(Failure::with_code(REFUSED, "Not answered, so nothing was done."));
    }
    Ok(why.trim().to_owned())
}

/// Refuses a request of another kind, and names the command that answers it. Leaves an order to the client, which says
/// what to do with it.
fn expect_kind(request: &v1::Request, kind: RequestKind, approve: bool) -> Result<(), Failure> {
    let request_id = &request.id;
    let group = match request.kind() {
        same if same == kind => return Ok(()),
        RequestKind::Spawn | RequestKind::Unspecified => return Ok(()),
        RequestKind::PlanApproval => "plan ",
        RequestKind::Permission => "permission ",
        RequestKind::Shutdown | RequestKind::Review => "",
    };
    let verb = if approve { "approve" } else { "reject" };
    let (is, wanted) = (id::noun(request.kind()), id::noun(kind));
    let text = format!(
        "This is {}'s {is}, not a {wanted}. To {verb} it: `teamwire {group}{verb} {request_id}`.",
        request.member
    );
    Err(Refusal::new(Reason::RequestKindMismatch, text).field("request_id").into())
}
