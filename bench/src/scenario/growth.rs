//! Whether a send costs more with many teams, or with many queued messages.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use teamwire_client::{Client, message};

use super::{queue, row, send_all, turns};
use crate::{
    Bench, Result, Store,
    candidate::{
        Candidate, Mail, SUMMARY, Shape,
        grpc::{Members, Team},
        inbox_name,
    },
    measure::{Measurement, at_ends, closed_loop, stamped},
    process::{Coordinator, Scratch},
    report::{Report, Row},
    section::SectionLayout,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "growth";

/// The smaller number of teams and of messages.
const FEW: usize = 10;

const CALLERS: usize = 64;

/// How many teams to create concurrently.
const AT_ONCE: usize = 32;

/// What the page shows of it.
pub(super) const VIEW: SectionLayout = SectionLayout {
    columns: &[("server CPU µs", "", "server CPU µs each"), ("sends/s", "", "sends/s"), ("p50 ms", "", "p50 ms")],
    compared: "",
    only_compared: true,
};

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let with =
        |many: usize| bench.stores.iter().flat_map(move |store| [(*store, FEW), (*store, many)]).collect::<Vec<_>>();
    for (store, teams) in turns(bench, &with(bench.teams)) {
        bench.quiet.wait().await?;
        let (sent, cpu) = to_teams(bench, store, teams).await?;
        add(report, "teams", store, teams, &sent, cpu);
    }
    for (store, queued) in turns(bench, &with(usize::try_from(bench.waiting)?)) {
        bench.quiet.wait().await?;
        let (sent, cpu) = to_full_inbox(bench, store, queued).await?;
        add(report, "queued messages", store, queued, &sent, cpu);
    }
    Ok(())
}

/// Adds a run. The baseline of many is few.
fn add(report: &mut Report, what: &str, store: Store, many: usize, sent: &Measurement, cpu: f64) {
    let own = row(Candidate::Teamwire(store));
    let name = |many: usize| format!("{}, {many} {what}", own.name);
    let baselines = if many == FEW { Vec::new() } else { vec![name(FEW)] };
    let case = format!("{CALLERS} callers, few and many {what}");
    report.add(
        &case,
        Row { name: name(many), baselines, ..own.clone() },
        // CPU time first, because it hardly depends on the load of the machine.
        &[("server CPU µs each", cpu), ("sends/s", sent.per_second()), ("p50 ms", sent.percentile_ms(50.0))],
    );
}

/// Sends to the inboxes of all teams in turn.
async fn to_teams(bench: &Bench, store: Store, teams: usize) -> Result<(Measurement, f64)> {
    let scratch = Scratch::prepare(&bench.directory, Some(store)).await?;
    let coordinator = Coordinator::start(&bench.teamwire, scratch.directory(), &scratch.url).await?;
    let shape = Shape { callers: CALLERS, inboxes: 1 };
    let connections: Vec<_> = (0..shape.connections())
        .map(|_| Client::connect(coordinator.address()))
        .collect::<std::result::Result<_, _>>()?;
    let entrance = Client::connect(coordinator.address())?;
    let found = |team: usize| {
        let (coordinator, entrance, connection) = (&coordinator, &entrance, &connections[team % connections.len()]);
        async move {
            let members = Members::found_through(entrance.clone(), coordinator, &format!("bench-{team}")).await?;
            members.credential(&inbox_name(0)).await?;
            Result::Ok(connection.with_credential(&members.credential("sender").await?)?)
        }
    };
    let senders: Vec<Client> = stream::iter((0..teams).map(found)).buffer_unordered(AT_ONCE).try_collect().await?;
    // The first send of a team fills caches, and is not measured.
    let first =
        senders.iter().map(|sender| sender.send(message::direct(inbox_name(0), SUMMARY, stamped(Instant::now()))));
    stream::iter(first).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    let (senders, turn) = (Arc::new(senders), Arc::new(AtomicUsize::new(0)));
    let cpu = || Result::Ok(coordinator.usage()?.cpu + scratch.cpu()?.unwrap_or_default());
    let window = bench.pace.window();
    let sending = closed_loop(CALLERS, window, move |_| {
        let (senders, turn) = (senders.clone(), turn.fetch_add(1, Relaxed));
        async move {
            let sender = &senders[turn % senders.len()];
            sender.send(message::direct(inbox_name(0), SUMMARY, stamped(Instant::now()))).await?;
            Ok(())
        }
    });
    let (sent, (before, after)) = tokio::try_join!(sending, at_ends(window, cpu))?;
    let each = (after - before).as_secs_f64() * 1e6 / sent.calls() as f64;
    Ok((sent, each))
}

/// Sends to an inbox with queued messages.
async fn to_full_inbox(bench: &Bench, store: Store, queued: usize) -> Result<(Measurement, f64)> {
    let shape = Shape { callers: CALLERS, inboxes: 1 };
    let mail: Arc<dyn Mail> = Arc::new(Team::of_teamwire(bench, store, shape).await?);
    queue(&mail, u64::try_from(queued)?).await?;
    let sent = send_all(&mail, shape, bench.pace.window()).await?;
    let used = sent.cpu.1.server.unwrap_or_default() - sent.cpu.0.server.unwrap_or_default();
    let each = used.as_secs_f64() * 1e6 / sent.calls.calls() as f64;
    Ok((sent.calls, each))
}
