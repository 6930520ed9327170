//! Plants bugs into real coordinators: the checkers must find each, for the right reason.
//!
//! Two coordinators and the members run in this process, on a store with one bug. Without a bug the checkers find
//! nothing.

#![allow(clippy::unwrap_used)]

use std::{
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use teamwire_chaos::{
    buggy_store::{Bug, BuggyStore},
    check::{self, Promise, Violation},
    cluster,
    history::{self, Event, What},
    hostile::{Harm, HostileTeam, Target},
    hosts, lead, member, ordered, orders,
};
use teamwire_client::{self as client, Client, Retry, SubscribeOptions, Subscription, v1};
use teamwire_server::{
    domain::Limits,
    server::{self, Listeners},
    store::{self, Store},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};

const SECRET: &str = "planted0123456789abcdef";

/// Starts two coordinators on a store in memory with a bug. Returns their addresses.
async fn coordinators(bug: Bug, stop: &CancellationToken) -> Vec<String> {
    coordinators_on("memory:", Limits::default(), bug, stop).await
}

/// Starts two coordinators on a store with a bug. Returns their addresses.
async fn coordinators_on(store: &str, limits: Limits, bug: Bug, stop: &CancellationToken) -> Vec<String> {
    let store = store::open(store).await.unwrap();
    let buggy_store = BuggyStore::new(store, bug);
    let mut addresses = Vec::new();
    for _ in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(format!("http://{}", listener.local_addr().unwrap()));
        let listeners = Listeners { protocol: listener, health: None };
        let buggy_store: Arc<dyn Store> = Arc::clone(&buggy_store) as _;
        let mut config = server::Config::new(SECRET);
        config.limits = limits.clone();
        if bug == Bug::ShortLeases {
            // With the default lease no member could become lost in time.
            (config.limits.lease_ttl, config.limits.lost_grace) = (Duration::from_secs(1), Duration::ZERO);
            config.pace.heartbeat_interval = Duration::from_millis(200);
        }
        tokio::spawn(server::run(config, buggy_store, listeners, stop.clone()));
    }
    addresses
}

/// Runs members on a store with a bug for a while, and returns the promises that were broken.
async fn broken(bug: Bug) -> Vec<Promise> {
    let directory = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let addresses = coordinators(bug, &stop).await;
    let address = addresses.join(",");
    let note = history::Recorder::open(directory.path(), "supervisor", 1).unwrap();
    let began_us = history::now_us();
    if bug == Bug::Stalls {
        note.note(What::FloodBegan);
    }

    let anonymous = Client::connect(&address).unwrap().with_retry(Retry::within(Duration::from_secs(5)));
    let operator = anonymous.with_credential(&format!("two:{SECRET}")).unwrap();
    let create = v1::CreateTeamRequest { name: "planted".to_owned(), ..Default::default() };
    let created = operator.create_team_with(create).await.unwrap();
    let lead = anonymous.with_credential(&created.credential).unwrap();
    let mut members = JoinSet::new();
    let mut configs = Vec::new();
    for (at, member) in ["m1", "m2", "m3"].into_iter().enumerate() {
        // A coordinator does not read back what it committed itself.
        let address = if bug == Bug::SwappedEntries { addresses[at % 2].clone() } else { address.clone() };
        let invite = v1::InviteRequest { member: member.to_owned(), ..Default::default() };
        let token = lead.invite(invite).await.unwrap().join_token;
        let joined = anonymous.with_credential(&token).unwrap().join(v1::JoinRequest::default()).await.unwrap();
        configs.push(member::Config {
            directory: directory.path().to_owned(),
            member: member.to_owned(),
            process: 1,
            seed: 7,
            address,
            credential: joined.credential,
            others: ["m1", "m2", "m3"].into_iter().filter(|other| *other != member).map(str::to_owned).collect(),
        });
    }
    for config in &configs {
        members.spawn(supervised(config.clone()));
    }
    let inbox = lead.with_credential(&created.credential).unwrap();
    members.spawn(async move {
        lead::read_all(inbox).await;
        Ok(0)
    });
    for round in 0..60 {
        for _ in 0..3 {
            let task = v1::CreateTaskRequest { subject: "work".to_owned(), ..Default::default() };
            let _ = lead.create_task(task).await;
        }
        sleep(Duration::from_millis(50)).await;
        // Sometimes another process supersedes a member in the middle of its work.
        if round % 15 == 10 {
            let config = &mut configs[round % 3];
            config.process += 1;
            members.spawn(supervised(config.clone()));
        }
    }
    std::fs::write(directory.path().join(member::QUIET), "").unwrap();
    settle(&lead, directory.path()).await;
    members.shutdown().await;
    match bug {
        Bug::SilentLoss => note.note(What::MayBeLost { from_us: began_us, until_us: history::now_us() }),
        Bug::Leak => {
            let peak_bytes = cluster::peak_bytes(std::process::id()).unwrap();
            note.note(What::Memory { coordinator: 1, peak_bytes });
        }
        _ => {}
    }
    teamwire_chaos::final_state::record(&lead, &note).await.unwrap();
    let events = history::read(directory.path()).unwrap();
    let counts = check::count(&events);
    assert!(counts.sent > 100 && counts.claimed > 10 && counts.sessions > 3, "too little happened: {counts:?}");
    judge_too(bug, directory.path());
    broken_in(bug, &events)
}

