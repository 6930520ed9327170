//! Sending and receiving in Python: teamwire's client compared with those of agent frameworks, each with its server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde::Deserialize;
use tokio::time::sleep;

use super::{row, turns};
use crate::{
    Bench, Result, Store,
    candidate::{
        Candidate, TEAM,
        grpc::{Members, start_null_server},
        inbox_name,
    },
    fetch::Program,
    measure::Measurement,
    process::{Coordinator, Process, Scratch, free_port},
    report::{Report, Row},
    section::SectionLayout,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "python";

/// The number of concurrent calls.
const CALLERS: usize = 64;

/// How long a driver may take in addition to its measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long receivers get to connect.
const SETTLING: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Peer {
    Teamwire(Store),
    /// The baseline of a client: its gRPC library, and the null server.
    Grpcio,
    Autogen,
    Slim,
}

/// What the page shows of it.
pub(super) const VIEW: SectionLayout = SectionLayout {
    columns: &[
        ("received/s", "", "received/s"),
        ("sent/s", "", "sent/s"),
        ("send p50 ms", "", "send p50 ms"),
        ("send p99 ms", "", "send p99 ms"),
    ],
    compared: "",
    only_compared: false,
};

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let teamwire = bench.stores.iter().map(|store| Peer::Teamwire(*store));
    let mut peers = Vec::new();
    // Baselines first, as in all scenarios.
    for peer in [Peer::Grpcio, Peer::Autogen, Peer::Slim].into_iter().chain(teamwire) {
        match peer.program().find() {
            Ok(_) => peers.push(peer),
            Err(why) => report.add_absent(peer.row().name, why),
        }
    }
    let case = format!("{CALLERS} calls at once in one process, received in another");
    for peer in turns(bench, &peers) {
        bench.quiet.wait().await?;
        let (sent, received) = measure(bench, peer).await?;
        let row = peer.row();
        let name = row.name.clone();
        report.add(
            &case,
            row,
            &[
                ("received/s", received),
                ("sent/s", sent.per_second()),
                ("send p50 ms", sent.percentile_ms(50.0)),
                ("send p99 ms", sent.percentile_ms(99.0)),
            ],
        );
        report.add_latencies(&case, &name, &sent)?;
    }
    Ok(())
}

impl Peer {
    fn program(self) -> Program {
        match self {
            Self::Teamwire(_) | Self::Grpcio => Program::TeamwirePython,
            Self::Autogen => Program::Autogen,
            Self::Slim => Program::Slim,
        }
    }

