//! The same random calls come to the same over both stores: every reply and refusal, and everything that is there after
//! each of them, up to the names of ids. And after each call the invariants hold.
//!
//! Two coordinators share each store and take turns, so that each decides on what the other has changed. Time moves with
//! every call, in steps so large that how fast a store is does not matter. The seed is fixed, and `TEAMWIRE_SEED` sets
//! another; `PROPTEST_CASES` sets how many cases are tried.

mod tasks;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use teamwire_proto::{
    Refusal,
    name::Name,
    v1::{self, RequestKind, RequestState, history_entry::Event},
};
use teamwire_server::{
    coordinator::{Coordinator, HistoryQuery},
    domain::{Limits, identity::CallerCredentials, record::inbox, task::board::TaskRecord},
    store::{Namespace, Store, embedded::EmbeddedStore, redis::RedisStore},
};

use crate::{
    board_check::check_board,
    clock::MovedClock,
    team::{
        all_members, answer, answer_plan, broadcast, coordinator, create, keyed, message, operator, plan, presented,
        shutdown,
    },
    test_redis::TestRedis,
};

use tasks::{Finish, task_calls};

/// Who takes part: a lead, three that join, and one name that nobody bears.
const NAMES: [&str; 5] = ["lead", "Ann", "bob", "cid", "nobody"];

/// How much time passes with each call.
const STEP: Duration = Duration::from_secs(1_000);

/// The bounds of these runs, each half a step off any whole number of steps.
fn limits() -> Limits {
    Limits {
        inbox_entries_max: 3,
        shutdown_deadline: Duration::from_secs(6_500),
        plan_deadline: Duration::from_secs(4_500),
        lease_ttl: Duration::from_secs(9_500),
        lost_grace: Duration::from_secs(3_000),
        exit_alarm_after: Duration::from_secs(5_500),
        open_tasks_max: 8,
        claims_max: 2,
        task_dependencies_max: 3,
        board_dependencies_max: 6,
        join_token_ttl: Duration::from_secs(20_500),
        ..Limits::default()
    }
}

/// Who makes a call: the latest credential of a name, an earlier one, or the operator's.
#[derive(Clone, Debug)]
enum By {
    Member(&'static str),
    Former(&'static str),
    Operator,
}

#[derive(Clone, Debug)]
enum Call {
    Message {
        to: &'static str,
        key: Option<u8>,
    },
    Broadcast {
        key: Option<u8>,
    },
    Shutdown {
        to: &'static str,
        key: Option<u8>,
    },
    Plan {
        key: Option<u8>,
    },
    Answer {
        request: Index,
        approve: Option<bool>,
        key: Option<u8>,
    },
    AnswerPlan {
        request: Index,
        to: &'static str,
        approve: Option<bool>,
    },
    /// The one that is asked answers the newest request, so that runs get somewhere.
    AnswerRightly {
        approve: bool,
    },
    Ack {
        first: Index,
        count: usize,
    },
    Open,
    Heartbeat {
        activity: v1::Activity,
    },
    Leave {
        code: i32,
    },
    Rejoin {
        key: Option<u8>,
    },
    /// By a token that the operator has minted for it.
    Join {
        name: &'static str,
    },
    Force {
        member: &'static str,
    },
    SetLead {
        member: &'static str,
    },
    Delete,
    Sweep {
        may_lose: bool,
    },
    AddTask {
        owner: &'static str,
        after: Vec<Index>,
        key: Option<u8>,
    },
    /// One task, or the next.
    Claim {
        task: Option<Index>,
        key: Option<u8>,
    },
    /// With the token of any claim that there ever was, or with none.
    Finish {
        claim: Index,
        token: bool,
        how: Finish,
    },
    /// The owner of the newest claim finishes its task, so that runs get somewhere.
    FinishRightly {
        how: Finish,
    },
    ChangeTask {
        task: Index,
        owner: Option<&'static str>,
        add: Vec<Index>,
        remove: Vec<Index>,
    },
    DeleteTask {
        task: Index,
    },
}

#[derive(Clone, Debug)]
struct Step {
    by: By,
    coordinator: usize,
    call: Call,
}

fn names() -> impl Strategy<Value = &'static str> {
    select(&NAMES[..])
}

fn keys() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![3 => Just(None), 1 => (0..3_u8).prop_map(Some)]
}

