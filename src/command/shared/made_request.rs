//! What commands that make a request do afterwards: they say whom it went to, and may wait for the decision.

use teamwire_client::v1;
use teamwire_proto::v1::RequestState;

use super::{
    shown,
    waiting::{self, Wait},
};
use crate::{
    command::Output,
    context::Caller,
    failure::{Failure, NOT_IN_TIME, REJECTED, UNANSWERED},
    show,
};

/// A request that a command has made.
pub(in crate::command) struct MadeRequest<'a> {
    pub(in crate::command) caller: &'a Caller,
    pub(in crate::command) reply: &'a v1::SendResponse,
    /// What the user calls it, such as `plan`.
    pub(in crate::command) noun: &'static str,
    pub(in crate::command) output: Output,
}

impl MadeRequest<'_> {
    /// Reports whom the request went to: `sent_to` and the recipients. Waits for the decision if the user wants that.
    pub(in crate::command) async fn finish(&self, sent_to: &str, wait: Option<Wait>) -> Result<(), Failure> {
        if !self.output.json {
            let to = self.reply.recipients.join(", ");
            anstream::println!("{sent_to} {to} {}", show::paint(show::dim(), &self.reply.request_id));
            for warning in &self.reply.warnings {
                anstream::eprintln!("{} {}", show::paint(show::warning(), "note:"), show::plain(warning));
            }
        }
        let Some(Wait(patience)) = wait else {
            if self.output.json {
                show::line(&show::json("SendResponse", self.reply));
            }
            return Ok(());
        };
        let request = waiting::decision(self.caller, &self.reply.request_id, patience, patience).await?;
        let reported = self.report(&request);
        shown::acknowledge_decision(self.caller, &request).await;
        reported
    }

    fn report(&self, request: &v1::Request) -> Result<(), Failure> {
        if self.output.json {
            show::line(&show::json("Request", request));
        }
        let text = format!("Your {} was {}", self.noun, show::request_text(request));
        match request.state() {
            RequestState::Approved => {
                if !self.output.json {
                    anstream::println!("{text}");
                }
                Ok(())
            }
            RequestState::Rejected => Err(Failure::with_code(REJECTED, text)),
            RequestState::Expired | RequestState::Cancelled => Err(Failure::with_code(UNANSWERED, text)),
            RequestState::Pending | RequestState::Unspecified => Err(Failure::with_code(
                NOT_IN_TIME,
                format!("Your {} has not been answered yet. See `teamwire requests`.", self.noun),
            )),
        }
    }
}