/// Returns the violations that Porcupine finds in a history. `None` if it is not there, which fails in CI.
fn judge(bug: Bug, history: &Path) -> Option<Vec<Violation>> {
    let judged = check::porcupine::judge(history).unwrap();
    assert!(judged.is_some() || std::env::var_os("CI").is_none(), "{} is not set", check::porcupine::VARIABLE);
    let (violations, summary) = judged?;
    eprintln!("{bug:?}: {summary}");
    Some(violations)
}

/// Has Porcupine judge a history, too: it must find the bugs that its models are about, and no other ones.
fn judge_too(bug: Bug, history: &Path) {
    let Some(violations) = judge(bug, history) else { return };
    let found = |promise: Promise| violations.iter().any(|violation| violation.promise == promise);
    match bug {
        Bug::NoClaimCheck => assert!(found(Promise::Claims), "{violations:?}"),
        Bug::NoFence => assert!(found(Promise::Fenced), "{violations:?}"),
        _ => assert_eq!(violations, []),
    }
}

/// Returns the promises that a history breaks.
fn broken_in(bug: Bug, events: &[Event]) -> Vec<Promise> {
    let violations = check::check(events);
    for violation in violations.iter().take(5) {
        eprintln!("{bug:?}: {violation}");
    }
    let mut promises: Vec<_> = violations.into_iter().map(|violation| violation.promise).collect();
    promises.sort_unstable();
    promises.dedup();
    promises
}

/// Runs a member, and records its end as a supervisor does: its calls that are in flight then never get an outcome.
async fn supervised(config: member::Config) -> Result<u8, client::Error> {
    let recorder = history::Recorder::open(&config.directory, &config.member, config.process).unwrap();
    let ended = member::run(config).await;
    recorder.note(What::Exited { code: ended.as_ref().ok().map(|code| i32::from(*code)) });
    ended
}

