//! Stories: random calls of members in every life and session, the lead, the operator and a stranger, on two
//! coordinators, while time passes. After each step the team is compared with a [`model`] that is independent of the
//! rules' code.
//!
//! A call must be accepted exactly if the model accepts it. Besides:
//! - a refusal changes nothing;
//! - a delivered message was sent as delivered, to this member; a session delivers it once and in order; a redelivery
//!   has a higher count;
//! - an inbox is dense, and keeps each sender's order; it holds one notice of a kind about a thing, and notices take
//!   no room from messages;
//! - every accepted message reaches all its recipients, and ends processed or dead-lettered with the true cause, unless
//!   the team is deleted;
//! - members, requests and tasks are in the state that the model predicts, and the [board](crate::board_check) is
//!   sound;
//! - a superseded, approved or stopped session ends with that reason;
//! - of the lives of a name, only the latest can act; a name that is reserved has an order that is pending and not
//!   overdue; no order goes to a host beyond its slots; a prompt reaches only the life that its order has begun, and
//!   later ones.
//!
//! The stores are compared with each other, too: the same story must read the same on both ([`transcript`]).
//! `TEAMWIRE_SEED` selects the stories and `PROPTEST_CASES` their number.
//!
//! These bugs were planted into the rules to see whether the stories find them; the default number of cases found each:
//!
//! | bug | the failure that found it |
//! |---|---|
//! | a former life's credential passes | a stream was accepted but must be refused |
//! | a superseded session's calls pass | an acknowledgement was accepted but must be refused |
//! | acknowledged messages stay in the inbox | the inbox differs |
//! | the ledger forgets replies | the reply is not the first one |
//! | a commit skips the version checks | the claimed task is not the next one |
//! | a decided request can be answered again | the reply's `replayed` |
//! | a full inbox is skipped instead of refusing | a send was accepted but must be refused |
//! | a redelivery is not marked | the delivery count |
//! | a new life keeps its predecessor's claims | a task's status |
//! | a host answers the order of another host | reporting an exit was accepted but must be refused |
//! | a reserved name takes no slot | the slots of a host |
//! | the prompt of a failed order stays | the inbox differs |
//! | an order is handed to the host that refused it | the order went to another host |
//! | a host may do what a member may | a send was accepted but must be refused |
//! | an expired order keeps its name | a member's state |
//! | a join without the order's token continues the order | the slots of a host |

mod acts;
mod check;
mod generate;
mod hosts;
mod model;
mod sessions;
mod transcript;

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use teamwire_proto::{name::Name, v1, v1::CloseReason};
use teamwire_server::{
    coordinator::Coordinator,
    domain::identity::CallerCredentials,
    store::{Range, Store, embedded::EmbeddedStore, redis::RedisStore},
};
use tokio::{runtime::Runtime, task::JoinHandle};

use crate::{team::*, test_redis::TestRedis};
use acts::Call;
use generate::{Act, NAMES, PLANNER, Shows, Step, Who, stories};
use model::{Caller, Life, Model};
use sessions::Listener;
use transcript::Transcript;

/// The longest wait for anything. Never reached unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);

/// A call that was accepted under a key.
enum Keyed {
    Send { who: Caller, request: v1::SendRequest, message_id: String },
    AddTask { who: Caller, request: v1::CreateTaskRequest, task_id: u64 },
    Claim { who: Caller, request: v1::ClaimTaskRequest, token: String },
    ClaimNext { who: Caller, request: v1::ClaimNextTaskRequest, token: String },
    Spawn { who: Caller, request: v1::SpawnRequest, request_id: String },
}

/// How a call ended.
enum Done {
    Accepted,
    /// The step made no call, or none that the model must judge.
    Skipped,
}

/// Whether sessions deliver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sessions {
    Deliver,
    /// Sessions open without a client. What happens then depends on the calls alone, so that transcripts can be
    /// compared.
    OpenOnly,
}

