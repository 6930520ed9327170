//! `teamwire approve` and `teamwire reject`: answer a request of either kind.

use clap::Args;
use teamwire_client::v1;

use super::Output;
use crate::{context::ContextArgs, failure::Failure, show};

/// Approve a request
///
/// A shutdown request: your process ends. A plan: its author may begin.
#[derive(Args, Debug)]
pub struct Approve {
    /// The request's id, as it stands in the request and in `teamwire requests`
    request_id: String,
    /// What to say with it
    #[arg(long, short, default_value = "", hide_default_value = true)]
    message: String,
    #[command(flatten)]
    pub output: Output,
}

/// Reject a request
///
/// A shutdown request: you go on working. A plan: its author may submit a better one.
#[derive(Args, Debug)]
pub struct Reject {
    /// The request's id, as it stands in the request and in `teamwire requests`
    request_id: String,
    /// Why, or what to change
    #[arg(long, short, default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    pub output: Output,
}

impl Approve {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        answer(context, &self.request_id, true, &self.message, self.output).await
    }
}

impl Reject {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        answer(context, &self.request_id, false, &self.reason, self.output).await
    }
}

async fn answer(
    context: &ContextArgs,
    request_id: &str,
    approve: bool,
    text: &str,
    output: Output,
) -> Result<(), Failure> {
    let caller = context.caller()?;
    let reply = caller.client.answer(request_id, approve, text).await?;
    // Whoever has answered a request has processed the message that brought it. If this does not work out, the message
    // comes again, and says that it was answered.
    if caller.member.is_some()
        && let Ok(found) = caller
            .client
            .get_request(v1::GetRequestRequest { request_id: request_id.to_owned(), ..Default::default() })
            .await
        && let Some(request) = found.request
    {
        let _ = caller
            .client
            .ack(v1::AckRequest { session_id: String::new(), message_ids: vec![request.message_id] })
            .await;
    }
    if output.json {
        show::line(&show::json("SendResponse", &reply));
        return Ok(());
    }
    let word = if approve { "Approved" } else { "Rejected" };
    let again = if reply.replayed { ", as before" } else { "" };
    anstream::println!("{word}{again}.");
    for warning in &reply.warnings {
        anstream::eprintln!("{} {warning}", show::paint(anstyle::AnsiColor::Yellow.on_default(), "note:"));
    }
    Ok(())
}
