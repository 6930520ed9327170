//! A contention that claims at once, over two coordinators on one store, while its members are killed: every task is
//! completed once, under the token of its last claim, and a claim costs few round trips.
//!
//! `TEAMWIRE_CROWD`, as in `100x1000`, sets how many claim how many tasks. `TEAMWIRE_SEED` sets what is drawn; how the
//! tasks of the runtime run side by side is not drawn.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, TaskEventKind, history_entry::Event},
};
use teamwire_server::{
    coordinator::{Coordinator, history::HistoryQuery},
    domain::{Limits, identity::CallerCredentials, task::board::Status},
    store::{Namespace, Store, embedded::EmbeddedStore, redis::RedisStore},
};
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    board::task,
    board_check::check_board,
    calls::RuleCalls as _,
    counting::{Counting, counted},
    team::{coordinator, create, operator, presented},
    test_redis::TestRedis,
};

/// How long a run may take. Never reached unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(300);

/// The most calls to the store for an end without a conflict: the rule reads each record when it finds that it needs
/// it.
const ENDS_TRIPS_MAX: usize = 7;

/// How large a contention is, and what happens to it.
#[derive(Clone, Copy)]
struct Plan {
    claimers: usize,
    tasks: u64,
    coordinators: usize,
    /// How many go about killing.
    killers: usize,
}

/// The outcome of a run.
#[derive(Debug, Default)]
struct Tally {
    /// The token under which a completion was accepted, by task.
    completed: Mutex<BTreeMap<u64, Vec<String>>>,
    /// What each claim has cost that was carried out alone.
    trips: Mutex<Vec<usize>>,
    /// What each end of a life has cost.
    ends: Mutex<Vec<usize>>,
    kills: AtomicUsize,
    stale: AtomicUsize,
    released: AtomicUsize,
}

struct Contention {
    plan: Plan,
    seed: u64,
    store: Arc<dyn Store>,
    coordinators: Vec<Arc<Coordinator>>,
    namespace: Namespace,
    /// The credential of the present life of each.
    credentials: Vec<Mutex<String>>,
    tally: Tally,
    /// How many tasks are completed.
    progress: watch::Sender<u64>,
    done: CancellationToken,
}

impl Contention {
    async fn gather(store: Arc<dyn Store>, plan: Plan, seed: u64) -> Arc<Self> {
        let store: Arc<dyn Store> = Arc::new(Counting(store));
        let mut coordinators = Vec::new();
        for _ in 0..plan.coordinators {
            coordinators.push(coordinator(store.clone(), Limits::default()).await);
        }
        let lead = coordinators[0].create_team(&operator(), &create("crowd")).await.unwrap().credential;
        let mut contention = Self {
            plan,
            seed,
            store,
            coordinators,
            namespace: Namespace::team(&Name::parse("crowd", "team").unwrap()),
            credentials: Vec::new(),
            tally: Tally::default(),
            progress: watch::Sender::new(0),
            done: CancellationToken::new(),
        };
        for number in 0..plan.claimers {
            let credential = contention.join(number).await;
            contention.credentials.push(Mutex::new(credential));
        }
        let mut rng = StdRng::seed_from_u64(seed);
        for id in 1..=plan.tasks {
            let mut blocked_by: Vec<u64> = Vec::new();
            if id > 1 && rng.random_bool(0.5) {
                blocked_by = (0..rng.random_range(1..4)).map(|_| rng.random_range(1..id)).collect();
            }
            let owner = match rng.random_bool(0.1) {
                true => format!("worker-{}", rng.random_range(0..plan.claimers)),
                false => String::new(),
            };
            let request = v1::CreateTaskRequest { blocked_by, owner, ..task("work") };
            contention.coordinators[0].create_task(&presented(&lead), &request).await.unwrap();
        }
        Arc::new(contention)
    }

    /// Begins a life of a worker that has none.
    async fn join(&self, number: usize) -> String {
        let invite =
            v1::InviteRequest { team: "crowd".to_owned(), member: format!("worker-{number}"), ..Default::default() };
        let token = self.coordinators[0].invite(&operator(), &invite).await.unwrap().join_token;
        self.coordinators[0].join(&presented(&token), &v1::JoinRequest::default()).await.unwrap().credential
    }

    fn who(&self, number: usize) -> CallerCredentials {
        presented(&self.credentials[number].lock())
    }

    /// Lets everybody work until all is done.
    async fn run(self: &Arc<Self>) {
        let mut all = JoinSet::new();
        for coordinator in &self.coordinators {
            let (coordinator, mut notifications, done) =
                (coordinator.clone(), self.store.notifications(), self.done.clone());
            all.spawn(async move {
                while let Some(Ok(notification)) = done.run_until_cancelled(notifications.recv()).await {
                    coordinator.notifier().notification(&notification);
                }
            });
        }
        for number in 0..self.plan.claimers {
            let contention = Arc::clone(self);
            all.spawn(async move {
                contention.done.clone().run_until_cancelled(contention.work(number)).await.unwrap_or(())
            });
        }
        for killer in 0..self.plan.killers {
            let contention = Arc::clone(self);
            all.spawn(async move {
                contention.done.clone().run_until_cancelled(contention.kill(killer)).await.unwrap_or(())
            });
        }
        let ended = timeout(PATIENCE, async {
            while let Some(one) = all.join_next().await {
                one.unwrap()
            }
        })
        .await;
        assert!(ended.is_ok(), "only {} of {} are done", *self.progress.borrow(), self.plan.tasks);
    }