/// A team and its model.
struct Story {
    team: Team,
    coordinators: [Arc<Coordinator>; 2],
    sessions: Sessions,
    model: Model,
    /// The credentials of each name's lives, with the number of the life.
    credentials: HashMap<&'static str, Vec<(u64, CallerCredentials)>>,
    listeners: Vec<Listener>,
    /// The requests as they were after the last step, oldest first.
    requests: Vec<v1::Request>,
    /// How many sessions delivered each message to each member.
    seen: BTreeMap<(String, String), u32>,
    /// The messages that each member acknowledged.
    acked: BTreeSet<(String, String)>,
    /// The content of each accepted message.
    contents: HashMap<String, String>,
    /// The plans and permission requests that a new lead, or the lead in place of the approver, received again.
    handed_on: BTreeSet<String>,
    keyed: Vec<Keyed>,
    /// Every claim: the task, its owner, the token.
    claims: Vec<(usize, String, String)>,
    /// Every join token that a host got.
    tokens: Vec<String>,
    /// The orders that their host refused for good.
    refused: BTreeSet<usize>,
    is_deleted: bool,
    /// How many calls were accepted, and how many refused.
    tally: (usize, usize),
    transcript: Transcript,
    forwarder: Option<JoinHandle<()>>,
}

impl Story {
    async fn new(store: Arc<dyn Store>, sessions: Sessions) -> Self {
        let team = Team::on(store, |limits| {
            limits.inbox_entries_max = model::INBOX_ENTRIES_MAX;
            limits.deliveries_max = model::DELIVERIES_MAX as usize;
            limits.shutdown_deadline = Duration::from_secs(model::SHUTDOWN_DEADLINE);
            limits.plan_deadline = Duration::from_secs(model::PLAN_DEADLINE);
            limits.permission_deadline = Duration::from_secs(model::PERMISSION_DEADLINE);
            limits.pending_permissions_max = model::PERMISSIONS_MAX;
            limits.spawn_deadline = Duration::from_secs(model::SPAWN_DEADLINE);
            limits.lease_ttl = Duration::from_secs(model::LEASE);
            limits.lost_grace = Duration::from_secs(model::GRACE);
            limits.exit_alarm_after = Duration::from_secs(model::EXIT_ALARM);
            limits.claim_ttl = Duration::from_secs(model::CLAIM_TTL);
            limits.open_tasks_max = model::limits::OPEN_TASKS_MAX;
            limits.claims_max = model::limits::CLAIMS_MAX;
            limits.task_dependencies_max = model::limits::TASK_DEPENDENCIES_MAX;
            limits.board_dependencies_max = model::limits::BOARD_DEPENDENCIES_MAX;
        })
        .await;
        let coordinators = [team.coordinator.clone(), team.another_coordinator().await];
        let forwarder = (sessions == Sessions::Deliver).then(|| {
            let (mut notifications, coordinators) = (team.clock.notifications(), coordinators.clone());
            tokio::spawn(async move {
                while let Ok(notification) = notifications.recv().await {
                    coordinators.iter().for_each(|coordinator| coordinator.notifier().notification(&notification));
                }
            })
        });
        let credentials = [("lead", vec![(1, team.lead.who.clone())])].into();
        let mut story = Self {
            team,
            coordinators,
            sessions,
            model: Model { lead: "lead".to_owned(), ..Model::default() },
            credentials,
            listeners: Vec::new(),
            requests: Vec::new(),
            seen: BTreeMap::new(),
            acked: BTreeSet::new(),
            contents: HashMap::new(),
            handed_on: BTreeSet::new(),
            keyed: Vec::new(),
            claims: Vec::new(),
            tokens: Vec::new(),
            refused: BTreeSet::new(),
            is_deleted: false,
            tally: (0, 0),
            transcript: Transcript::default(),
            forwarder,
        };
        story.model.begin("lead", false, false);
        for (coordinator, name) in ["Ann", "bob"].into_iter().enumerate() {
            let act = Act::Join { name, twice: false, detached: coordinator == 0 };
            story.step(&Step { who: Who::Operator, coordinator, act }).await;
        }
        story.add_hosts().await;
        story
    }

