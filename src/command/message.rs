//! `teamwire message`: shows one message and its receipts.

use clap::{Args, Subcommand};
use teamwire_client::v1;

use super::{Output, id};
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// Show a message and what happened to it
#[derive(Debug, Subcommand)]
pub(super) enum Message {
    /// Show a message and its receipt for each recipient, with timestamps
    Show(Show),
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire message show last")]
pub(super) struct Show {
    /// The message: its id, the beginning or end of its id, or `last`: the newest one that you sent or received,
    /// notices aside
    id: String,
    #[command(flatten)]
    output: Output,
}

impl Message {
    pub(super) async fn run(self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        match self {
            Self::Show(command) => (command.run(context).await, command.output.json),
        }
    }
}

impl Show {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let message_id = id::message(&caller, &self.id, id::Last::SentOrReceived).await?;
        let request = v1::GetMessageRequest { message_id, ..v1::GetMessageRequest::default() };
        let reply = caller.client.get_message(request).await?;
        let message = reply.message.ok_or_else(show::incomplete)?;
        if self.output.json {
            let receipts: Vec<_> = reply.receipts.iter().map(|receipt| show::json("Receipt", receipt)).collect();
            show::line(
                &serde_json::json!({ "message": teamwire_client::dialect::write(&message), "receipts": receipts }),
            );
        } else {
            show::message(&message, &reply.receipts);
        }
        Ok(())
    }
}
