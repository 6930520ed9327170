//! `teamwire last`: shows what a member's program wrote at the end of its last turn.

use clap::Args;
use teamwire_client::v1;

use super::Output;
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// Show what an agent wrote at the end of its last turn
///
/// An agent's report may be plain text that no one has received as a message. The coordinator keeps the last turn of each
/// member: its text (up to 16 KiB; of a longer one, the beginning and the end), how long it took, what it used, and the
/// files that its tools changed. Only the lead, the operator and the member itself may read it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire last backend\n    teamwire last backend --json")]
pub(super) struct Last {
    /// The member
    #[arg(value_name = "MEMBER")]
    member: String,
    #[command(flatten)]
    pub output: Output,
}

impl Last {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let request = v1::GetLastTurnRequest { member: self.member.clone(), ..v1::GetLastTurnRequest::default() };
        match caller.client.get_last_turn(request).await?.turn {
            Some(turn) if self.output.json => show::line(&show::json("TurnEnded", &turn)),
            Some(turn) => show::turn(&self.member, &turn),
            None if self.output.json => {}
            None => anstream::eprintln!(
                "No turn of {} has ended yet. `teamwire logs {}` shows what its program does.",
                self.member,
                self.member
            ),
        }
        Ok(())
    }
}
