//! Coordinators on a Redis with replicas and Sentinels, and traffic that continues whichever of them dies.

use std::time::Instant;

use nix::sys::signal::Signal;
use teamwire_client::message;
use teamwire_proto::v1;
use tokio::runtime::Runtime;
use tonic::Code;

use crate::{
    raw::{Raw, refused},
    traffic::{Account, ROOMY, Traffic},
    world::{Coordinator, LEAD, TestRedis, TestSentinel, World, eventually},
};

/// What the log says of a loss.
const LOSS: &str = "the store lost commits that it had acknowledged";

/// How many Sentinels there are.
const SENTINELS: usize = 3;

/// After how long a silent server counts as dead: longer than one is ever kept waiting by all that goes on here.
const DOWN_AFTER_MS: &str = "2000";

/// Three coordinators on a primary with replicas.
struct Place {
    world: World,
    others: [Coordinator; 2],
    primary: TestRedis,
    replicas: Vec<TestRedis>,
    /// Kept alive.
    _sentinels: Vec<TestSentinel>,
    /// Waits for the servers.
    runtime: Runtime,
}

impl Place {
    /// `None`, with a notice, where no Redis is installed. `parameters`: the end of the store's URL.
    fn with_replicas(count: usize, parameters: &str) -> Option<Self> {
        let runtime = Runtime::new().unwrap();
        let (primary, replicas, sentinels) = runtime.block_on(async {
            let primary = TestRedis::start()?;
            let (mut replicas, mut sentinels) = (Vec::new(), Vec::new());
            for _ in 0..count {
                replicas.push(TestRedis::start_replica_of(&primary).await?);
            }
            for _ in 0..SENTINELS {
                let sentinel = TestSentinel::start(&primary, count).await?;
                sentinel.ask(&["SET", TestSentinel::SERVICE, "down-after-milliseconds", DOWN_AFTER_MS]).await.unwrap();
                sentinels.push(sentinel);
            }
            Some((primary, replicas, sentinels))
        })?;
        let hosts: Vec<_> = sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        let url = format!("redis+sentinel://{}/{}{parameters}", hosts.join(","), TestSentinel::SERVICE);
        let world = World::on(&url, ROOMY);
        let others = [world.another_coordinator(), world.another_coordinator()];
        let place = Self { world, others, primary, replicas, _sentinels: sentinels, runtime };
        for coordinator in place.coordinators() {
            // During the failover.
            coordinator.may_complain_of("the primary was replaced");
        }
        Some(place)
    }

    fn coordinators(&self) -> impl Iterator<Item = &Coordinator> {
        std::iter::once(&self.world.coordinator).chain(&self.others)
    }

    fn gather(&self) -> Traffic {
        let addresses: Vec<_> = self.coordinators().map(Coordinator::address).collect();
        Traffic::gather(&self.world, &addresses.join(","))
    }

    /// Returns how many losses the coordinators have counted.
    fn losses_counted(&self) -> f64 {
        self.coordinators().map(|coordinator| coordinator.metric("teamwire_lost_writes_total")).sum()
    }

    fn losses_logged(&self) -> usize {
        self.coordinators().map(|coordinator| coordinator.log().matches(LOSS).count()).sum()
    }

    /// Kills the primary, and waits until all streams bring something new. Returns how many numbers each had had stored
    /// just after.
    fn fail_over(&mut self, traffic: &Traffic) -> Vec<usize> {
        self.primary.kill();
        let stored = traffic.stored();
        for replica in &self.replicas {
            replica.signal(Signal::SIGCONT);
        }
        let began = Instant::now();
        traffic.await_stored("sends continue after the failover", 1, "");
        eprintln!("every sender was answered again after {:?}", began.elapsed());
        traffic.goes_on("all streams continue after the failover");
        eprintln!("every stream had something new after {:?}", began.elapsed());
        stored
    }

    fn tell(&self, account: &Account, what: &str) {
        let lost: usize = account.lost.values().map(Vec::len).sum();
        eprintln!(
            "{what}: {} stored, {lost} lost, {} doubles, {} out of order; {} losses counted, {} logged; teams told: {:?}, \
             with a record: {:?}",
            account.stored,
            account.doubles,
            account.disordered,
            self.losses_counted(),
            self.losses_logged(),
            account.told,
            account.recorded
        );
    }
}

