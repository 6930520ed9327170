//! `teamwire health`: whether a coordinator can do its work.

use clap::Args;
use teamwire_client::Retry;

use super::Output;
use crate::{
    context::ContextArgs,
    failure::{Failure, REFUSED},
    show,
};

/// Ask whether a coordinator can do its work
///
/// Needs no credential and asks once, so that it can be the health check of a container. Exits with 0 when the
/// coordinator serves, 1 when it does not (its store is silent, or it is about to end), 69 when it cannot be reached.
#[derive(Args, Debug)]
pub struct Health {
    /// Ask for one service, such as teamwire.v1.MessageService, instead of all
    #[arg(long, default_value = "", hide_default_value = true, value_name = "SERVICE")]
    service: String,
    #[command(flatten)]
    pub output: Output,
}

impl Health {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let client = context.stranger()?.with_retry(Retry::none());
        let address = client.address();
        let is_serving = client.is_serving(&self.service).await?;
        if self.output.json {
            show::line(&serde_json::json!({ "serving": is_serving, "address": address }));
        } else if is_serving {
            anstream::println!("The coordinator at {address} serves.");
        }
        if is_serving {
            return Ok(());
        }
        let advice = "Its store is silent, or it is about to end; its log says which.";
        Err(Failure::with_code(REFUSED, format!("The coordinator at {address} does not serve. {advice}")))
    }
}
