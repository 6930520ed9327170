//! `teamwire requests`: lists requests, or waits for a decision.

use clap::{Args, ValueEnum};
use teamwire_client::v1;
use teamwire_proto::v1::{RequestKind, RequestState};

use super::{
    Output, id, shown,
    waiting::{self, Wait},
};
use crate::{
    context::{ContextArgs, Who},
    failure::{Failure, NOT_IN_TIME, REJECTED, UNANSWERED},
    show,
};

/// How many requests are listed: the newest.
const SHOWN_MAX: usize = 100;

/// List requests (shutdowns, plans, permissions, reviews and orders), or wait for a decision
///
/// An order is approved when the teammate starts, and rejected if its host cannot start it. With --wait, the command
/// also acknowledges the answer in your inbox, because its output shows the answer.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire requests --state pending\n    teamwire requests last --wait")]
pub(super) struct Requests {
    /// Only this request: its id, the beginning or end of its id, or `last`: the newest pending
    /// one, or else the newest one
    request_id: Option<String>,
    /// Wait for the decision, for up to DURATION, such as 90s (10m if DURATION is left out): exit code 0 if approved, 3
    /// if rejected, 4 if expired or cancelled, 5 if still pending
    #[arg(long, short, requires = "request_id", value_name = "DURATION", num_args = 0..=1, default_missing_value = "10m")]
    wait: Option<Wait>,
    /// Only requests in this state
    #[arg(long, value_enum)]
    state: Option<StateFilter>,
    /// Only requests that concern this member
    #[arg(long, short)]
    member: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StateFilter {
    Pending,
    Approved,
    Rejected,
    Expired,
    Cancelled,
}

impl From<StateFilter> for RequestState {
    fn from(state: StateFilter) -> Self {
        match state {
            StateFilter::Pending => Self::Pending,
            StateFilter::Approved => Self::Approved,
            StateFilter::Rejected => Self::Rejected,
            StateFilter::Expired => Self::Expired,
            StateFilter::Cancelled => Self::Cancelled,
        }
    }
}

impl Requests {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let Some(typed) = &self.request_id else {
            let request = v1::ListRequestsRequest {
                state: self.state.map_or(RequestState::Unspecified, RequestState::from).into(),
                member: self.member.clone().unwrap_or_default(),
                ..v1::ListRequestsRequest::default()
            };
            let found = caller.client.list_all_requests(request, SHOWN_MAX).await?.requests;
            self.print(&found);
            return Ok(());
        };
        let request_id = &id::request(&caller, typed).await?;
        let request = if let Some(Wait(patience)) = self.wait {
            waiting::decision(&caller, request_id, patience, patience).await?
        } else {
            let request = v1::GetRequestRequest { request_id: request_id.clone(), ..v1::GetRequestRequest::default() };
            caller.client.get_request(request).await?.request.ok_or_else(show::incomplete)?
        };
        self.print(std::slice::from_ref(&request));
        if !self.output.json && self.wait.is_none() {
            match request.kind() {
                RequestKind::Spawn => {
                    show::last_lines(&request).iter().for_each(|line| anstream::println!("    {line}"));
                }
                RequestKind::Review => anstream::println!("{}", show::review_of(&request)),
                RequestKind::Permission => anstream::println!("{}", show::permission_in_full(&request)),
                _ => {}
            }
        }
        if self.wait.is_none() {
            return Ok(());
        }
        shown::acknowledge_decision(&caller, &request).await;
        let code = match request.state() {
            RequestState::Approved => return Ok(()),
            RequestState::Rejected => REJECTED,
            RequestState::Expired | RequestState::Cancelled => UNANSWERED,
            RequestState::Pending | RequestState::Unspecified => NOT_IN_TIME,
        };
        let text = match request.kind() {
            RequestKind::Spawn => format!("{} was {}", request.member, show::order_in_full(&request)),
            _ => format!("The request is {}", show::request_text(&request)),
        };
        Err(Failure::with_code(code, text))
    }

    fn print(&self, requests: &[v1::Request]) {
        if self.output.json {
            requests.iter().for_each(|request| show::line(&show::json("Request", request)));
            return;
        }
        if requests.is_empty() {
            anstream::println!("No matching requests.");
            return;
        }
        let rows = requests.iter().map(|request| {
            vec![
                show::short_id(&request.id),
                show::request_kind(request.kind()).to_owned(),
                request.member.clone(),
                request.requester.as_ref().map_or("?", |sender| sender.name.as_str()).to_owned(),
                show::time(request.created_at.as_ref()),
                show::summary_of_request(request),
                show::one_line(&show::request_text(request)),
            ]
        });
        let headings = ["request", "kind", "member", "from", "created", "asks for", "state"];
        show::table_with_texts(2, &headings, rows.collect());
        // A row has no room for a whole command.
        for request in requests.iter().filter(|request| self.request_id.is_none() && asks_now(request)) {
            anstream::println!(
                "\n{} of {}\n{}",
                show::short_id(&request.id),
                request.member,
                show::permission_in_full(request)
            );
        }
    }
}

/// Returns whether a request for permission waits for its decision.
fn asks_now(request: &v1::Request) -> bool {
    request.kind() == RequestKind::Permission && request.state() == RequestState::Pending
}
