//! `--approver`: the member that a program's permission requests go to.

use teamwire_client::{Client, Error, Reason, Retry, v1};

use crate::failure::Failure;

/// Fails if no member has the approver's name. An empty name means the lead.
pub(in crate::command) async fn check(client: &Client, approver: &str) -> Result<(), Failure> {
    if approver.is_empty() {
        return Ok(());
    }
    match wrong_name(client, approver).await {
        Some(why) => Err(Failure::usage(format!(
            "--approver names no member. {why} Start the approver first, or leave out the option to have the lead asked."
        ))),
        None => Ok(()),
    }
}

/// Warns if no member has the approver's name. It may still join, so that is not a failure.
pub(in crate::command) async fn warn(client: Client, approver: String, say: impl FnOnce(String)) {
    if let Some(why) = wrong_name(&client, &approver).await {
        say(format!("warning: --approver names no member yet. {why} Until it has joined, the lead is asked instead."));
    }
}

/// Returns what is wrong with the name of an approver. `None` if a member has it, or the coordinator does not say.
async fn wrong_name(client: &Client, approver: &str) -> Option<String> {
    // Resolves the name as a permission request does.
    let request = v1::ListRequestsRequest { member: approver.to_owned(), page_size: 1, ..Default::default() };
    match client.clone().with_retry(Retry::none()).list_requests(request).await {
        Err(Error::Refused(refusal))
            if matches!(refusal.reason, Reason::AgentNotFound | Reason::TeamMismatch | Reason::InvalidName) =>
        {
            Some(refusal.message)
        }
        _ => None,
    }
}