#[test]
fn coordinators_and_redis_are_replaced_under_many_streams_and_nothing_is_lost_or_reported() {
    let Some(mut place) = Place::with_replicas(2, "?replicas=1&wait=2s") else { return };
    let traffic = place.gather();
    traffic.goes_on("messages flow");
    let mut restart = |coordinator: &mut Coordinator| {
        coordinator.end();
        traffic.goes_on("messages flow while one is away");
        coordinator.restart();
        traffic.goes_on("messages flow when it is back");
    };
    restart(&mut place.world.coordinator);
    place.others.iter_mut().for_each(&mut restart);
    assert_eq!((place.losses_counted(), place.losses_logged()), (0.0, 0), "nothing is lost by a restart");

    for coordinator in place.coordinators() {
        coordinator.may_complain_of(LOSS);
    }
    place.fail_over(&traffic);
    let account = traffic.ends();
    place.tell(&account, "with a replica that has everything");
    account.is_orderly();
    assert!(account.lost.is_empty(), "{account:?}");
}

#[test]
fn a_failover_reports_lost_writes_to_every_affected_team() {
    let Some(mut place) = Place::with_replicas(1, "") else { return };
    let traffic = place.gather();
    traffic.goes_on("messages flow");
    for coordinator in place.coordinators() {
        coordinator.may_complain_of(LOSS);
    }
    let kept = traffic.stored();
    // The replica cannot connect again, and nothing waits in its socket.
    place.replicas[0].signal(Signal::SIGSTOP);
    place.runtime.block_on(place.primary.tell(&["CLIENT", "KILL", "TYPE", "replica"]));
    // Every fifth goes to a lead, who has not seen it when it is lost. Sessions that open meanwhile are lost as well.
    traffic.await_stored("sends continue without the replica", 3, "");
    place.others[0].end();
    place.others[0].restart();
    traffic.await_stored("sends continue without the replica", 3, "");
    let gone = place.fail_over(&traffic);
    let account = traffic.ends();
    place.tell(&account, "without the replica");
    account.is_orderly();
    assert!(!account.lost.is_empty(), "the leads have all");
    for (sender, lost) in &account.lost {
        // One may have been under way.
        assert!(lost.iter().all(|number| (kept[*sender]..=gone[*sender]).contains(number)), "{sender}: {lost:?}");
        let team = Traffic::team_of(*sender);
        assert!(account.told.contains(&team) && account.recorded.contains(&team), "{account:?}");
    }
    assert!(place.losses_counted() > 0.0 && place.losses_logged() > 0);
}

#[test]
fn a_send_is_refused_until_a_replica_has_it() {
    let runtime = Runtime::new().unwrap();
    let Some(primary) = TestRedis::start() else { return };
    let Some(replica) = runtime.block_on(TestRedis::start_replica_of(&primary)) else { return };
    let world = World::on(&format!("{}?replicas=1&wait=100ms", primary.url()), "");
    world.create_team("acme");
    let ann = world.join("ann");
    let request =
        v1::SendRequest { idempotency_key: "once".to_owned(), ..message::direct(LEAD, "a number", "1".to_owned()) };
    let _inside = runtime.enter();
    let ann = Raw::at(&world.coordinator.address(), &ann);
    replica.signal(Signal::SIGSTOP);
    for _ in 0..2 {
        let outcome = runtime.block_on(ann.send_all(request.clone()));
        refused(outcome, Code::Unavailable, "DURABILITY_NOT_REACHED", "");
    }
    replica.signal(Signal::SIGCONT);
    eventually("the replica has it", || {
        let outcome = runtime.block_on(ann.send_all(request.clone()));
        outcome.is_ok().then_some(())
    });
    assert_eq!(world.take_inbox(LEAD).iter().filter(|message| message["content"] == "1").count(), 1);
    let refusals = "teamwire_store_errors_total{operation=\"commit\",kind=\"durability_not_reached\"}";
    assert!(world.coordinator.metric(refusals) >= 2.0);
}