fn by() -> impl Strategy<Value = By> {
    prop_oneof![
        4 => Just(By::Member("lead")),
        10 => names().prop_map(By::Member),
        1 => names().prop_map(By::Former),
        2 => Just(By::Operator),
    ]
}

/// `on_tasks`: most of them about tasks.
fn calls(on_tasks: bool) -> impl Strategy<Value = Call> {
    let approve = || prop_oneof![4 => any::<bool>().prop_map(Some), 1 => Just(None)];
    let activity = select(&[v1::Activity::Unspecified, v1::Activity::Active, v1::Activity::Idle][..]);
    prop_oneof![
        8 => (names(), keys()).prop_map(|(to, key)| Call::Message { to, key }),
        3 => keys().prop_map(|key| Call::Broadcast { key }),
        5 => (names(), keys()).prop_map(|(to, key)| Call::Shutdown { to, key }),
        4 => keys().prop_map(|key| Call::Plan { key }),
        3 => (any::<Index>(), approve(), keys())
            .prop_map(|(request, approve, key)| Call::Answer { request, approve, key }),
        2 => (any::<Index>(), names(), approve())
            .prop_map(|(request, to, approve)| Call::AnswerPlan { request, to, approve }),
        6 => any::<bool>().prop_map(|approve| Call::AnswerRightly { approve }),
        6 => (any::<Index>(), 1..4_usize).prop_map(|(first, count)| Call::Ack { first, count }),
        3 => Just(Call::Open),
        4 => activity.prop_map(|activity| Call::Heartbeat { activity }),
        2 => (0..3).prop_map(|code| Call::Leave { code }),
        2 => keys().prop_map(|key| Call::Rejoin { key }),
        4 => names().prop_map(|name| Call::Join { name }),
        2 => names().prop_map(|member| Call::Force { member }),
        1 => names().prop_map(|member| Call::SetLead { member }),
        1 => Just(Call::Delete),
        4 => any::<bool>().prop_map(|may_lose| Call::Sweep { may_lose }),
        if on_tasks { 150 } else { 15 } => task_calls(),
    ]
}

fn steps(on_tasks: bool) -> impl Strategy<Value = Step> {
    (by(), 0..2_usize, calls(on_tasks)).prop_map(|(by, coordinator, call)| Step { by, coordinator, call })
}

/// One store with its coordinators, and what a client would remember.
struct Side {
    clock: Arc<MovedClock>,
    coordinators: [Arc<Coordinator>; 2],
    namespace: Namespace,
    team: String,
    credentials: HashMap<&'static str, Vec<String>>,
    /// The ids that have appeared, in their order: each is shown as its place.
    ids: HashMap<String, usize>,
    requests: Vec<v1::Request>,
    /// What was OK'd: the message's id and its recipients.
    accepted: BTreeMap<String, Vec<String>>,
    acked: u64,
    /// Every claim that was given: the task, who claimed it, the token.
    claims: Vec<(u64, &'static str, String)>,
    last_task: u64,
}

impl Side {
    async fn new(store: Arc<dyn Store>, team: &str) -> Self {
        let clock = MovedClock::over(store);
        let coordinators = [coordinator(clock.clone(), limits()).await, coordinator(clock.clone(), limits()).await];
        let reply = coordinators[0].create_team(&operator(), &create(team)).await.unwrap();
        let mut side = Self {
            clock,
            coordinators,
            namespace: Namespace::team(&Name::parse(team, "team").unwrap()),
            team: team.to_owned(),
            credentials: [("lead", vec![reply.credential])].into(),
            ids: HashMap::new(),
            requests: Vec::new(),
            accepted: BTreeMap::new(),
            acked: 0,
            claims: Vec::new(),
            last_task: 0,
        };
        // Each coordinator has seen a moment of its own.
        for (index, name) in NAMES[1..4].iter().enumerate() {
            side.step(&Step { by: By::Operator, coordinator: index % 2, call: Call::Join { name } }).await.unwrap();
        }
        for _ in 0..4 {
            let call = Call::AddTask { owner: "", after: Vec::new(), key: None };
            side.step(&Step { by: By::Operator, coordinator: 0, call }).await.unwrap();
            side.last_task += 1;
        }
        side
    }