    /// Returns the credentials that a caller presents, and its identity.
    fn present(&self, who: &Who) -> (CallerCredentials, Caller) {
        let stranger = |name: &str| (presented(&format!("twm:alpha:{name}:{}", "0".repeat(40))), Caller::Stranger);
        let (name, former, shows) = match who {
            Who::Operator => return (operator(), Caller::Operator),
            Who::Stranger => return stranger("bob"),
            Who::Member { name, former, shows } => (*name, former, shows),
        };
        let Some(lives) = self.credentials.get(name) else { return stranger(name) };
        let life = former.map_or(lives.len() - 1, |index| index.index(lives.len()));
        let own: Vec<usize> = (0..self.listeners.len()).filter(|at| self.listeners[*at].member == name).collect();
        let session = match shows {
            Shows::None => None,
            Shows::Latest => own.last().copied(),
            Shows::Any(index) => (!own.is_empty()).then(|| own[index.index(own.len())]),
        };
        let session_id = session.map(|at| self.listeners[at].session_id.clone());
        let (incarnation, who) = &lives[life];
        let caller = Caller::Member { name: name.to_owned(), incarnation: *incarnation, session };
        (CallerCredentials { session_id, ..who.clone() }, caller)
    }

    /// Presents a name's latest credential without a session.
    fn latest(&self, name: &'static str) -> (CallerCredentials, Caller) {
        self.present(&Who::Member { name, former: None, shows: Shows::None })
    }

    /// Makes a call, and checks the outcome and the team against the model.
    async fn step(&mut self, step: &Step) {
        let (who, caller) = self.present(&step.who);
        let call = Call::new(self.coordinators[step.coordinator].clone(), who, caller, self.depths().await);
        let before = format!("{:?}", self.team.everything().await);
        match self.act(&call, &step.act).await {
            Some(Done::Accepted) => self.tally.0 += 1,
            Some(Done::Skipped) => {}
            None => {
                self.tally.1 += 1;
                let after = format!("{:?}", self.team.everything().await);
                assert_eq!(before, after, "a refusal changed something");
            }
        }
        self.settle().await;
        self.check().await;
        if self.sessions == Sessions::OpenOnly && !self.is_deleted {
            self.check_receipts(false).await;
            self.record_state().await;
        }
    }

    /// Returns how many messages each inbox has, not counting notices.
    async fn depths(&self) -> BTreeMap<String, u64> {
        let mut depths = BTreeMap::new();
        for name in self.model.members.keys() {
            let member = Name::parse(name, "name").unwrap();
            let all = Range { first: 1, last: u64::MAX, limit: 1_000, newest_first: false };
            let entries = self.team.coordinator.inbox_entries(&self.team.namespace, &member, all).await.unwrap();
            let ids = entries.into_iter().map(|(_, id)| id).collect();
            let messages = self.team.coordinator.messages(&self.team.namespace, ids).await.unwrap();
            let is_notice = |message: &v1::Message| matches!(message.body, Some(v1::message::Body::Notice(_)));
            let messages = messages.iter().flatten().filter(|message| !is_notice(message)).count();
            depths.insert(name.clone(), messages as u64);
        }
        depths
    }

    /// Records a new life.
    fn begin(&mut self, name: &'static str, plan_mode: bool, detached: bool, joined: &v1::JoinResponse) {
        self.model.begin(name, plan_mode, detached);
        self.note_life(name, joined);
    }

    /// Records the credential of a life that has just begun.
    fn note_life(&mut self, name: &'static str, joined: &v1::JoinResponse) {
        self.end_session(name, CloseReason::Superseded);
        let incarnation = self.model.members[name].incarnation;
        assert_eq!(joined.member.as_ref().unwrap().incarnation, incarnation);
        self.credentials.entry(name).or_default().push((incarnation, presented(&joined.credential)));
    }

    /// Records that a member's latest session must end, unless it must already.
    fn end_session(&mut self, name: &str, why: CloseReason) {
        if let Some(at) = self.model.members[name].session {
            self.listeners[at].must_end.get_or_insert(why);
        }
    }

    /// Lets all members process their inboxes, and checks the final receipt of each message.
    async fn finish(&mut self) {
        // The lead last: it receives notices about the others.
        for name in NAMES.into_iter().rev() {
            if self.is_deleted || !self.model.members.contains_key(name) {
                continue;
            }
            if self.model.members[name].life == Life::Spawning {
                self.step(&Step { who: Who::Operator, coordinator: 0, act: Act::Force { name } }).await;
            }
            if self.model.accepts_join(name) {
                let act = Act::Join { name, twice: false, detached: false };
                self.step(&Step { who: Who::Operator, coordinator: 0, act }).await;
            }
            self.step(&Step { who: Who::latest(name), coordinator: 1, act: Act::Stream }).await;
            self.process_inbox(name).await;
        }
        if !self.is_deleted {
            self.check_receipts(true).await;
        }
        if let Some(forwarder) = self.forwarder.take() {
            forwarder.abort();
        }
    }

