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

use super::{check_running, row};
use crate::{
    Bench, Result,
    candidate::{
        Candidate, SUMMARY, Shape,
        grpc::{Team, receive},
    },
    measure::{Arrivals, stamped},
    report::Report,
};

/// Its name.
pub(crate) const NAME: &str = "fanout";

/// How many there are who receive. A team may be told to have 1,000 members, with its lead and the sender.
const MEMBERS: [usize; 3] = [10, 100, 998];

/// How many broadcasts a run has, and how long there is nothing between them.
const BROADCASTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// How long everything is left alone once all are there.
const SETTLING: Duration = Duration::from_millis(500);

/// How long one may take, and all subscribers to be there. Never reached unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let mut candidates = vec![Candidate::NullServer(None)];
    for store in &bench.stores {
        candidates.extend([Candidate::NullServer(Some(*store)), Candidate::Teamwire(*store)]);
    }
    for members in MEMBERS.into_iter().filter(|members| !bench.is_quick || *members <= 100) {
        let shape = Shape { callers: 1, inboxes: members };
        for _ in 0..bench.runs {
            for candidate in &candidates {
                let team = match candidate {
                    Candidate::Teamwire(store) => Team::of_teamwire(bench, *store, shape).await?,
                    Candidate::NullServer(store) => Team::of_null_server(bench, *store, shape).await?,
                    _ => continue,
                };
                let Times { all, first, confirmed, opening, losses } = broadcast(&team).await?;
                report.add(
                    NAME,
                    &format!("{members} subscribers"),
                    row(*candidate),
                    &[
                        ("call to last ms", all),
                        ("first to last ms", all - first),
                        ("call to first ms", first),
                        ("call to OK ms", confirmed),
                        ("deliveries/s", members as f64 * 1e3 / all),
                        ("s until all are there", opening),
                        ("sessions lost", losses as f64),
                    ],
                );
            }
        }
    }
    Ok(())
}

/// Medians of the milliseconds from the call to the last delivery, to the first, and to the confirmation; how many seconds it
/// took until all subscribers were there, who came at once; and how many sessions were lost and opened again, then or later.
struct Times {
    all: f64,
    first: f64,
    confirmed: f64,
    opening: f64,
    losses: u64,
}

/// Broadcasts a few times.
async fn broadcast(team: &Team) -> Result<Times> {
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
    // The first ones warm up.
    for number in 0..BROADCASTS + 2 {
        let called = Instant::now();
        let sent = team.senders[0].send(message::broadcast(SUMMARY, stamped(called))).await?;
        let confirmed = Instant::now();
        // The lead of a team at a coordinator gets it as well, and reads nothing.
        if u64::try_from(sent.recipients.len())? < members {
            return Err(format!("{} of {members} were there", sent.recipients.len()).into());
        }
        let reached = timeout(PATIENCE, arrivals.reach(members)).await;
        check_running(&mut receiving)?;
        reached.map_err(|_| "a broadcast did not reach all")??;
        let (first, last) = arrivals.take_span().ok_or("nothing has arrived")?;
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