/// Waits until no call is in flight, up to 30 s, and until all inboxes are empty, up to 8 s. A bug may prevent both.
async fn settle(lead: &Client, directory: &Path) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        sleep(Duration::from_millis(50)).await;
        let members = lead.list_all_members(v1::ListMembersRequest::default(), usize::MAX).await.unwrap().members;
        let is_empty = members.iter().all(|member| member.inbox_depth == 0);
        // With some bugs, an inbox never becomes empty.
        let is_settled = is_empty || began.elapsed() > Duration::from_secs(8);
        if is_settled && history::in_flight(&history::read(directory).unwrap()) == 0 {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_violation_is_found_without_a_bug() {
    assert_eq!(broken(Bug::None).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trimmed_inbox_is_found() {
    assert!(broken(Bug::TrimmedInbox).await.contains(&Promise::NothingLost));
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_idempotency_keys_are_found() {
    assert_eq!(broken(Bug::NoIdempotency).await, [Promise::NothingDuplicated]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swapped_inbox_entry_is_found() {
    assert!(broken(Bug::SwappedEntries).await.contains(&Promise::NothingInvented));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_session_fence_is_found() {
    assert!(broken(Bug::NoFence).await.contains(&Promise::Fenced));
}

#[tokio::test(flavor = "multi_thread")]
async fn unchecked_claims_are_found() {
    assert!(broken(Bug::NoClaimCheck).await.contains(&Promise::Claims));
}

#[tokio::test(flavor = "multi_thread")]
async fn expiring_leases_are_found() {
    assert!(broken(Bug::ShortLeases).await.contains(&Promise::Alive));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreported_loss_is_found() {
    let broken = broken(Bug::SilentLoss).await;
    assert!(broken.contains(&Promise::LossReported) && !broken.contains(&Promise::NothingLost), "{broken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_delayed_by_a_flood_are_found() {
    assert_eq!(broken(Bug::Stalls).await, [Promise::Responsive]);
}

/// Runs a team with hostile members on a store with a bug, and returns the promises that were broken.
async fn broken_beside_hostile_members(bug: Bug) -> Vec<Promise> {
    let directory = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let file = directory.path().join("store");
    // In memory it is fast enough to exceed a quota by far. Only a file has a size.
    let url = if bug == Bug::NoQuota { "memory:".to_owned() } else { format!("embedded:{}", file.display()) };
    // Small enough to be filled at once, and to be exceeded however busy the machine is.
    let team_bytes_max = if bug == Bug::NoQuota { 256 << 10 } else { 1 << 20 };
    let limits = Limits { team_bytes_max, ..Limits::default() };
    let addresses = coordinators_on(&url, limits, bug, &stop).await;
    let port = addresses[0].rsplit(':').next().unwrap().parse().unwrap();
    let history = directory.path().join("history");
    std::fs::create_dir(&history).unwrap();
    let recorder = history::Recorder::open(&history, "others", 1).unwrap();
    let target = Target { port, listeners: Vec::new() };
    let team = HostileTeam::create(target, &format!("two:{SECRET}"), &[Harm::TaskChanges]).await.unwrap();
    // Long enough for 40 sends.
    team.run(Duration::from_secs(12), recorder, async || cluster::disk_bytes(&file)).await.unwrap();
    let mut broken = broken_in(bug, &history::read(&history).unwrap());
    // How long the lead waits on a machine that runs all tests at once says nothing, unless it is the bug.
    broken.retain(|promise| *promise != Promise::Unharmed || bug == Bug::StalledLead);
    broken
}

#[tokio::test(flavor = "multi_thread")]
async fn no_violation_is_found_beside_hostile_members_without_a_bug() {
    assert_eq!(broken_beside_hostile_members(Bug::None).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lead_that_is_kept_waiting_is_found() {
    assert_eq!(broken_beside_hostile_members(Bug::StalledLead).await, [Promise::Unharmed]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_pushed_out_of_the_history_is_found() {
    assert_eq!(broken_beside_hostile_members(Bug::TrimmedHistory).await, [Promise::Kept]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_privileged_call_missing_from_the_audit_log_is_found() {
    assert_eq!(broken_beside_hostile_members(Bug::TrimmedAudit).await, [Promise::Kept]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_that_holds_more_than_its_quota_is_found() {
    assert_eq!(broken_beside_hostile_members(Bug::NoQuota).await, [Promise::StoreBounded]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_grows_by_uncounted_data_is_found() {
    assert_eq!(broken_beside_hostile_members(Bug::Hoards).await, [Promise::StoreBounded]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_leak_is_found() {
    assert_eq!(broken(Bug::Leak).await, [Promise::MemoryBounded]);
}

/// A team with a host, on coordinators with a bug.
struct Hosted {
    bug: Bug,
    history: tempfile::TempDir,
    _stopped: DropGuard,
    anonymous: Client,
    lead: Client,
    host: Client,
    giving: history::Recorder,
    watching: JoinHandle<()>,
}

impl Hosted {
    async fn start(bug: Bug) -> Self {
        let history = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let address = coordinators(bug, &stop).await.join(",");
        let anonymous = Client::connect(&address).unwrap().with_retry(Retry::within(Duration::from_secs(5)));
        let operator = anonymous.with_credential(&format!("two:{SECRET}")).unwrap();
        let create = v1::CreateTeamRequest { name: "planted".to_owned(), ..Default::default() };
        let created = operator.create_team_with(create).await.unwrap();
        let lead = anonymous.with_credential(&created.credential).unwrap();
        let token = lead.invite_host("host1").await.unwrap().join_token;
        let joining = v1::JoinRequest { host: true, ..v1::JoinRequest::default() };
        let joined = anonymous.with_credential(&token).unwrap().join(joining).await.unwrap();
        let host = anonymous.with_credential(&joined.credential).unwrap();
        let profile = v1::HostProfile { name: "agent".to_owned(), ..Default::default() };
        let offer = v1::HostOffer { profiles: vec![profile], slots: 2, ..Default::default() };
        host.update_host(v1::UpdateHostRequest { offer: Some(offer) }).await.unwrap();
        let record = |process| history::Recorder::open(history.path(), lead::LEAD, process).unwrap();
        let watching = tokio::spawn(orders::watch(lead.clone(), record(5)));
        let giving = record(4);
        Self { bug, history, _stopped: stop.drop_guard(), anonymous, lead, host, giving, watching }
    }

    /// Takes the order of a member as its host does, and opens the member's session. Returns the order, and a client
    /// with the member's identity and no session, as its program has.
    async fn begin(&self, name: &str) -> (String, Client, Subscription) {
        let pending = self.lead.members().await.unwrap().into_iter().find(|member| member.name == name).unwrap();
        let request_id = pending.pending_order;
        let take = v1::TakeOrderRequest { request_id: request_id.clone() };
        let token = self.host.take_order(take).await.unwrap().join_token;
        let joined = self.anonymous.with_credential(&token).unwrap().join(v1::JoinRequest::default()).await.unwrap();
        let member = self.anonymous.with_credential(&joined.credential).unwrap();
        let mut session = member.subscribe(SubscribeOptions::default());
        assert!(matches!(session.next().await, Some(Ok(client::Event::Opened(_)))));
        (request_id, self.anonymous.with_credential(&joined.credential).unwrap(), session)
    }

    /// Begins the record of a program that was started for an order.
    fn program(&self, name: &str, process: u32, request_id: &str) -> history::Recorder {
        let recorder = history::Recorder::open(self.history.path(), name, process).unwrap();
        recorder.note(What::Began { request_id: request_id.to_owned() });
        recorder
    }

    /// Ends the run. Returns the promises that were broken. Porcupine must find its promise among them, and no other.
    async fn end(self) -> Vec<Promise> {
        self.watching.abort();
        let note = history::Recorder::open(self.history.path(), lead::LEAD, 3).unwrap();
        teamwire_chaos::final_state::record(&self.lead, &note).await.unwrap();
        let broken = broken_in(self.bug, &history::read(self.history.path()).unwrap());
        // Its model of names knows nothing of two processes for one order.
        let is_about_names = broken == [Promise::OneProcess];
        if let Some(violations) = judge(self.bug, self.history.path()) {
            assert_eq!(violations.len(), usize::from(is_about_names), "{violations:?}");
            assert!(violations.iter().all(|violation| violation.promise == Promise::OneProcess), "{violations:?}");
        }
        broken
    }
}

/// Orders two members from a host on a store with a bug, and returns the promises that were broken. The host starts
/// this many processes of the first one. It leaves the order of the other one alone, so that it expires.
async fn broken_orders(bug: Bug, started: u32) -> Vec<Promise> {
    let team = Hosted::start(bug).await;
    orders::give_one(&team.lead, &team.giving, 1, "o1", 60).await;
    let (request_id, client, _session) = team.begin("o1").await;
    let mut programs = Vec::new();
    for process in 1..=started {
        programs.push(team.program("o1", process, &request_id));
        for op in 1..=3 {
            for program in &programs {
                ordered::act(&client, program, 10 * u64::from(process) + op).await;
            }
        }
    }
    orders::give_one(&team.lead, &team.giving, 2, "o2", 1).await;
    // Until the order of the other one is long overdue, or has expired.
    for _ in 0..130 {
        sleep(Duration::from_millis(100)).await;
        let members = team.lead.members().await.unwrap();
        if !members.iter().any(|member| member.state() == v1::MemberState::Spawning) {
            break;
        }
    }
    team.end().await
}

/// A host that says a program has ended, and leaves it running with the identity of the next member of that name.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_works_on_under_the_next_member_is_found() {
    let team = Hosted::start(Bug::None).await;
    orders::give_one(&team.lead, &team.giving, 1, "o1", 60).await;
    let (first, client, _session) = team.begin("o1").await;
    let leftover = team.program("o1", 1, &first);
    ordered::act(&client, &leftover, 1).await;
    team.lead.force_stop("o1", "This took too long.").await.unwrap();
    let exit = v1::ExitReport { code: Some(0), ..Default::default() };
    team.host.report_exit(v1::ReportExitRequest { request_id: first, exit: Some(exit) }).await.unwrap();
    orders::give_one(&team.lead, &team.giving, 2, "o1", 60).await;
    let (second, client, _session) = team.begin("o1").await;
    let program = team.program("o1", 2, &second);
    ordered::act(&client, &program, 1).await;
    ordered::act(&client, &leftover, 2).await;
    assert_eq!(team.end().await, [Promise::OneProcess]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_violation_is_found_in_orders_without_a_bug() {
    assert_eq!(broken_orders(Bug::None, 1).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_starts_two_processes_for_an_order_is_found() {
    assert_eq!(broken_orders(Bug::None, 2).await, [Promise::Orders, Promise::OneProcess]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_that_never_ends_is_found() {
    assert_eq!(broken_orders(Bug::OneDecision, 1).await, [Promise::Orders]);
}

/// A host that forgets a process, and one that keeps the record of an order.
#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_a_member_on_a_host_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let orders = directory.path().join("hosts/host1/state/hosts/team/orders");
    std::fs::create_dir_all(&orders).unwrap();
    let left = || hosts::left_in(&directory.path().join("hosts"));
    assert!(left().is_empty());
    let mut program = tokio::process::Command::new("sh");
    program.args(["-c", "echo started; read -r line"]).env("TEAMWIRE_CONTEXT", orders.join("req_1/context.json"));
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    // A process that has not begun to run its program may have no environment yet.
    let said = BufReader::new(program.stdout.take().unwrap()).lines().next_line().await.unwrap();
    assert_eq!(said.as_deref(), Some("started"));
    assert_eq!(left().len(), 1, "{:?}", left());
    std::fs::create_dir(orders.join("req_2")).unwrap();
    assert_eq!(left().len(), 2, "{:?}", left());
    let note = history::Recorder::open(directory.path(), lead::LEAD, 3).unwrap();
    left().into_iter().for_each(|detail| note.note(What::FinalLeft { detail }));
    assert_eq!(broken_in(Bug::None, &history::read(directory.path()).unwrap()), [Promise::NothingLeft]);
    program.kill().await.unwrap();
    std::fs::remove_dir(orders.join("req_2")).unwrap();
    assert!(left().is_empty());
}
