//! `teamwire interrupt`: ends the turn of an agent, and tells it something.

use clap::Args;
use teamwire_client::message;

use super::Output;
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// What the agent reads if nothing else is given.
const STOP: &str = "Stop what you are doing. Wait for a message that says how to go on.";

/// End an agent's turn now, and tell it what to do instead
///
/// The member's runner ends the turn that its agent program is in, with the tool call that is running, and hands the
/// agent this text before the messages that wait. What the turn took counts as processed: the agent does not begin it
/// again by itself. If the agent is idle, it simply gets the text. Only the lead and the operator may do this. A member
/// that has 64 unacknowledged messages in hand gets it when its turn ends. A program that speaks the line protocol gets
/// a message with `"interrupt": true`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire interrupt backend\n    teamwire interrupt backend --with \"Leave the tests alone and fix the build first.\""
)]
pub(super) struct Interrupt {
    /// The member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// What the agent reads next
    #[arg(long = "with", value_name = "TEXT", default_value = STOP)]
    text: String,
    #[command(flatten)]
    pub output: Output,
}

impl Interrupt {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let reply = caller.client.send(message::interrupt(&self.member, &self.text)).await?;
        if self.output.json {
            show::line(&show::json("SendResponse", &reply));
            return Ok(());
        }
        anstream::println!("{} ends its turn, and reads this next: {}", self.member, show::one_line(&self.text));
        reply.warnings.iter().for_each(|warning| show::warn(warning));
        Ok(())
    }
}
