//! What a waiting subscriber costs: memory and CPU time of the coordinator's process.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use teamwire_client::{Client, Event, SubscribeOptions, Subscription};
use tokio::time::sleep;

use super::row;
use crate::{
    Bench, Result, Store,
    candidate::{
        Candidate,
        grpc::{Members, start_null_server},
    },
    process::{Coordinator, Process, Scratch, connections_max},
    report::Report,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "idle";

/// The number of members in a team.
const TEAM: usize = 200;

/// How many subscribers share a connection in the second case. The limit is 64 streams.
const SHARING: usize = 50;

/// How many streams to open, and teams to create, concurrently.
const AT_ONCE: usize = 32;

/// How many files this process may have open besides the connections to one candidate.
const OTHER_FILES: usize = 256;

/// The least time to observe: two heartbeats, which come every 10 s.
const OBSERVED_MIN: Duration = Duration::from_secs(20);

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let candidates: Vec<_> = [Candidate::NullServer(None)]
        .into_iter()
        .chain(bench.stores.iter().map(|store| Candidate::Teamwire(*store)))
        .collect();
    for (sharing, how) in [(1, "one connection each".to_owned()), (SHARING, format!("{SHARING} per connection"))] {
        let (case, streams) = (format!("{} subscribers, {how}", bench.streams), bench.streams as f64);
        for _ in 0..bench.runs {
            let observed = candidates.iter().map(|candidate| async move {
                match candidate {
                    Candidate::Teamwire(store) => of_teamwire(bench, *store, sharing).await,
                    _ => of_null_server(bench, sharing).await,
                }
            });
            // Candidates run side by side, since idle ones don't disturb each other: as many as this process may have
            // connections for.
            let at_once = (connections_max()? / (bench.streams + OTHER_FILES)).max(1);
            let observed: Vec<_> = stream::iter(observed).buffered(at_once).try_collect().await?;
            for (candidate, [resident, cpu]) in candidates.iter().zip(observed) {
                report.add(
                    NAME,
                    &case,
                    row(*candidate),
                    &[
                        ("KiB each", resident / 1024.0 / streams),
                        ("MiB for all", resident / 1024.0 / 1024.0),
                        ("CPU µs/s each", cpu * 1e6 / streams),
                        ("% of a processor", cpu * 100.0),
                    ],
                );
            }
        }
    }
    Ok(())
}

async fn of_teamwire(bench: &Bench, store: Store, sharing: usize) -> Result<[f64; 2]> {
    let scratch = Scratch::prepare(&bench.directory, Some(store)).await?;
    let mut coordinator = Coordinator::start(&bench.teamwire, scratch.directory(), &scratch.url).await?;
    let team = |team: usize| {
        let coordinator = &coordinator;
        async move {
            let members = Members::found(coordinator, &format!("bench-{team}")).await?;
            let mut credentials = Vec::new();
            for member in 0..TEAM.min(bench.streams - team * TEAM) {
                credentials.push(members.credential(&format!("member-{member}")).await?);
            }
            Result::Ok(credentials)
        }
    };
    let teams = stream::iter((0..bench.streams.div_ceil(TEAM)).map(team)).buffer_unordered(AT_ONCE);
    let credentials = teams.try_collect::<Vec<_>>().await?.concat();
    let address = coordinator.address().to_owned();
    observe(bench, &address, &credentials, sharing, coordinator.process()).await
}

async fn of_null_server(bench: &Bench, sharing: usize) -> Result<[f64; 2]> {
    let scratch = Scratch::prepare(&bench.directory, None).await?;
    let (mut server, address) = start_null_server(scratch.directory(), "").await?;
    let credentials: Vec<_> = (0..bench.streams).map(|member| format!("member-{member}")).collect();
    observe(bench, &address, &credentials, sharing, &mut server).await
}

/// Opens a stream for each credential. Returns the memory that the streams take, in bytes, and the fraction of a processor that
/// it takes to keep them open.
async fn observe(
    bench: &Bench,
    address: &str,
    credentials: &[String],
    sharing: usize,
    process: &mut Process,
) -> Result<[f64; 2]> {
    let before = process.usage()?;
    let mut clients = Vec::new();
    for group in credentials.chunks(sharing) {
        let connection = Client::connect(address)?;
        for credential in group {
            clients.push(connection.with_credential(credential)?);
        }
    }
    let opening = stream::iter(clients).map(open).buffer_unordered(AT_ONCE);
    let subscriptions: Vec<Subscription> = opening.try_collect().await?;
    // Lets the work of opening them settle.
    sleep(Duration::from_secs(3)).await;
    let opened = process.usage()?;
    let observed = bench.pace.length.max(OBSERVED_MIN);
    sleep(observed).await;
    let after = process.usage()?;
    drop(subscriptions);
    let resident = after.resident.saturating_sub(before.resident);
    Ok([resident as f64, (after.cpu - opened.cpu).as_secs_f64() / observed.as_secs_f64()])
}

async fn open(client: Client) -> Result<Subscription> {
    let mut subscription = client.subscribe(SubscribeOptions::default());
    match subscription.next().await {
        Some(Ok(Event::Opened(_))) => Ok(subscription),
        other => Err(format!("a subscription did not open: {other:?}").into()),
    }
}
