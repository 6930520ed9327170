//! From the restart after `kill -9` to the first delivery.

use std::time::Instant;

use teamwire_client::{Client, Event, SubscribeOptions};

use super::{
    row,
    start::{filled, ms},
    turns,
};
use crate::{Bench, Result, candidate::Candidate, report::Report, section::SectionLayout};

/// Its name on the command line.
pub(crate) const NAME: &str = "recovery";

/// What the page shows of it.
pub(super) const VIEW: SectionLayout =
    SectionLayout { columns: &[("ms", "", "ms")], compared: "", only_compared: false };

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let case = format!("{} messages queued; from the restart to the first delivery", bench.queued);
    for store in turns(bench, &bench.stores) {
        bench.quiet.wait().await?;
        let mut team = filled(bench, store).await?;
        // Kill it while a subscriber reads the inbox.
        first_delivery(&team.inboxes[0]).await?;
        let inbox = team.inboxes[0].clone();
        let coordinator = team.coordinator.as_mut().ok_or("no coordinator")?;
        coordinator.process().kill()?;
        let began = Instant::now();
        coordinator.restart()?;
        // The client dials, fails and retries as in production.
        first_delivery(&inbox).await?;
        let delivered = ms(began);
        report.add(&case, row(Candidate::Teamwire(store)), &[("ms", delivered)]);
    }
    Ok(())
}

async fn first_delivery(client: &Client) -> Result<()> {
    let mut inbox = client.subscribe(SubscribeOptions::default());
    loop {
        match inbox.next().await.ok_or("a subscription ended")?? {
            Event::Delivery(_) => return Ok(()),
            Event::Opened(_) | Event::Lost { .. } => {}
            other => return Err(format!("an unexpected event of a subscription: {other:?}").into()),
        }
    }
}
