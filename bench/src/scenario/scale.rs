//! What teams, members, idle streams and messages cost with several coordinators on a Redis Cluster.
//!
//! Teams are made in steps: create some, add their members, open their streams, and so on. So every member has its
//! stream within its lease, and rates show whether the last steps are slower than the first.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use teamwire_client::{
    Client, Event, SubscribeOptions, message,
    v1::{self, message::Body},
};
use tokio::{task::JoinSet, time::sleep};

use super::row;
use crate::{
    Bench, Result, Store,
    candidate::{Candidate, SUMMARY},
    measure::{Arrivals, closed_loop, stamped},
    process::{Cluster, ClusterUsage, Coordinator, Traffic, traffic},
    report::{Report, Row},
};

/// Its name on the command line.
pub(crate) const NAME: &str = "scale";

/// How many steps there are.
const STEPS: usize = 10;

/// How many calls to make concurrently.
const AT_ONCE: usize = 64;

/// The number of callers that send.
const CALLERS: usize = 64;

/// The least time to observe: the workers that visit each team take up to a minute to come around.
const OBSERVED_MIN: Duration = Duration::from_secs(60);

/// The least time to send for.
const SENDING_MIN: Duration = Duration::from_secs(5);

/// How long the last messages may take to arrive. Reached only if something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// The sizes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The number of coordinators in scale.
    #[arg(long, value_name = "N", default_value_t = 3)]
    coordinators: usize,
    /// The number of teams in scale. [default: 1000; quick: 50]
    #[arg(long, value_name = "N")]
    scale_teams: Option<usize>,
    /// The number of members of each of these teams, their lead included.
    #[arg(long, value_name = "N", default_value_t = 10)]
    scale_members: usize,
    /// How many of all these members have a stream; the others are detached. [default: all]
    #[arg(long, value_name = "N")]
    scale_streams: Option<usize>,
    /// How many streams share a connection in scale. The limit is 64.
    #[arg(long, value_name = "N", default_value_t = 4)]
    scale_sharing: usize,
    /// The seconds that the teams of scale are idle before their cost is measured. Coordinators visit idle teams less and
    /// less often.
    #[arg(long, value_name = "N", default_value_t = 5)]
    scale_idle: u64,
}

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let teams = bench.sizes.scale_teams.unwrap_or(if bench.is_quick { 50 } else { 1_000 }).max(1);
    let members = bench.sizes.scale_members.clamp(1, 1_000);
    let all = teams * members;
    let sizes = Sizes {
        coordinators: bench.sizes.coordinators.max(1),
        scale_teams: Some(teams),
        scale_members: members,
        scale_streams: Some(bench.sizes.scale_streams.unwrap_or(all).min(all)),
        scale_sharing: bench.sizes.scale_sharing.clamp(1, 64),
        scale_idle: bench.sizes.scale_idle,
    };
    for _ in 0..bench.runs {
        let mut fleet = Fleet::start(bench, sizes).await?;
        fleet.grow(report).await?;
        fleet.rest(bench, report).await?;
        fleet.send(bench, report).await?;
    }
    Ok(())
}

/// Coordinators on a cluster, with teams.
struct Fleet {
    sizes: Sizes,
    /// What the tables say of the sizes.
    case: String,
    /// The members with a stream, in the order of their teams.
    subscribers: Vec<Subscriber>,
    receiving: JoinSet<Result<()>>,
    arrivals: Arc<Arrivals>,
    losses: Arc<AtomicU64>,
    coordinators: Vec<Coordinator>,
    /// Dropped last.
    cluster: Cluster,
}

/// A member with a stream.
struct Subscriber {
    team: usize,
    name: String,
    client: Client,
}

/// A team, as its members join it.
struct Team {
    number: usize,
    lead: String,
    token: String,
}

/// What all processes together use, apart from the load generator.
#[derive(Clone, Copy)]
struct Use {
    coordinators: Duration,
    resident: f64,
    cluster: ClusterUsage,
    traffic: Option<Traffic>,
}

