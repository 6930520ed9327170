//! What the size of a roster costs: joins of one team, broadcasts to it and sends in it, as it grows. No member has a
//! stream.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use redis::cmd;
use teamwire_client::{Client, message};

use super::{row, start::ms};
use crate::{
    Bench, Result, Store,
    candidate::{Candidate, SUMMARY, grpc::Members},
    measure::{closed_loop, stamped},
    process::{Coordinator, Scratch},
    report::Report,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "joins";

/// How large teams become, their lead included, and how many teams of the size are made at least.
const SIZES: [(usize, usize); 3] = [(10, 40), (100, 4), (1_000, 1)];

/// The numbers of concurrent joins.
const CALLERS: [usize; 2] = [1, 16];

/// The number of broadcasts in a run. As many come before, and are not measured.
const BROADCASTS: u32 = 50;

/// The number of callers that send.
const SENDERS: usize = 16;

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    for _ in 0..bench.runs {
        for store in &bench.stores {
            let scratch = Scratch::prepare(&bench.directory, Some(*store)).await?;
            let coordinator = Coordinator::start(&bench.teamwire, scratch.directory(), &scratch.url).await?;
            let place = Place { coordinator: &coordinator, scratch: &scratch, store: *store };
            for (size, teams) in SIZES.into_iter().filter(|(size, _)| !bench.is_quick || *size <= 100) {
                let figures = place.grow(bench, size, teams).await?;
                report.add(&format!("a team of {size}"), row(Candidate::Teamwire(*store)), &figures);
            }
        }
    }
    Ok(())
}

/// Where teams are.
struct Place<'a> {
    coordinator: &'a Coordinator,
    scratch: &'a Scratch,
    store: Store,
}

impl Place<'_> {
    /// Makes teams of a size. Measures the second half of their joins, and what else happens in the last one.
    async fn grow(&self, bench: &Bench, size: usize, teams: usize) -> Result<Vec<(&'static str, f64)>> {
        let (mut rates, mut costs, mut last) = (Vec::new(), Vec::new(), None);
        for callers in CALLERS {
            let (mut joins, mut took, mut used) = (0, Duration::ZERO, Duration::ZERO);
            for number in 0..teams {
                let name = format!("size-{size}-{callers}-{number}");
                let entrance = Client::connect(self.coordinator.address())?;
                let members = Members::found_through(entrance, self.coordinator, &name).await?;
                let half = size / 2;
                self.join(&members, 1..half, callers).await?;
                let (began, before) = (Instant::now(), self.cpu()?);
                self.join(&members, half..size, callers).await?;
                took += began.elapsed();
                used += self.cpu()? - before;
                joins += size - half;
                last = Some((members, name));
            }
            rates.push(joins as f64 / took.as_secs_f64());
            costs.push(used.as_secs_f64() * 1e3 / joins as f64);
        }
        let (members, name) = last.ok_or("no team")?;
        let mut figures = vec![
            ("joins/s, 1 caller", rates[0]),
            ("joins/s, 16 callers", rates[1]),
            ("server CPU ms a join", costs[0]),
        ];
        figures.extend(self.broadcast(&members.lead, size).await?);
        figures.push(("server CPU µs a send", self.send(bench, &members.lead).await?));
        if self.store != Store::Embedded {
            figures.push(("KiB of roster", self.roster(&name).await? / 1024.0));
        }
        Ok(figures)
    }

    async fn join(&self, members: &Members, numbers: std::ops::Range<usize>, callers: usize) -> Result<()> {
        let joining = numbers.map(|number| async move { members.credential(&format!("member-{number}")).await });
        stream::iter(joining).buffer_unordered(callers).try_collect::<Vec<_>>().await?;
        Ok(())
    }

    async fn broadcast(&self, lead: &Client, size: usize) -> Result<[(&'static str, f64); 2]> {
        let (mut began, mut before) = (Instant::now(), Duration::ZERO);
        for number in 0..2 * BROADCASTS {
            if number == BROADCASTS {
                (began, before) = (Instant::now(), self.cpu()?);
            }
            let sent = lead.send(message::broadcast(SUMMARY, stamped(Instant::now()))).await?;
            if sent.recipients.len() + 1 != size {
                return Err(format!("a broadcast went to {} of {size} members", sent.recipients.len()).into());
            }
        }
        let each = |all: f64| all / f64::from(BROADCASTS);
        let cpu = (self.cpu()? - before).as_secs_f64() * 1e3;
        Ok([("ms until a broadcast is OK", each(ms(began))), ("server CPU ms a broadcast", each(cpu))])
    }

    async fn send(&self, bench: &Bench, lead: &Client) -> Result<f64> {
        let (lead, before) = (lead.clone(), self.cpu()?);
        // With those of the warm-up, which cost as much.
        let calls = Arc::new(AtomicU64::new(0));
        let counted = calls.clone();
        closed_loop(SENDERS, bench.pace.window(), move |_| {
            counted.fetch_add(1, Relaxed);
            let lead = lead.clone();
            async move {
                lead.send(message::direct("member-1", SUMMARY, stamped(Instant::now()))).await?;
                Ok(())
            }
        })
        .await?;
        Ok((self.cpu()? - before).as_secs_f64() * 1e6 / calls.load(Relaxed) as f64)
    }

    /// Returns the size of a team's record, which holds its roster.
    async fn roster(&self, team: &str) -> Result<f64> {
        let mut redis = redis::Client::open(&*self.scratch.url)?.get_multiplexed_async_connection().await?;
        Ok(cmd("HSTRLEN").arg(format!("teamwire:{{{team}}}:k:team")).arg("d").query_async(&mut redis).await?)
    }

    /// Returns the CPU time of the coordinator and its Redis.
    fn cpu(&self) -> Result<Duration> {
        Ok(self.coordinator.usage()?.cpu + self.scratch.cpu()?.unwrap_or_default())
    }
}