    async fn process_inbox(&mut self, name: &'static str) {
        let (presented, _) = self.latest(name);
        let message_ids: Vec<_> =
            self.inbox(name).await.into_iter().map(|delivery| delivery.message.unwrap().id).collect();
        for message_ids in message_ids.chunks(100) {
            let request = v1::AckRequest { session_id: String::new(), message_ids: message_ids.to_vec() };
            if self.coordinators[0].acknowledge(&presented, &request).await.is_ok() {
                self.acked.extend(message_ids.iter().map(|id| (id.clone(), name.to_owned())));
                let sent = &self.model.sent;
                let inbox = &mut self.model.members.get_mut(name).unwrap().inbox;
                inbox.retain(|place| !message_ids.contains(&sent[*place].id));
            }
        }
    }
}

/// Runs random stories. Returns how many there were.
fn run(cases: u32, story: impl Fn(usize, Vec<Step>)) -> usize {
    let seed = std::env::var("TEAMWIRE_SEED").map_or(7, |seed| seed.parse::<u64>().unwrap());
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let cases = std::env::var("PROPTEST_CASES").map_or(cases, |cases| cases.parse().unwrap());
    let config = Config { failure_persistence: None, cases, max_shrink_iters: 100, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let case = Cell::new(0);
    let result = runner.run(&stories(), |steps| {
        case.set(case.get() + 1);
        story(case.get(), steps);
        Ok(())
    });
    if let Err(error) = result {
        panic!("with TEAMWIRE_SEED={seed}: {error}");
    }
    case.get()
}

/// Runs stories whose sessions deliver, each on a new store.
fn run_with_sessions<F: Future<Output = Arc<dyn Store>>>(cases: u32, store: impl Fn(usize) -> F) {
    let tally = Cell::new((0, 0));
    let cases = run(cases, |case, steps| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (accepted, refused) = runtime.block_on(async {
            let mut story = Story::new(store(case).await, Sessions::Deliver).await;
            for step in &steps {
                if story.is_deleted {
                    break;
                }
                story.step(step).await;
            }
            story.finish().await;
            story.tally
        });
        tally.set((tally.get().0 + accepted, tally.get().1 + refused));
    });
    let (accepted, refused) = tally.get();
    eprintln!("{accepted} calls were accepted, {refused} were refused");
    assert!(accepted > 10 * cases && refused > 5 * cases, "too few calls to prove anything");
}

/// Connects to a server with a key prefix that no other case uses.
async fn redis(server: &TestRedis, prefix: &str, case: usize) -> Arc<dyn Store> {
    RedisStore::connect(&server.url(), &format!("{prefix}{case}")).await.unwrap()
}

#[test]
fn a_team_matches_its_model_on_the_embedded_store() {
    run_with_sessions(40, |_| async { EmbeddedStore::in_memory().unwrap() as Arc<dyn Store> });
}

#[test]
fn a_team_matches_its_model_on_redis() {
    let Some(server) = TestRedis::start() else { return };
    run_with_sessions(8, |case| redis(&server, "model", case));
}

#[test]
fn the_same_story_reads_the_same_on_both_stores() {
    let runtime = Runtime::new().unwrap();
    let server = TestRedis::start();
    // The first of the stories that a model has judged above; `cargo xtask nightly stories` compares more.
    run(8, |case, steps| {
        runtime.block_on(async {
            // Without an installed Redis, the model is still checked.
            let other = match &server {
                Some(server) => redis(server, "same", case).await,
                None => EmbeddedStore::in_memory().unwrap(),
            };
            let mut left = Story::new(EmbeddedStore::in_memory().unwrap(), Sessions::OpenOnly).await;
            let mut right = Story::new(other, Sessions::OpenOnly).await;
            for (at, step) in steps.iter().enumerate() {
                if left.is_deleted {
                    break;
                }
                left.step(step).await;
                right.step(step).await;
                assert_eq!(left.transcript.take(), right.transcript.take(), "step {at}: {step:?}");
            }
            left.finish().await;
            right.finish().await;
            assert_eq!(left.transcript.take(), right.transcript.take(), "the end");
        });
    });
}