impl Fleet {
    async fn start(bench: &Bench, sizes: Sizes) -> Result<Self> {
        let cluster = Cluster::start(&bench.directory).await?;
        let mut coordinators: Vec<Coordinator> = Vec::new();
        for at in 0..sizes.coordinators {
            let own = cluster.directory().join(format!("coordinator-{at}"));
            let state = own.join("state");
            // A coordinator trusts only a private directory.
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&state)?;
            if let Some(first) = coordinators.first() {
                let file = state.join("operator.credential");
                let mut file = fs::File::options().create(true).write(true).truncate(true).mode(0o600).open(file)?;
                file.write_all(first.operator()?.as_bytes())?;
            }
            coordinators.push(Coordinator::start(&bench.teamwire, &own, &cluster.url).await?);
        }
        let Sizes { scale_members, .. } = sizes;
        let (teams, streams) = (sizes.teams(), sizes.streams());
        Ok(Self {
            case: format!(
                "{teams} teams of {scale_members}, {streams} streams, {} coordinators, a cluster of 3",
                sizes.coordinators
            ),
            sizes,
            subscribers: Vec::new(),
            receiving: JoinSet::new(),
            arrivals: Arc::default(),
            losses: Arc::default(),
            coordinators,
            cluster,
        })
    }

    fn row() -> Row {
        row(Candidate::Teamwire(Store::RedisEverysec))
    }

    fn add(&self, report: &mut Report, what: &str, figures: &[(&'static str, f64)]) {
        report.add(&format!("{what}: {}", self.case), Self::row(), figures);
    }

    async fn used(&self) -> Result<Use> {
        let (mut cpu, mut resident, mut all) = (Duration::ZERO, 0.0, Some(Traffic::default()));
        for coordinator in &self.coordinators {
            let usage = coordinator.usage()?;
            cpu += usage.cpu;
            resident += usage.resident as f64;
            let port = coordinator.address().rsplit(':').next().unwrap_or_default().parse()?;
            all = all
                .zip(traffic(port)?)
                .map(|(all, one)| Traffic { bytes: all.bytes + one.bytes, segments: all.segments + one.segments });
        }
        Ok(Use { coordinators: cpu, resident, cluster: self.cluster.usage().await?, traffic: all })
    }

    /// Makes the teams, their members and their streams.
    async fn grow(&mut self, report: &mut Report) -> Result<()> {
        let Sizes { scale_members, scale_sharing, .. } = self.sizes;
        let (teams, streams) = (self.sizes.teams(), self.sizes.streams());
        let addresses: Vec<String> = self.coordinators.iter().map(|one| one.address().to_owned()).collect();
        let connect = |at: usize| Client::connect(&addresses[at % addresses.len()]);
        let entrances: Vec<Client> = (0..addresses.len()).map(connect).collect::<std::result::Result<_, _>>()?;
        let operator = self.coordinators[0].operator()?;
        let operators: Vec<Client> = entrances
            .iter()
            .map(|entrance| entrance.with_credential(&operator))
            .collect::<std::result::Result<_, _>>()?;
        let liveness = |member: usize| match member < streams {
            true => v1::Liveness::Attached.into(),
            false => v1::Liveness::Detached.into(),
        };
        let start = self.used().await?;
        let mut phases = [Phase::default(); 3];
        let mut connections: Vec<Option<Client>> = vec![None; addresses.len()];
        let mut opened = 0;
        for step in 0..STEPS {
            let range = teams * step / STEPS..teams * (step + 1) / STEPS;
            let before = self.cluster.usage().await?;
            let began = Instant::now();
            let creating = range.clone().map(|number| {
                let (operator, entrance) = (&operators[number % operators.len()], &entrances[number % entrances.len()]);
                create(operator, entrance, number, liveness(number * scale_members))
            });
            let created: Vec<Team> = stream::iter(creating).buffered(AT_ONCE).try_collect().await?;
            let middle = self.cluster.usage().await?;
            phases[0].took(step, created.len(), began, before, middle);
            let began = Instant::now();
            let joining = created.iter().flat_map(|team| {
                (1..scale_members).map(move |member| (team, member, liveness(team.number * scale_members + member)))
            });
            let joining = joining.map(|(team, member, liveness)| {
                join(&entrances[(team.number + member) % entrances.len()], team, member, liveness)
            });
            let joined: Vec<(usize, String, String)> = stream::iter(joining).buffered(AT_ONCE).try_collect().await?;
            let after = self.cluster.usage().await?;
            phases[1].took(step, joined.len(), began, middle, after);
            let leads = created.into_iter().map(|team| (team.number, "lead".to_owned(), team.lead));
            let mut members: Vec<_> = leads.chain(joined).collect();
            members.sort_by_key(|(team, ..)| *team);
            let began = Instant::now();
            let mut opening = Vec::new();
            for (team, name, credential) in members.into_iter().take(streams - opened) {
                let at = opened % addresses.len();
                if (opened / addresses.len()).is_multiple_of(scale_sharing) || connections[at].is_none() {
                    connections[at] = Some(connect(at)?);
                }
                let connection = connections[at].as_ref().ok_or("no connection")?;
                opening.push(Subscriber { team, name, client: connection.with_credential(&credential)? });
                opened += 1;
            }
            let count = opening.len();
            let arrivals = &self.arrivals;
            let losses = &self.losses;
            let opening = opening.into_iter().map(|subscriber| async move {
                let mut subscription = subscriber.client.subscribe(SubscribeOptions::default());
                match subscription.next().await {
                    Some(Ok(Event::Opened(_))) => {}
                    other => return Err(format!("a subscription did not open: {other:?}").into()),
                }
                let (arrivals, losses) = (arrivals.clone(), losses.clone());
                let receiving = async move {
                    loop {
                        match subscription.next().await.ok_or("a subscription ended")?? {
                            Event::Delivery(delivery) => {
                                // Others are notices to leads.
                                if let Some(Body::Message(text)) = &delivery.message.body {
                                    arrivals.record(&text.content)?;
                                }
                                delivery.ack();
                            }
                            Event::Opened(_) => {}
                            Event::Lost { .. } => drop(losses.fetch_add(1, Relaxed)),
                            other => return Err(format!("an unexpected event: {other:?}").into()),
                        }
                    }
                };
                Result::Ok((subscriber, receiving))
            });
            let mut opening = stream::iter(opening).buffered(AT_ONCE);
            while let Some((subscriber, receiving)) = opening.try_next().await? {
                self.subscribers.push(subscriber);
                self.receiving.spawn(receiving);
            }
            drop(opening);
            phases[2].took(step, count, began, after, self.cluster.usage().await?);
        }
        let end = self.used().await?;
        let resident = end.resident - start.resident;
        for (phase, what) in phases.iter().zip(["creating teams", "joining", "opening streams"]) {
            if phase.count > 0 {
                self.add(
                    report,
                    what,
                    &[
                        ("per second", phase.count as f64 / phase.time.as_secs_f64()),
                        ("first tenth /s", phase.first),
                        ("last tenth /s", phase.last),
                        ("bytes of Redis each", phase.data / phase.count as f64),
                        ("bytes of log each", phase.log / phase.count as f64),
                        ("µs of Redis each", phase.cpu.as_secs_f64() * 1e6 / phase.count as f64),
                    ],
                );
            }
        }
        self.add(
            report,
            "memory",
            &[
                ("MiB of each coordinator", end.resident / (1 << 20) as f64 / self.coordinators.len() as f64),
                ("KiB of coordinators per member", resident / 1024.0 / (teams * scale_members) as f64),
                ("MiB of Redis", end.cluster.data / (1 << 20) as f64),
            ],
        );
        Ok(())
    }

    /// Observes what it costs while nothing happens.
    async fn rest(&mut self, bench: &Bench, report: &mut Report) -> Result<()> {
        sleep(Duration::from_secs(self.sizes.scale_idle)).await;
        let calls = self.store_calls().await?;
        let before = self.used().await?;
        let began = Instant::now();
        sleep(bench.pace.length.max(OBSERVED_MIN)).await;
        let after = self.used().await?;
        let seconds = began.elapsed().as_secs_f64();
        let later = self.store_calls().await?;
        let coordinators = (after.coordinators - before.coordinators).as_secs_f64() / seconds;
        let redis = (after.cluster.cpu - before.cluster.cpu).as_secs_f64() / seconds;
        let streams = self.subscribers.len().max(1) as f64;
        let lost = self.lost().await?;
        self.add(
            report,
            "idle",
            &[
                ("% of a processor, each coordinator", coordinators * 100.0 / self.coordinators.len() as f64),
                ("% of a processor, all of Redis", redis * 100.0),
                ("µs/s per stream, all processes", (coordinators + redis) * 1e6 / streams),
                ("commands of Redis /s", (after.cluster.commands - before.cluster.commands) / seconds),
                ("KiB/s of log", (after.cluster.log - before.cluster.log) / 1024.0 / seconds),
                (
                    "KiB/s between coordinators and Redis",
                    (after.cluster.network - before.cluster.network) / 1024.0 / seconds,
                ),
                ("members lost", lost),
                ("streams reopened", self.losses.load(Relaxed) as f64),
            ],
        );
        let rate = |operation: &&'static str| {
            let of = |calls: &BTreeMap<&'static str, f64>| calls.get(operation).copied().unwrap_or_default();
            (*operation, (of(&later) - of(&calls)) / seconds)
        };
        let rates: Vec<_> = OPERATIONS.iter().map(rate).collect();
        self.add(report, "calls of the store per second while idle", &rates);
        if let Some((before, after)) = before.traffic.zip(after.traffic).filter(|_| !self.subscribers.is_empty()) {
            let each = |from: f64, to: f64| (to - from) / seconds / streams;
            self.add(
                report,
                "network of an idle stream",
                &[("bytes/s", each(before.bytes, after.bytes)), ("segments/s", each(before.segments, after.segments))],
            );
        }
        Ok(())
    }

    /// Sends from each subscriber to the next one of its team.
    async fn send(&mut self, bench: &Bench, report: &mut Report) -> Result<()> {
        let mut pairs = Vec::new();
        for of_team in self.subscribers.chunk_by(|one, next| one.team == next.team).filter(|members| members.len() > 1)
        {
            for (at, sender) in of_team.iter().enumerate() {
                pairs.push((sender.client.clone(), of_team[(at + 1) % of_team.len()].name.clone()));
            }
        }
        if pairs.is_empty() {
            return Ok(());
        }
        let (pairs, turn) = (Arc::new(pairs), Arc::new(AtomicUsize::new(0)));
        let turns = turn.clone();
        let mut pace = bench.pace;
        pace.length = pace.length.max(SENDING_MIN);
        let before = self.used().await?;
        let sent = closed_loop(CALLERS, pace.window(), move |_| {
            let (pairs, turn) = (pairs.clone(), turn.fetch_add(1, Relaxed));
            async move {
                // Neighbors are in the same team. Skips ahead, so that concurrent callers use different ones.
                let (sender, recipient) = &pairs[turn.wrapping_mul(7_919) % pairs.len()];
                sender.send(message::direct(recipient.clone(), SUMMARY, stamped(Instant::now()))).await?;
                Ok(())
            }
        })
        .await?;
        // With those of the warm-up, which cost as much.
        let calls = turns.load(Relaxed);
        tokio::time::timeout(PATIENCE, self.arrivals.reach(calls as u64))
            .await
            .map_err(|_| "messages did not arrive")??;
        let arrived = self.arrivals.within(sent.window)?;
        // Until all are acknowledged.
        sleep(Duration::from_secs(2)).await;
        super::check_running(&mut self.receiving)?;
        let after = self.used().await?;
        let micros = |from: Duration, to: Duration| (to - from).as_secs_f64() * 1e6 / calls as f64;
        self.add(
            report,
            "messages",
            &[
                ("sends/s", sent.per_second()),
                ("p50 ms", sent.percentile_ms(50.0)),
                ("p99 ms", sent.percentile_ms(99.0)),
                ("p50 ms to the recipient", arrived.percentile_ms(50.0)),
                ("µs of coordinators each", micros(before.coordinators, after.coordinators)),
                ("µs of Redis each", micros(before.cluster.cpu, after.cluster.cpu)),
                ("bytes of Redis each", (after.cluster.data - before.cluster.data) / calls as f64),
                ("bytes of log each", (after.cluster.log - before.cluster.log) / calls as f64),
            ],
        );
        Ok(())
    }

    /// Returns how many times all coordinators have called the store, by operation.
    async fn store_calls(&mut self) -> Result<BTreeMap<&'static str, f64>> {
        let mut calls = BTreeMap::new();
        for coordinator in &mut self.coordinators {
            for operation in OPERATIONS {
                *calls.entry(operation).or_default() += coordinator.store_calls(operation).await?;
            }
        }
        Ok(calls)
    }

    /// Returns how many members count as lost.
    async fn lost(&mut self) -> Result<f64> {
        self.coordinators[0].metric("teamwire_members{state=\"lost\"}").await
    }
}