    /// Returns what is shown of an answer: without times, with a place for each id.
    fn shown(&mut self, answer: &impl Debug) -> String {
        let text = format!("{answer:?}");
        let mut shown = String::new();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        for word in text.split_inclusive(|c| !is_part(c)) {
            let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
            let is_token = end == 40 && word[..end].bytes().all(|b| b.is_ascii_hexdigit());
            let is_id = uuid::Uuid::try_parse(&word[..end]).is_ok() || (word.starts_with("req_") && end == 30);
            if is_id || is_token {
                let next = self.ids.len();
                let place = *self.ids.entry(word[..end].to_owned()).or_insert(next);
                shown.push_str(&format!("#{place}{}", &word[end..]));
            } else {
                shown.push_str(word);
            }
        }
        shown
    }

    fn who(&self, by: &By) -> CallerCredentials {
        let known = |name| self.credentials.get(name).map(Vec::as_slice).unwrap_or_default();
        let stranger = format!("twm:{}:nobody:{}", self.team, "0".repeat(40));
        match by {
            By::Operator => operator(),
            By::Member(name) => presented(known(name).last().unwrap_or(&stranger)),
            By::Former(name) => presented(known(name).first().unwrap_or(&stranger)),
        }
    }

    async fn step(&mut self, step: &Step) -> Result<String, String> {
        self.clock.advance(STEP);
        let who = self.who(&step.by);
        let answer = self.call(&who, step).await;
        match answer {
            Ok(text) => Ok(text),
            Err(refusal) => Err(self.shown(&refusal)),
        }
    }