    async fn work(&self, number: usize) {
        let mut rng = StdRng::seed_from_u64(self.seed ^ (number as u64 + 1));
        let mut claims = 0_u64;
        loop {
            let coordinator = &self.coordinators[rng.random_range(0..self.coordinators.len())];
            claims += 1;
            let wait = Some(prost_types::Duration { seconds: 1, nanos: 0 });
            let request = v1::ClaimNextTaskRequest { idempotency_key: format!("{number}-{claims}"), wait };
            let who = self.who(number);
            let (claim, trips) = counted(coordinator.claim_next_task(&who, &request)).await;
            let claim = match claim {
                Ok(Some(claim)) => claim,
                Ok(None) => continue,
                Err(refusal) => {
                    self.expected(&refusal);
                    tokio::task::yield_now().await;
                    continue;
                }
            };
            // A claim that was carried out together with others made no call itself.
            if trips > 0 {
                self.tally.trips.lock().push(trips);
            }
            for _ in 0..rng.random_range(0..30) {
                tokio::task::yield_now().await;
            }
            // A member that was killed meanwhile continues with the stale token, as itself or as its own successor.
            let who = if rng.random_bool(0.5) { who } else { self.who(number) };
            let coordinator = &self.coordinators[rng.random_range(0..self.coordinators.len())];
            self.finish(coordinator, &who, claim, rng.random_bool(0.1)).await;
        }
    }

    async fn finish(&self, coordinator: &Coordinator, who: &CallerCredentials, claim: v1::Claim, release: bool) {
        let (task_id, claim_token) = (claim.task.unwrap().id, claim.token);
        if release {
            let request = v1::ReleaseTaskRequest { task_id, claim_token, ..Default::default() };
            match coordinator.release_task(who, &request).await {
                Ok(_) => drop(self.tally.released.fetch_add(1, Ordering::Relaxed)),
                Err(refusal) => self.expected(&refusal),
            }
            return;
        }
        let request = v1::CompleteTaskRequest { task_id, claim_token: claim_token.clone(), ..Default::default() };
        match coordinator.complete_task(who, &request).await {
            Ok(_) => {
                self.tally.completed.lock().entry(task_id).or_default().push(claim_token);
                self.progress.send_modify(|done| *done += 1);
                if *self.progress.borrow() == self.plan.tasks {
                    self.done.cancel();
                }
            }
            Err(refusal) => self.expected(&refusal),
        }
    }

    /// Counts a refusal that a killed member must expect.
    fn expected(&self, refusal: &Refusal) {
        let stale = [Reason::StaleClaim, Reason::TaskClosed, Reason::MemberStopped, Reason::SessionSuperseded];
        assert!(stale.contains(&refusal.reason), "{refusal}");
        self.tally.stale.fetch_add(1, Ordering::Relaxed);
    }