    fn script(self) -> PathBuf {
        let name = match self {
            Self::Teamwire(_) => "teamwire_client.py",
            Self::Grpcio => "grpcio.py",
            Self::Autogen => "autogen.py",
            Self::Slim => "slim.py",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
    }

    fn row(self) -> Row {
        let alone = |name: &str, promise| Row { name: name.to_owned(), promise, baselines: Vec::new() };
        match self {
            Self::Teamwire(store) => {
                let baselines = [Self::Grpcio, Self::Autogen, Self::Slim].map(|peer| peer.row().name).to_vec();
                Row { baselines, ..row(Candidate::Teamwire(store)) }
            }
            Self::Grpcio => alone("grpcio, null server", "nothing"),
            Self::Autogen => {
                alone("AutoGen 0.7.5, gRPC runtime", "the agent's handler has returned; nothing is stored")
            }
            Self::Slim => alone("AGNTCY SLIM 3.3.8", "the receiving app has it; nothing is stored"),
        }
    }

    /// Starts a driver in one of its roles.
    fn start(self, directory: &Path, part: &str, address: &str, more: &[String], credential: &str) -> Result<Process> {
        let mut command = Command::new(self.program().find()?);
        command.arg(self.script()).args([part, address]).args(more).env("BENCH_CREDENTIAL", credential);
        // No compiled files beside the scripts.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        Process::start(command, directory, part)
    }
}

/// What a sender prints at its end, in nanoseconds of the system's monotonic clock.
#[derive(Debug, Deserialize)]
struct Sent {
    begin: u64,
    end: u64,
    latencies: Vec<u64>,
}

/// Returns the measurement of sends, and the messages received per second in the same window.
async fn measure(bench: &Bench, peer: Peer) -> Result<(Measurement, f64)> {
    let scratch = match peer {
        Peer::Teamwire(store) => Scratch::prepare(&bench.directory, Some(store)).await?,
        _ => Scratch::prepare(&bench.directory, None).await?,
    };
    let directory = scratch.directory();
    match peer {
        Peer::Teamwire(_) => {
            let coordinator = Coordinator::start(&bench.teamwire, directory, &scratch.url).await?;
            let members = Members::found(&coordinator, TEAM).await?;
            let receiver = members.credential(&inbox_name(0)).await?;
            let sender = members.credential("sender-0").await?;
            load(bench, peer, directory, coordinator.address(), [&receiver, &sender]).await
        }
        Peer::Grpcio => {
            let (_server, address) = start_null_server(directory, "", false).await?;
            load(bench, peer, directory, &address, [&inbox_name(0), "sender-0"]).await
        }
        Peer::Autogen | Peer::Slim => {
            let port = free_port()?;
            let address = format!("127.0.0.1:{port}");
            let mut server = peer.start(directory, "serve", &address, &[], "")?;
            server.await_port(port).await?;
            load(bench, peer, directory, &address, ["", ""]).await
        }
    }
}

async fn load(
    bench: &Bench,
    peer: Peer,
    directory: &Path,
    address: &str,
    [receiver, sender]: [&str; 2],
) -> Result<(Measurement, f64)> {
    let mut receiving = peer.start(directory, "receive", address, &[], receiver)?;
    receiving.await_line("ready").await?;
    sleep(SETTLING).await;
    let pace = [bench.pace.warm_up, bench.pace.length].map(|pace| pace.as_secs_f64().to_string());
    let mut sending = peer.start(directory, "send", address, &[&[CALLERS.to_string()][..], &pace].concat(), sender)?;
    let sent = sending.await_line_within("sent ", bench.pace.warm_up + bench.pace.length + PATIENCE).await?;
    let sent: Sent = serde_json::from_str(sent.trim_start_matches("sent "))?;
    let log = fs::read_to_string(directory.join("receive.log"))?;
    let received = rate(&log, sent.begin, sent.end).ok_or("the receiver did not report its count")?;
    let began = Instant::now();
    let window = (began, began + Duration::from_nanos(sent.end - sent.begin));
    Ok((Measurement::new(window, sent.latencies.into_iter().map(Duration::from_nanos))?, received))
}

/// Returns the messages received per second between two instants, from the closest lines of a receiver's log.
fn rate(log: &str, begin: u64, end: u64) -> Option<f64> {
    let counts: Vec<(u64, u64)> = log
        .lines()
        .filter_map(|line| {
            let (at, count) = line.strip_prefix("at ")?.split_once(' ')?;
            Some((at.parse().ok()?, count.parse().ok()?))
        })
        .collect();
    let nearest = |instant: u64| counts.iter().min_by_key(|(at, _)| at.abs_diff(instant));
    let ((from, before), (to, after)) = (nearest(begin)?, nearest(end)?);
    Some((after - before) as f64 / Duration::from_nanos(to.checked_sub(*from)?).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_measured_between_the_lines_closest_to_the_window() {
        let log = "ready\nat 0 0\nat 900000000 10\nat 2100000000 250\nat 3000000000 999\n";
        let rate = rate(log, 1_000_000_000, 2_000_000_000).expect("the log has two counts");
        assert!((rate - 200.0).abs() < 1e-9, "{rate}");
        assert_eq!(super::rate("ready\n", 0, 1), None, "the log has no count");
    }
}