    async fn call(&mut self, who: &CallerCredentials, step: &Step) -> Result<String, Refusal> {
        let coordinator = Arc::clone(&self.coordinators[step.coordinator]);
        let team = if who.credential.team().is_none() { self.team.clone() } else { String::new() };
        let pick = |requests: &[v1::Request], index: &Index| match requests.len() {
            0 => crate::team::unknown_request(),
            len => requests[index.index(len)].id.clone(),
        };
        let by_name = match step.by {
            By::Member(name) | By::Former(name) => name,
            By::Operator => "nobody",
        };
        let (request, key) = match &step.call {
            Call::Message { to, key } => (message(to, "x"), key),
            Call::Broadcast { key } => (broadcast("x"), key),
            Call::Shutdown { to, key } => (shutdown(to), key),
            Call::Plan { key } => (plan("p"), key),
            Call::Answer { request, approve, key } => {
                (answer(&pick(&self.requests, request), *approve, "because"), key)
            }
            Call::AnswerPlan { request, to, approve } => {
                (answer_plan(to, &pick(&self.requests, request), *approve, "because"), &None)
            }
            Call::AnswerRightly { approve } => return self.answer_rightly(&coordinator, *approve).await,
            Call::Ack { first, count } => {
                let listed = coordinator.list_inbox(who, &v1::ListInboxRequest::default()).await?;
                let ids: Vec<_> = listed.deliveries.into_iter().filter_map(|d| Some(d.message?.id)).collect();
                let from = if ids.is_empty() { 0 } else { first.index(ids.len()) };
                let message_ids = ids.into_iter().skip(from).take(*count).collect();
                let request = v1::AckRequest { session_id: String::new(), message_ids };
                let acked = coordinator.acknowledge(who, &request).await?;
                self.acked += u64::from(acked);
                return Ok(format!("acked {acked}"));
            }
            Call::Open => {
                coordinator.open_session(who, &v1::StreamRequest::default()).await?;
                return Ok("opened".to_owned());
            }
            Call::Heartbeat { activity } => {
                let request = v1::HeartbeatRequest { activity: (*activity).into(), summary: String::new() };
                let reply = coordinator.heartbeat(who, &request).await?;
                return Ok(self.shown(&reply));
            }
            Call::Leave { code } => {
                let exit = Some(v1::ExitReport { code: Some(*code), ..Default::default() });
                coordinator.leave(who, &v1::LeaveRequest { exit }).await?;
                return Ok("left".to_owned());
            }
            Call::Rejoin { key } => {
                let idempotency_key = key.map_or(String::new(), |key| format!("k{key}"));
                let request = v1::JoinRequest { idempotency_key, ..Default::default() };
                let reply = coordinator.join(who, &request).await?;
                return Ok(self.joined(by_name, reply));
            }
            Call::Join { name } => {
                let invite = v1::InviteRequest {
                    team: self.team.clone(),
                    member: (*name).to_owned(),
                    plan_mode_required: *name == "cid",
                    ..Default::default()
                };
                let token = coordinator.invite(&operator(), &invite).await?.join_token;
                let reply = coordinator.join(&presented(&token), &v1::JoinRequest::default()).await?;
                return Ok(self.joined(name, reply));
            }
            Call::Force { member } => {
                let request = v1::ForceStopRequest { team, member: (*member).to_owned(), reason: String::new() };
                let member = coordinator.force_stop(who, &request).await?;
                return Ok(format!("{:?} {:?}", member.name, member.state()));
            }
            Call::SetLead { member } => {
                let request = v1::SetLeadRequest { team, member: (*member).to_owned() };
                return Ok(coordinator.set_lead(who, &request).await?.lead);
            }
            Call::Delete => {
                coordinator.delete_team(who, &team).await?;
                return Ok("deleted".to_owned());
            }
            Call::Sweep { may_lose } => {
                let leases = self.clock.leases(&self.namespace).await.unwrap();
                coordinator.sweep(&self.namespace, &leases, *may_lose).await?;
                return Ok("swept".to_owned());
            }
            Call::FinishRightly { how } => return self.finish_rightly(&coordinator, *how).await,
            Call::Finish { claim, token, how } => {
                let given = (!self.claims.is_empty()).then(|| self.claims[claim.index(self.claims.len())].clone());
                let (id, _, proof) = given.unwrap_or((1, "nobody", String::new()));
                return self.finish(&coordinator, who, id, if *token { &proof } else { "" }, *how).await;
            }
            Call::AddTask { .. } | Call::Claim { .. } | Call::ChangeTask { .. } | Call::DeleteTask { .. } => {
                return self.task_call(&coordinator, who, by_name, team, &step.call).await;
            }
        };
        let request = match key {
            Some(key) => keyed(&format!("k{key}"), request),
            None => request,
        };
        let reply = coordinator.send(who, &v1::SendRequest { team, ..request }).await?;
        Ok(self.sent(reply))
    }

    fn sent(&mut self, reply: v1::SendResponse) -> String {
        if !reply.replayed {
            let before = self.accepted.insert(reply.message_id.clone(), reply.recipients.clone());
            assert!(before.is_none(), "an id was given out twice");
        }
        // Stores differ in how durable they are.
        self.shown(&v1::SendResponse { sent_at: None, durability: 0, ..reply })
    }

    fn joined(&mut self, name: &'static str, reply: v1::JoinResponse) -> String {
        self.credentials.entry(name).or_default().push(reply.credential);
        let member = reply.member.unwrap();
        format!("{} {}", member.name, member.incarnation)
    }

    async fn answer_rightly(&mut self, coordinator: &Coordinator, approve: bool) -> Result<String, Refusal> {
        let Some(newest) = self.requests.iter().rev().find(|request| request.state() == RequestState::Pending).cloned()
        else {
            return Ok("nothing is pending".to_owned());
        };
        let (who, request) = match newest.kind() {
            RequestKind::Shutdown => {
                let name = NAMES.iter().find(|name| newest.member == **name).unwrap();
                (self.who(&By::Member(name)), answer(&newest.id, Some(approve), "because"))
            }
            _ => (operator(), answer_plan(&newest.member, &newest.id, Some(approve), "because")),
        };
        let team = if who.credential.team().is_none() { self.team.clone() } else { String::new() };
        let reply = coordinator.send(&who, &v1::SendRequest { team, ..request }).await?;
        Ok(self.sent(reply))
    }