/// The operations of the store, as the metrics name them.
const OPERATIONS: [&str; 7] = ["commit", "read", "leases", "extents", "range", "scan", "usage"];

impl Sizes {
    fn teams(self) -> usize {
        self.scale_teams.unwrap_or(1)
    }

    fn streams(self) -> usize {
        self.scale_streams.unwrap_or_default()
    }
}

/// What the steps of a kind took.
#[derive(Clone, Copy, Default)]
struct Phase {
    count: usize,
    time: Duration,
    first: f64,
    last: f64,
    data: f64,
    log: f64,
    cpu: Duration,
}

impl Phase {
    fn took(&mut self, step: usize, count: usize, began: Instant, before: ClusterUsage, after: ClusterUsage) {
        let time = began.elapsed();
        let rate = count as f64 / time.as_secs_f64();
        if step == 0 {
            self.first = rate;
        }
        self.last = rate;
        self.count += count;
        self.time += time;
        self.data += after.data - before.data;
        self.log += after.log - before.log;
        self.cpu += after.cpu - before.cpu;
    }
}

async fn create(operator: &Client, entrance: &Client, number: usize, lead_liveness: i32) -> Result<Team> {
    let request = v1::CreateTeamRequest { name: format!("team-{number}"), lead_liveness, ..Default::default() };
    let lead = operator.create_team_with(request).await?.credential;
    let invite = v1::InviteRequest { uses_max: 1_000, ..Default::default() };
    let token = entrance.with_credential(&lead)?.invite(invite).await?.join_token;
    Ok(Team { number, lead, token })
}

/// Joins a team. Returns its number, and the member's name and credential.
async fn join(entrance: &Client, team: &Team, member: usize, liveness: i32) -> Result<(usize, String, String)> {
    let name = format!("member-{member}");
    let request = v1::JoinRequest { name: name.clone(), liveness, ..Default::default() };
    let credential = entrance.with_credential(&team.token)?.join(request).await?.credential;
    Ok((team.number, name, credential))
}
