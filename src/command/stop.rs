//! `teamwire stop` and `teamwire restart`: end, and start again, the coordinator that `teamwire up` started.

use clap::Args;

use super::{
    Output,
    up::{
        background::STOP_GRACE,
        coordinator,
        records::{CoordinatorRecord, Listens, Records},
        report::{Outcome, Report},
    },
};
use crate::{
    context::{ContextArgs, refuse_within_runner},
    failure::{Failure, REFUSED},
};

/// Stop the coordinator that `teamwire up` started
///
/// Its teams stay, with their messages and tasks. Members on this and other machines keep running, and wait until it is
/// back. To start it again: `teamwire restart`, or `teamwire up`. To end a team: `teamwire down`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire stop && teamwire restart")]
pub(super) struct Stop {
    #[command(flatten)]
    pub output: Output,
}

/// Restart the coordinator that `teamwire up` started
///
/// For example after an upgrade of teamwire. Starts it if it has stopped. It listens where it did before. Members on
/// this and other machines keep running, and reconnect by themselves.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire restart\n    teamwire restart --local      # undoes `teamwire open`")]
pub(super) struct Restart {
    /// Close the coordinator to other machines, which `teamwire open` has admitted
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Stop {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        refuse_within_runner("A coordinator cannot be stopped here.")?;
        let (records, report) = (Records::of(context)?, Report { json: self.output.json });
        let _lock = records.lock()?;
        let record = last(&records)?;
        match stop(&record).await {
            true => {
                report.line("coordinator", &record.address, Outcome::Done, "Stopped the coordinator. Its teams stay.")
            }
            false => report.line("coordinator", &record.address, Outcome::Kept, "The coordinator has stopped already."),
        }
        Ok(())
    }
}

impl Restart {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        refuse_within_runner("A coordinator cannot be restarted here.")?;
        let (records, report) = (Records::of(context)?, Report { json: self.output.json });
        let _lock = records.lock()?;
        let record = last(&records)?;
        let has_stopped = stop(&record).await;
        let listens = match self.local {
            true => Listens { network: None, ..record.listens },
            false => record.listens,
        };
        let (address, started) = coordinator::start(context, &records, &listens).await?;
        let verb = if has_stopped { "Restarted" } else { "Started" };
        let text = format!("{verb} the coordinator at {address} (its log: {}).", started.log.display());
        report.line("coordinator", &address, Outcome::Done, &text);
        Ok(())
    }
}

/// Returns the coordinator that `up` started last.
pub(super) fn last(records: &Records) -> Result<CoordinatorRecord, Failure> {
    records.last_coordinator()?.ok_or_else(|| {
        Failure::with_code(
            REFUSED,
            "`teamwire up` has started no coordinator here. Stop one that `teamwire serve` runs where you started it: with Ctrl+C, \
             or with your service manager. `teamwire up` starts one together with a team.",
        )
    })
}

/// Ends a coordinator. Returns false if it has ended before.
pub(super) async fn stop(record: &CoordinatorRecord) -> bool {
    let was_running = record.process.is_alive();
    if was_running {
        record.process.end(STOP_GRACE).await;
    }
    was_running
}
