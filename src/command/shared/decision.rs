//! Answers a request.

use teamwire_client::v1;

use super::{id, shown};
use crate::{context::Caller, failure::Failure, show};

/// Answers a request, and prints the outcome.
pub(in crate::command) async fn give(
    caller: &Caller,
    request_id: &str,
    approve: bool,
    text: &str,
    json: bool,
) -> Result<(), Failure> {
    let reply = caller.client.answer(request_id, approve, text).await?;
    report(caller, &reply, request_id, approve, json).await
}

/// Prints the outcome of an answer.
pub(in crate::command) async fn report(
    caller: &Caller,
    reply: &v1::SendResponse,
    request_id: &str,
    approve: bool,
    json: bool,
) -> Result<(), Failure> {
    let found = v1::GetRequestRequest { request_id: request_id.to_owned(), ..v1::GetRequestRequest::default() };
    let found = caller.client.get_request(found).await.ok().and_then(|reply| reply.request);
    // Answering a request proves that its message was processed, so acknowledge it. On failure the message is delivered
    // again, and its text says that the request was answered.
    if let Some(request) = &found {
        shown::acknowledge(caller, vec![request.message_id.clone()]).await;
    }
    if json {
        show::line(&show::json("SendResponse", reply));
        return Ok(());
    }
    let word = if approve { "Approved" } else { "Rejected" };
    let again = if reply.replayed { ", as before" } else { "" };
    match found {
        Some(request) => {
            let whose = if caller.is(&request.member) { "your".to_owned() } else { format!("{}'s", request.member) };
            let id = show::paint(show::dim(), &request.id);
            anstream::println!(
                "{word} {whose} {}{again}{} {id}",
                id::noun(request.kind()),
                show::first_line_of_request(&request)
            );
        }
        None => anstream::println!("{word}{again}."),
    }
    for warning in &reply.warnings {
        anstream::eprintln!(
            "{} {}",
            show::paint(anstyle::AnsiColor::Yellow.on_default(), "note:"),
            show::plain(warning)
        );
    }
    Ok(())
}
