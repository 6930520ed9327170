//! Sending and receiving, compared with what could replace teamwire.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{check_running, receive_all, row, send_all, send_at, turns};
use crate::{
    Bench, Result, Store,
    candidate::{Candidate, Shape},
    fetch::Program,
    measure::Arrivals,
    report::{Figure, Report, Row},
    section::SectionLayout,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "peers";

/// The number of concurrent callers.
const CALLERS: usize = 64;

/// Messages per second when measuring latency.
const RATE: f64 = 20.0;

/// How long receivers get to connect.
const SETTLING: Duration = Duration::from_millis(200);

/// What the page shows of it.
pub(super) const VIEW: SectionLayout = SectionLayout {
    columns: &[
        ("1 inbox: received/s", "1 inbox,", "received/s"),
        ("sent/s", "1 inbox,", "sent/s"),
        ("100 inboxes: received/s", "100 inboxes,", "received/s"),
        ("client CPU µs", "100 inboxes,", "client CPU µs each"),
        ("server CPU µs", "100 inboxes,", "server CPU µs each"),
        ("20 a second: p50 ms", "a second", "p50 ms"),
        ("p99 ms", "a second", "p99 ms"),
    ],
    compared: "100 inboxes,",
    only_compared: false,
};

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let mut candidates: Vec<_> =
        bench.stores.iter().flat_map(|store| [Candidate::Teamwire(*store), Candidate::TeamwireCalls(*store)]).collect();
    candidates.extend(
        bench.stores.iter().filter(|store| store.append_fsync().is_some()).map(|store| Candidate::StoreOnly(*store)),
    );
    let others = [
        (Candidate::Nats(true), Program::Nats),
        (Candidate::Nats(false), Program::Nats),
        (Candidate::Rabbit(true), Program::Rabbit),
        (Candidate::Rabbit(false), Program::Rabbit),
    ];
    for (candidate, program) in others {
        match program.find() {
            Ok(_) => candidates.push(candidate),
            Err(why) => report.add_absent(candidate.to_string(), why),
        }
    }
    candidates.push(Candidate::File);
    let peer = |candidate: Candidate| match candidate {
        // Compared with peers whose OK guarantees as much about the disk.
        Candidate::Teamwire(store) | Candidate::TeamwireCalls(store) => {
            let by_hand = by_hand(if store == Store::Embedded { Store::RedisAlways } else { store });
            let is_flushed = store != Store::RedisEverysec;
            let others = [Candidate::Nats(is_flushed), Candidate::Rabbit(is_flushed)].map(|other| other.to_string());
            Row { baselines: [by_hand].into_iter().chain(others).collect(), ..row(candidate) }
        }
        Candidate::StoreOnly(store) => Row { name: by_hand(store), ..row(candidate) },
        _ => row(candidate),
    };
    for inboxes in [1, 100] {
        for candidate in turns(bench, &candidates) {
            report.add(&case(inboxes), peer(candidate), &receive_and_acknowledge(bench, candidate, inboxes).await?);
        }
    }
    let shape = Shape { callers: 1, inboxes: 1 };
    let case = format!("{RATE} messages a second, from when a send was due to the receiver");
    for candidate in turns(bench, &candidates) {
        bench.quiet.wait().await?;
        let mail = candidate.open(bench, shape).await?;
        let arrivals = Arc::new(Arrivals::default());
        let mut receiving = receive_all(&mail, shape, &arrivals);
        sleep(SETTLING).await;
        let window = bench.pace.for_low_rates().window();
        send_at(&mail, shape, window, RATE).await?;
        check_running(&mut receiving)?;
        let arrived = arrivals.within(window)?;
        let figures = [("p50 ms", arrived.percentile_ms(50.0)), ("p99 ms", arrived.percentile_ms(99.0))];
        report.add(&case, peer(candidate), &figures);
        // It polls twice a second, which would dwarf the others in a plot.
        if candidate != Candidate::File {
            report.add_latencies(&case, &peer(candidate).name, &arrived)?;
        }
    }
    Ok(())
}

/// Names the case of a number of inboxes.
pub(super) fn case(inboxes: usize) -> String {
    let noun = if inboxes == 1 { "inbox" } else { "inboxes" };
    format!("{CALLERS} callers, {inboxes} {noun}, all received and acknowledged")
}

/// Measures a run with a number of inboxes.
pub(super) async fn receive_and_acknowledge(
    bench: &Bench,
    candidate: Candidate,
    inboxes: usize,
) -> Result<Vec<Figure>> {
    let shape = Shape { callers: CALLERS, inboxes };
    bench.quiet.wait().await?;
    let mail = candidate.open(bench, shape).await?;
    let arrivals = Arc::new(Arrivals::default());
    let mut receiving = receive_all(&mail, shape, &arrivals);
    sleep(SETTLING).await;
    let sent = send_all(&mail, shape, bench.pace.window()).await?;
    check_running(&mut receiving)?;
    let received = arrivals.within(sent.calls.window)?;
    let mut figures = vec![
        ("received/s", received.per_second()),
        ("sent/s", sent.calls.per_second()),
        ("send p50 ms", sent.calls.percentile_ms(50.0)),
    ];
    figures.extend(sent.cpu_each(received.calls()));
    Ok(figures)
}

fn by_hand(store: Store) -> String {
    format!("Redis streams by hand, {}", store.append_fsync().unwrap_or_default())
}