    /// Everything that is there, without times and with places for ids; and the invariants of it. `None`: the team was
    /// deleted.
    async fn state(&mut self) -> Option<String> {
        let coordinator = Arc::clone(&self.coordinators[0]);
        let mut members = coordinator.list_members(&operator(), &all_members(&self.team)).await.ok()?.members;
        for member in &mut members {
            (member.joined_at, member.state_since, member.lease_left) = (None, None, None);
        }
        let list = v1::ListRequestsRequest { team: self.team.clone(), page_size: 1_000, ..Default::default() };
        let mut requests = coordinator.list_requests(&operator(), &list).await.unwrap().requests;
        requests.reverse();
        for (before, now) in self.requests.iter().zip(&requests) {
            assert_eq!(before.id, now.id);
            if before.state() != RequestState::Pending {
                assert_eq!(before, now, "a terminal state never changes");
            }
        }
        self.requests.clone_from(&requests);
        self.check_pending(&members);
        let mut shown = vec![self.shown(&members)];
        for request in requests {
            shown.push(self.shown(&v1::Request { created_at: None, expires_at: None, decided_at: None, ..request }));
        }
        for entry in self.check_history(&coordinator, &members).await {
            shown.push(self.shown(&entry));
        }
        let board = check_board(&*self.clock, &self.namespace).await;
        self.last_task = board.last_id;
        for task in board.tasks.into_values() {
            let untimed = TaskRecord { created_ms: 0, updated_ms: 0, claimed_ms: 0, closed_ms: 0, ..task };
            shown.push(self.shown(&untimed));
        }
        Some(shown.join("\n"))
    }

    fn check_pending(&self, members: &[v1::Member]) {
        let pending = |kind: RequestKind, name: &str| {
            let pending = self.requests.iter().filter(|r| r.state() == RequestState::Pending && r.kind() == kind);
            pending.filter(|request| request.member == name).cloned().collect::<Vec<_>>()
        };
        for member in members {
            for (kind, shown) in
                [(RequestKind::Shutdown, &member.pending_shutdown), (RequestKind::PlanApproval, &member.pending_plan)]
            {
                let pending = pending(kind, &member.name);
                assert!(pending.len() <= 1, "{kind:?} for {} is pending twice: {pending:?}", member.name);
                // One that is overdue and not swept yet is not shown any more.
                assert!(shown.is_empty() || pending[0].id == *shown);
                assert!(pending.iter().all(|request| request.incarnation == member.incarnation));
            }
        }
    }

