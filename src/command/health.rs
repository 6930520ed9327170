//! `teamwire health`: checks the health of a coordinator.

use clap::Args;
use teamwire_client::Retry;

use super::Output;
use crate::{
    context::ContextArgs,
    failure::{Failure, REFUSED},
    show,
};

/// Check the health of a coordinator
///
/// Needs no credential and does not retry, so it can serve as a container's health check. Exits with 0 if the
/// coordinator is serving, 1 if it is not (its store does not answer, or it is draining), and 69 if it cannot be
/// reached. If the store refuses writes, for example because it is full, the command says so, but still exits with 0:
/// the coordinator still serves reads and acknowledgements, and no other coordinator could do more. With --writable,
/// the command then exits with 1.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire health\n    teamwire health --writable\n    teamwire health --address https://coordinator.example:7420 --json"
)]
pub(super) struct Health {
    /// Check one service, such as teamwire.v1.MessageService, instead of the whole coordinator
    #[arg(long, default_value = "", hide_default_value = true, value_name = "SERVICE")]
    service: String,
    /// Also exit with 1 if the store refuses writes
    #[arg(long)]
    writable: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Health {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let client = context.anonymous_client()?.with_retry(Retry::none());
        let address = client.address();
        let is_serving = client.is_serving(&self.service).await?;
        // Other programs that answer health checks do not know this service.
        let is_writable = client.is_serving("writes").await.unwrap_or(is_serving);
        if self.output.json {
            show::line(&serde_json::json!({ "serving": is_serving, "writable": is_writable, "address": address }));
        } else if is_serving && is_writable {
            anstream::println!("The coordinator at {address} is serving.");
        } else if is_serving && !self.writable {
            anstream::println!(
                "The coordinator at {address} is serving, but its store refuses writes: messages can be read, but not sent. Its \
                 log says why."
            );
        }
        let wrong = match (is_serving, is_writable) {
            (true, true) => return Ok(()),
            (true, false) if !self.writable => return Ok(()),
            (true, false) => "is serving, but its store refuses writes. Its log says why.",
            (false, _) => "is not serving. Its store does not answer, or it is draining; see its log.",
        };
        Err(Failure::with_code(REFUSED, format!("The coordinator at {address} {wrong}")))
    }
}
