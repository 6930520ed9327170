//! What the work of an acknowledgement costs any server: teamwire beside a null server that stores acknowledgements, and
//! beside a store whose reader writes receipts. Neither applies rules.

use super::{drain, fanout, peers, row, turns};
use crate::{
    Bench, Result, Store,
    candidate::Candidate::{
        self, NullServer, NullServerWithAcks, Rabbit, StoreOnly, StoreOnlyWithReceipts, Teamwire, TeamwireCalls,
    },
    fetch::Program,
    report::{Report, Row},
};

/// Its name on the command line.
pub(crate) const NAME: &str = "floors";

/// The number of inboxes and of the subscribers of a broadcast.
const INBOXES: usize = 100;
const SUBSCRIBERS: usize = 998;

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    Program::Rabbit.find()?;
    for store in bench.stores.iter().copied() {
        let beside = |candidate: Candidate, baselines: &[Candidate]| {
            let baselines = baselines.iter().filter(|baseline| **baseline != candidate).map(ToString::to_string);
            Row { baselines: baselines.collect(), ..row(candidate) }
        };
        let with_acks = NullServerWithAcks(store);
        let baselines = [with_acks, Rabbit(store != Store::RedisEverysec)];
        for candidate in
            turns(bench, &[baselines[1], with_acks, NullServer(Some(store)), TeamwireCalls(store), Teamwire(store)])
        {
            let figures = peers::receive_and_acknowledge(bench, candidate, INBOXES).await?;
            report.add(&format!("{}, {store}", peers::case(INBOXES)), beside(candidate, &baselines), &figures);
        }
        for candidate in turns(bench, &[with_acks, NullServer(Some(store)), Teamwire(store)]) {
            let figures = fanout::to_subscribers(bench, candidate, SUBSCRIBERS).await?;
            report.add(&format!("{}, {store}", fanout::case(SUBSCRIBERS)), beside(candidate, &[with_acks]), &figures);
        }
        if store == Store::Embedded {
            continue;
        }
        let with_receipts = StoreOnlyWithReceipts(store);
        for candidate in turns(bench, &[with_receipts, StoreOnly(store), Teamwire(store)]) {
            let figures = drain::empty(bench, candidate).await?;
            report.add(&format!("{}, {store}", drain::case(bench)), beside(candidate, &[with_receipts]), &figures);
        }
    }
    Ok(())
}
