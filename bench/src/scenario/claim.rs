//! Workers that empty a board: each claims the next task until none is left.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use teamwire_client::v1;
use tokio::{sync::Barrier, task::JoinSet};

use super::{row, send_all, turns};
use crate::{
    Bench, Result, Store,
    candidate::{Candidate, Shape, grpc::Members},
    measure::Measurement,
    process::{Coordinator, Scratch},
    report::{Figure, Report},
    section::SectionLayout,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "claim";

/// The number of workers, and of tasks per worker. A member may hold 32 claims.
const WORKERS: usize = 100;
const TASKS_EACH: usize = 20;

/// The number of tasks per worker in a check.
const QUICK: usize = 2;

/// What the page shows of it.
pub(super) const VIEW: SectionLayout = SectionLayout {
    columns: &[
        ("claims/s", "", "claims/s"),
        ("p50 ms", "", "p50 ms"),
        ("p99 ms", "", "p99 ms"),
        ("commits per claim", "", "commits a claim"),
        ("reads per claim", "", "reads a claim"),
    ],
    compared: "",
    only_compared: false,
};

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let case = format!("{WORKERS} workers, {} tasks", WORKERS * tasks_each(bench));
    // The claims of a board take turns, so their lower bound is one commit after the other.
    let of_store = |store: &Store| [Candidate::StoreOnly(*store), Candidate::Teamwire(*store)];
    let candidates: Vec<_> = bench.stores.iter().flat_map(of_store).collect();
    for candidate in turns(bench, &candidates) {
        bench.quiet.wait().await?;
        let figures = if let Candidate::Teamwire(store) = candidate {
            let contest = contest(bench, store).await?;
            let rounds = [("commits a claim", contest.commits), ("reads a claim", contest.reads)];
            [&figures(&contest.claimed)[..], &rounds].concat()
        } else {
            let shape = Shape { callers: 1, inboxes: 1 };
            let mail = candidate.open(bench, shape).await?;
            figures(&send_all(&mail, shape, bench.pace.window()).await?.calls).to_vec()
        };
        report.add(&case, row(candidate), &figures);
    }
    Ok(())
}

fn figures(claims: &Measurement) -> [Figure; 3] {
    [("claims/s", claims.per_second()), ("p50 ms", claims.percentile_ms(50.0)), ("p99 ms", claims.percentile_ms(99.0))]
}

fn tasks_each(bench: &Bench) -> usize {
    if bench.is_quick { QUICK } else { TASKS_EACH }
}

struct Contest {
    claimed: Measurement,
    commits: f64,
    reads: f64,
}

async fn contest(bench: &Bench, store: Store) -> Result<Contest> {
    let scratch = Scratch::prepare(&bench.directory, Some(store)).await?;
    let mut coordinator = Coordinator::start(&bench.teamwire, scratch.directory(), &scratch.url).await?;
    let members = Members::found(&coordinator, "bench").await?;
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        workers.push(members.join(&format!("worker-{worker}")).await?);
    }
    let tasks_each = tasks_each(bench);
    let tasks = (0..WORKERS * tasks_each).map(|task| {
        let subject = format!("task {task}");
        members.lead.create_task(v1::CreateTaskRequest { subject, ..v1::CreateTaskRequest::default() })
    });
    let created: Vec<_> = stream::iter(tasks).buffer_unordered(32).try_collect().await?;
    // Opens the connections before the clock starts.
    for worker in &workers {
        worker.list_tasks(v1::ListTasksRequest { page_size: 1, ..v1::ListTasksRequest::default() }).await?;
    }
    let (commits, reads) = (coordinator.store_calls("commit").await?, coordinator.store_calls("read").await?);
    let began = Instant::now();
    let gate = Arc::new(Barrier::new(WORKERS));
    let mut claiming = JoinSet::new();
    for worker in workers {
        let gate = gate.clone();
        claiming.spawn(async move {
            gate.wait().await;
            let mut latencies = Vec::new();
            for _ in 0..tasks_each {
                let called = Instant::now();
                if worker.claim_next_task(Duration::ZERO).await?.is_none() {
                    break;
                }
                latencies.push(called.elapsed());
            }
            Result::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = claiming.join_next().await {
        latencies.extend(done??);
    }
    let window = (began, Instant::now());
    if latencies.len() != created.len() {
        return Err(format!("{} of {} tasks were claimed", latencies.len(), created.len()).into());
    }
    let claims = latencies.len() as f64;
    Ok(Contest {
        claimed: Measurement::new(window, latencies)?,
        commits: (coordinator.store_calls("commit").await? - commits) / claims,
        reads: (coordinator.store_calls("read").await? - reads) / claims,
    })
}