    /// Returns the history without times, checked against what was OK'd and what is in the inboxes.
    async fn check_history(&self, coordinator: &Coordinator, members: &[v1::Member]) -> Vec<v1::HistoryEntry> {
        let filter = Some(v1::HistoryFilter { include_receipts: true, ..Default::default() });
        let query = HistoryQuery { filter, limit: 1_000, ..Default::default() };
        let mut entries = coordinator.history(&operator(), &self.team, &query).await.unwrap().entries;
        let mut written = BTreeSet::new();
        let mut places: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let (mut waiting, mut finished) = (BTreeMap::<String, u64>::new(), 0);
        for (index, entry) in entries.iter_mut().enumerate() {
            assert_eq!(entry.sequence, index as u64 + 1, "the history is dense");
            entry.at = None;
            for receipt in &mut entry.receipts {
                (receipt.queued_at, receipt.delivered_at, receipt.finished_at) = (None, None, None);
                match receipt.state() {
                    v1::ReceiptState::Queued | v1::ReceiptState::Delivered => {
                        *waiting.entry(receipt.recipient.clone()).or_default() += 1;
                    }
                    v1::ReceiptState::Processed => finished += 1,
                    _ => assert_eq!(receipt.dead_letter_cause(), v1::DeadLetterCause::InboxFull, "no session has run"),
                }
                if receipt.sequence > 0 {
                    places.entry(receipt.recipient.clone()).or_default().push(receipt.sequence);
                }
            }
            match &mut entry.event {
                Some(Event::Message(message)) => {
                    assert!(written.insert(message.id.clone()), "a message is in the history once");
                    let named: Vec<_> = entry.receipts.iter().map(|receipt| receipt.recipient.clone()).collect();
                    assert_eq!(named, message.recipients, "each recipient has a receipt");
                    if let Some(recipients) = self.accepted.get(&message.id) {
                        assert_eq!(*recipients, message.recipients);
                        // All or nothing: what was OK'd is, or was, in each inbox.
                        assert!(entry.receipts.iter().all(|receipt| receipt.sequence > 0), "{:?}", entry.receipts);
                    }
                    (message.sent_at, message.request_expires_at) = (None, None);
                    message.team = String::new();
                }
                Some(Event::Decision(request)) => {
                    assert_ne!(request.state(), RequestState::Pending);
                    (request.created_at, request.expires_at, request.decided_at) = (None, None, None);
                }
                _ => {}
            }
        }
        let accepted: BTreeSet<_> = self.accepted.keys().cloned().collect();
        assert!(accepted.is_subset(&written), "whatever was OK'd is in the history");
        assert_eq!(finished, self.acked, "what was acknowledged is processed, and nothing else");
        for member in members {
            let name = Name::parse(&member.name, "name").unwrap();
            let extent = self.clock.extents(&self.namespace, &[inbox(&name)]).await.unwrap().remove(0);
            let places = places.remove(&member.name).unwrap_or_default();
            assert!(places.iter().copied().eq(1..extent.next), "the inbox of {name} is not dense: {places:?}");
            assert_eq!(waiting.remove(&member.name).unwrap_or_default(), extent.entries, "receipts of {name}");
            assert_eq!(member.inbox_depth, extent.entries);
        }
        assert!(waiting.is_empty() && places.is_empty(), "receipts of whom? {waiting:?} {places:?}");
        entries
    }
}

async fn compare(stores: [Arc<dyn Store>; 2], case: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let [left, right] = stores;
    let team = format!("case{case}");
    let (mut left, mut right) = (Side::new(left, &team).await, Side::new(right, &team).await);
    for (at, step) in steps.iter().enumerate() {
        let (answer, other) = (left.step(step).await, right.step(step).await);
        prop_assert_eq!(&answer, &other, "step {}: {:?}", at, step);
        let (state, other) = (left.state().await, right.state().await);
        prop_assert_eq!(&state, &other, "after step {}: {:?}", at, step);
        if state.is_none() {
            break;
        }
    }
    Ok(())
}

#[test]
fn the_same_calls_come_to_the_same_over_both_stores() {
    let seed = std::env::var("TEAMWIRE_SEED").map_or(7, |seed| seed.parse::<u64>().unwrap());
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let cases = std::env::var("PROPTEST_CASES").map_or(16, |cases| cases.parse().unwrap());
    let config = Config { failure_persistence: None, cases, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let embedded: Arc<dyn Store> = EmbeddedStore::in_memory().unwrap();
    let server = TestRedis::start();
    // Where no Redis is installed, the invariants are still checked.
    let other: Arc<dyn Store> = match &server {
        Some(server) => runtime.block_on(RedisStore::connect(&server.url(), "test")).unwrap(),
        None => EmbeddedStore::in_memory().unwrap(),
    };
    let case = std::cell::Cell::new(0);
    let result = runner.run(&any::<bool>().prop_flat_map(|on_tasks| vec(steps(on_tasks), 1..60)), |steps| {
        case.set(case.get() + 1);
        runtime.block_on(compare([embedded.clone(), other.clone()], case.get(), &steps))
    });
    if let Err(error) = result {
        panic!("with TEAMWIRE_SEED={seed}: {error}");
    }
}
