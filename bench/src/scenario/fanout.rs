//! A broadcast to many subscribers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use teamwire_client::message;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{check_running, row, turns};
use crate::{
    Bench, Result,
    candidate::{
        Candidate, SUMMARY, Shape,
        grpc::{Team, receive},
    },
    measure::{Arrivals, stamped},
    report::{Figure, Report},
    section::SectionLayout,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "fanout";

/// The numbers of subscribers. The configuration allows 1,000 members, with the lead and the sender.
const MEMBERS: [usize; 3] = [10, 100, 998];

/// The number of broadcasts in a run, and in a check; and the pause between them.
const BROADCASTS: u32 = 10;
const QUICK: u32 = 2;
const PAUSE: Duration = Duration::from_millis(100);

/// The pause after all subscribers have connected.
const SETTLING: Duration = Duration::from_millis(500);

/// How long a broadcast, or the connecting of all subscribers, may take. Reached only if something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the page shows of it.
pub(super) const VIEW: SectionLayout = SectionLayout {
    columns: &[
        ("10 subscribers: call to last ms", "10 subscribers", "call to last ms"),
        ("100 subscribers", "100 subscribers", "call to last ms"),
        ("998 subscribers", "998 subscribers", "call to last ms"),
        ("998: call to OK ms", "998 subscribers", "call to OK ms"),
        ("deliveries/s", "998 subscribers", "deliveries/s"),
    ],
    compared: "998 subscribers",
    only_compared: false,
};

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let mut candidates = vec![Candidate::NullServer(None)];
    for store in &bench.stores {
        candidates.extend([Candidate::NullServer(Some(*store)), Candidate::Teamwire(*store)]);
    }
    for members in MEMBERS.into_iter().filter(|members| !bench.is_quick || *members == MEMBERS[0]) {
        for candidate in turns(bench, &candidates) {
            report.add(&case(members), row(candidate), &to_subscribers(bench, candidate, members).await?);
        }
    }
    Ok(())
}

/// Names the case of a number of subscribers.
pub(super) fn case(members: usize) -> String {
    format!("{members} subscribers")
}

/// Measures a run with a number of subscribers.
pub(super) async fn to_subscribers(bench: &Bench, candidate: Candidate, members: usize) -> Result<Vec<Figure>> {
    let shape = Shape { callers: 1, inboxes: members };
    bench.quiet.wait().await?;
    let team = match candidate {
        Candidate::Teamwire(store) => Team::of_teamwire(bench, store, shape).await?,
        Candidate::NullServer(store) => Team::of_null_server(bench, store, false, shape).await?,
        Candidate::NullServerWithAcks(store) => Team::of_null_server(bench, Some(store), true, shape).await?,
        other => return Err(format!("{other} has no broadcasts").into()),
    };
    let Times { all, first, confirmed, opening, losses } =
        broadcast(&team, if bench.is_quick { QUICK } else { BROADCASTS }).await?;
    Ok(vec![
        ("call to last ms", all),
        ("first to last ms", all - first),
        ("call to first ms", first),
        ("call to OK ms", confirmed),
        ("deliveries/s", members as f64 * 1e3 / all),
        ("s until all connected", opening),
        ("sessions lost", losses as f64),
    ])
}

/// What a run measures. Times are medians, in milliseconds from the call.
struct Times {
    /// To the last delivery.
    all: f64,
    /// To the first delivery.
    first: f64,
    /// To the reply.
    confirmed: f64,
    /// Until all subscribers, who come at once, have connected, in seconds.
    opening: f64,
    /// How many sessions were lost and reopened.
    losses: u64,
}

/// Measures some broadcasts.
async fn broadcast(team: &Team, broadcasts: u32) -> Result<Times> {
    let began = Instant::now();
    let arrivals = Arc::new(Arrivals::default());
    let mut receiving = JoinSet::new();
    for inbox in &team.inboxes {
        receiving.spawn(receive(inbox.clone(), u64::MAX, arrivals.clone()));
    }
    let (mut lasts, mut firsts, mut confirmations) = (Vec::new(), Vec::new(), Vec::new());
    let members = u64::try_from(team.inboxes.len())?;
    let ms = |from: Instant, to: Instant| (to - from).as_secs_f64() * 1e3;
    let opening = timeout(PATIENCE, arrivals.reach_receivers(members)).await;
    check_running(&mut receiving)?;
    opening.map_err(|_| "some sessions did not open")??;
    let opening = began.elapsed().as_secs_f64();
    sleep(SETTLING).await;
    // The first two warm up.
    for number in 0..broadcasts + 2 {
        let called = Instant::now();
        let sent = team.senders[0].send(message::broadcast(SUMMARY, stamped(called))).await?;
        let confirmed = Instant::now();
        // A coordinator also counts the lead, which reads nothing.
        if u64::try_from(sent.recipients.len())? < members {
            return Err(format!("a broadcast went to {} of {members} members", sent.recipients.len()).into());
        }
        let reached = timeout(PATIENCE, arrivals.reach(members)).await;
        check_running(&mut receiving)?;
        reached.map_err(|_| "a broadcast did not reach all")??;
        let (first, last) = arrivals.take_span().ok_or("nothing arrived")?;
        if number >= 2 {
            lasts.push(ms(called, last));
            firsts.push(ms(called, first));
            confirmations.push(ms(called, confirmed));
        }
        sleep(PAUSE).await;
    }
    let losses = arrivals.losses();
    Ok(Times { all: median(lasts), first: median(firsts), confirmed: median(confirmations), opening, losses })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
