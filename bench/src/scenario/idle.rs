//! What a waiting subscriber costs: memory and CPU time of the coordinator's process.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use teamwire_client::{Client, Event, SubscribeOptions, Subscription};
use tokio::time::{Instant, sleep, sleep_until};

use super::{row, turns};
use crate::{
    Bench, Result, Store,
    candidate::{
        Candidate,
        grpc::{Members, start_null_server},
    },
    process::{Coordinator, Process, Scratch, connections_max},
    report::Report,
    section::SectionLayout,
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

/// Over how long streams are opened: two heartbeats, and one ping. Servers that get all streams in a burst also send their
/// heartbeats and pings in bursts, which costs less.
const OPENING: Duration = Duration::from_secs(20);

/// How long opened streams get to settle, and the least time to observe them: two heartbeats, which come every 10 s.
const SETTLING: Duration = Duration::from_secs(3);
const OBSERVED_MIN: Duration = Duration::from_secs(20);

/// The same for a check.
const QUICK: Duration = Duration::from_millis(300);

/// What the page shows of it.
pub(super) const VIEW: SectionLayout = SectionLayout {
    columns: &[
        ("one connection each: KiB", "one connection", "KiB each"),
        ("% of a processor for all", "one connection", "% of a processor"),
        ("50 per connection: KiB", "per connection", "KiB each"),
        ("% of a processor for all", "per connection", "% of a processor"),
    ],
    compared: "one connection",
    only_compared: false,
};

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let of_stores = bench.stores.iter().map(|store| Candidate::Teamwire(*store));
    let candidates: Vec<_> = [Candidate::NullServer(None)].into_iter().chain(of_stores).collect();
    for (sharing, how) in [(1, "one connection each".to_owned()), (SHARING, format!("{SHARING} per connection"))] {
        let (case, streams) = (format!("{} subscribers, {how}", bench.streams), bench.streams as f64);
        // Candidates run side by side, since idle ones don't disturb each other: as many as this process may have
        // connections for.
        let at_once = (connections_max()? / (bench.streams + OTHER_FILES)).clamp(1, candidates.len());
        for group in turns(bench, &candidates).chunks(at_once) {
            bench.quiet.wait().await?;
            let observed = group.iter().map(|candidate| async move {
                match candidate {
                    Candidate::Teamwire(store) => of_teamwire(bench, *store, sharing).await,
                    _ => of_null_server(bench, sharing).await,
                }
            });
            let observed: Vec<_> = stream::iter(observed).buffered(at_once).try_collect().await?;
            for (candidate, idle) in group.iter().zip(observed) {
                let kib = |bytes: u64| bytes as f64 / 1024.0;
                report.add(
                    &case,
                    row(*candidate),
                    &[
                        ("KiB each", kib(idle.resident) / streams),
                        ("of which KiB for its member", kib(idle.members) / streams),
                        ("MiB for all", kib(idle.resident) / 1024.0),
                        ("CPU µs/s each", idle.cpu * 1e6 / streams),
                        ("% of a processor", idle.cpu * 100.0),
                    ],
                );
            }
        }
    }
    Ok(())
}

/// What all subscribers cost.
struct Idle {
    /// The memory that they take, in bytes: all that the process has grown by since it served one subscriber.
    resident: u64,
    /// What of it their members took before any stream was open.
    members: u64,
    /// The fraction of a processor that it takes to keep their streams open.
    cpu: f64,
}

async fn of_teamwire(bench: &Bench, store: Store, sharing: usize) -> Result<Idle> {
    let scratch = Scratch::prepare(&bench.directory, Some(store)).await?;
    let mut coordinator = Coordinator::start(&bench.teamwire, scratch.directory(), &scratch.url).await?;
    let address = coordinator.address().to_owned();
    let first = Members::found(&coordinator, "first").await?.credential("member").await?;
    serve_one(bench, &address, &first).await?;
    let before = coordinator.usage()?.resident;
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
    observe(bench, &address, &credentials, sharing, coordinator.process(), before).await
}

async fn of_null_server(bench: &Bench, sharing: usize) -> Result<Idle> {
    let scratch = Scratch::prepare(&bench.directory, None).await?;
    let (server, address) = start_null_server(scratch.directory(), "", false).await?;
    serve_one(bench, &address, "first").await?;
    let before = server.usage()?.resident;
    // It knows no members: a name is a credential.
    let credentials: Vec<_> = (0..bench.streams).map(|member| format!("member-{member}")).collect();
    observe(bench, &address, &credentials, sharing, &server, before).await
}

/// Opens a stream and closes it. What a server sets up for its first client is not a cost of each subscriber.
async fn serve_one(bench: &Bench, address: &str, credential: &str) -> Result<()> {
    drop(open(Client::connect(address)?.with_credential(credential)?).await?);
    sleep(settling(bench)).await;
    Ok(())
}

/// Opens a stream for each credential, and observes them. `before`: the memory of the process before it had their
/// members.
async fn observe(
    bench: &Bench,
    address: &str,
    credentials: &[String],
    sharing: usize,
    process: &Process,
    before: u64,
) -> Result<Idle> {
    let joined = process.usage()?.resident;
    let mut clients = Vec::new();
    for group in credentials.chunks(sharing) {
        let connection = Client::connect(address)?;
        for credential in group {
            clients.push(connection.with_credential(credential)?);
        }
    }
    let (began, count) = (Instant::now(), clients.len() as f64);
    let opening = stream::iter(clients.into_iter().enumerate()).map(|(n, client)| async move {
        if !bench.is_quick {
            sleep_until(began + OPENING.mul_f64(n as f64 / count)).await;
        }
        open(client).await
    });
    let opening = opening.buffer_unordered(AT_ONCE);
    let subscriptions: Vec<Subscription> = opening.try_collect().await?;
    sleep(settling(bench)).await;
    let opened = process.usage()?;
    let observed = if bench.is_quick { QUICK } else { bench.pace.length.max(OBSERVED_MIN) };
    sleep(observed).await;
    let after = process.usage()?;
    drop(subscriptions);
    Ok(Idle {
        resident: after.resident.saturating_sub(before),
        members: joined.saturating_sub(before),
        cpu: (after.cpu - opened.cpu).as_secs_f64() / observed.as_secs_f64(),
    })
}

fn settling(bench: &Bench) -> Duration {
    if bench.is_quick { QUICK } else { SETTLING }
}

async fn open(client: Client) -> Result<Subscription> {
    let mut subscription = client.subscribe(SubscribeOptions::default());
    match subscription.next().await {
        Some(Ok(Event::Opened(_))) => Ok(subscription),
        other => Err(format!("a subscription did not open: {other:?}").into()),
    }
}