    /// Kills one of this killer's victims after every few completions, and begins a new life for it.
    async fn kill(&self, killer: usize) {
        let mut rng = StdRng::seed_from_u64(!self.seed ^ killer as u64);
        let mut progress = self.progress.subscribe();
        let mut next = 1;
        loop {
            progress.wait_for(|done| *done >= next).await.unwrap();
            next = *progress.borrow() + 4;
            let number = rng.random_range(0..self.plan.claimers / self.plan.killers) * self.plan.killers + killer;
            let coordinator = &self.coordinators[rng.random_range(0..self.coordinators.len())];
            let (who, member) = (self.who(number), format!("worker-{number}"));
            let leave = v1::LeaveRequest::default();
            let credential = match rng.random_range(0..3) {
                0 => {
                    let joined = self.end(coordinator.join(&who, &v1::JoinRequest::default())).await;
                    joined.credential
                }
                1 => {
                    self.end(coordinator.leave(&who, &leave)).await;
                    self.join(number).await
                }
                _ => {
                    let request = v1::ForceStopRequest { team: "crowd".to_owned(), member, reason: String::new() };
                    self.end(coordinator.force_stop(&operator(), &request)).await;
                    self.end(coordinator.leave(&who, &leave)).await;
                    self.join(number).await
                }
            };
            *self.credentials[number].lock() = credential;
            self.tally.kills.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends a life, which nothing may prevent.
    async fn end<T>(&self, call: impl Future<Output = Result<T, Refusal>>) -> T {
        let (ended, trips) = counted(call).await;
        self.tally.ends.lock().push(trips);
        ended.unwrap()
    }

    /// Checks the outcome against the store and the history.
    async fn check(&self) {
        let board = check_board(&*self.store, &self.namespace).await;
        assert_eq!(board.tasks.len() as u64, self.plan.tasks, "a task was lost");
        let completed = self.tally.completed.lock().clone();
        for (id, task) in &board.tasks {
            let accepted = completed.get(id).map(Vec::as_slice).unwrap_or_default();
            assert_eq!(task.status, Status::Completed);
            assert_eq!(
                accepted,
                task.claim.clone().map(String::from).as_slice(),
                "task {id} was completed once, under its last token"
            );
        }
        for (id, (events, attempts)) in self.events().await {
            assert_eq!(attempts, board.tasks[&id].attempts);
            check_events(id, &events);
        }
    }

    /// Returns what happened to each task, in the order of the history, and how many times it was claimed.
    async fn events(&self) -> BTreeMap<u64, (Vec<TaskEventKind>, u32)> {
        let mut events: BTreeMap<u64, (Vec<TaskEventKind>, u32)> = BTreeMap::new();
        let mut query = HistoryQuery { limit: 1_000, ..Default::default() };
        loop {
            let page = self.coordinators[0].history(&operator(), "crowd", &query).await.unwrap();
            let Some(last) = page.entries.last() else { return events };
            query.after = last.sequence;
            for entry in page.entries {
                let Some(Event::Task(event)) = entry.event else { continue };
                let of_task = events.entry(event.task_id).or_default();
                of_task.0.push(event.kind());
                of_task.1 += u32::from(event.kind() == TaskEventKind::Claimed);
            }
        }
    }
}

/// Checks that a task went from one owner to the next and was completed by the last.
fn check_events(id: u64, events: &[TaskEventKind]) {
    let mut held = false;
    for (at, event) in events.iter().enumerate() {
        let (fits, then) = match event {
            TaskEventKind::Created => (at == 0, false),
            TaskEventKind::Claimed => (!held, true),
            TaskEventKind::Released | TaskEventKind::Lapsed => (held, false),
            TaskEventKind::Completed => (held && at + 1 == events.len(), false),
            _ => (false, false),
        };
        assert!(fits, "task {id}: {events:?}");
        held = then;
    }
    assert_eq!(events.last(), Some(&TaskEventKind::Completed), "task {id}");
}

fn size() -> (usize, u64) {
    let size = std::env::var("TEAMWIRE_CROWD").unwrap_or_else(|_| "30x200".to_owned());
    let (claimers, tasks) = size.split_once('x').expect("as in 100x1000");
    (claimers.parse().unwrap(), tasks.parse().unwrap())
}

fn seed() -> u64 {
    std::env::var("TEAMWIRE_SEED").map_or(7, |seed| seed.parse().unwrap())
}

/// Runs a contention to its end and returns the median of what a claim has cost.
async fn run(store: Arc<dyn Store>, plan: Plan) -> (Arc<Contention>, usize) {
    let contention = Contention::gather(store, plan, seed()).await;
    let began = Instant::now();
    contention.run().await;
    let took = began.elapsed();
    contention.check().await;
    let mut trips = contention.tally.trips.lock().clone();
    trips.sort_unstable();
    let at = |share: f64| trips[((trips.len() - 1) as f64 * share) as usize];
    eprintln!(
        "{} claimers, {} tasks, {} coordinators: {took:.1?}, {} claims, {} released, {} kills, {} stale calls; round trips of \
         a claim: median {}, 90 % {}, 99 % {}, most {}; of an end, at most {:?}",
        plan.claimers,
        plan.tasks,
        plan.coordinators,
        trips.len(),
        contention.tally.released.load(Ordering::Relaxed),
        contention.tally.kills.load(Ordering::Relaxed),
        contention.tally.stale.load(Ordering::Relaxed),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0),
        contention.tally.ends.lock().iter().max(),
    );
    (contention, at(0.5))
}

async fn complete_tasks_while_members_are_killed(store: Arc<dyn Store>) {
    let (claimers, tasks) = size();
    let (contention, _) = run(store, Plan { claimers, tasks, coordinators: 2, killers: claimers / 10 }).await;
    let (kills, stale) = (&contention.tally.kills, &contention.tally.stale);
    assert!(kills.load(Ordering::Relaxed) > 5 && stale.load(Ordering::Relaxed) > 5, "too peaceful to tell anything");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_task_is_completed_once_though_members_are_killed_on_the_embedded_store() {
    complete_tasks_while_members_are_killed(EmbeddedStore::in_memory().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_task_is_completed_once_though_members_are_killed_on_redis() {
    let Some(server) = TestRedis::start() else { return };
    complete_tasks_while_members_are_killed(RedisStore::connect(&server.url(), "test").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_one_coordinator_a_claim_takes_two_round_trips_and_an_end_a_bounded_number() {
    let (claimers, tasks) = size();
    let plan = Plan { claimers, tasks, coordinators: 1, killers: claimers / 10 };
    let (contention, median) = run(EmbeddedStore::in_memory().unwrap(), plan).await;
    assert!(median <= 2, "{median} round trips");
    // Once, an end lost against every change to the board, up to a hundred times, and was refused then.
    let ends = contention.tally.ends.lock();
    assert!(!ends.is_empty() && ends.iter().all(|trips| *trips <= ENDS_TRIPS_MAX), "{ends:?}");
}
