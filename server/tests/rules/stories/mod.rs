//! Whole teams as a state machine: random calls of members in every life and session, of the lead, the operator and a
//! stranger, over two coordinators, while time passes; compared after each step with a [`model`] that is written on its own.
//!
//! What must hold, besides that each call is accepted exactly if the model accepts it:
//! - a refusal changes nothing;
//! - what is delivered was sent, to this member, and as it was sent; in a session each message once and in order; one that an
//!   earlier session has shown says so;
//! - an inbox is dense, and has the messages of each sender in the order in which they were accepted;
//! - every message that was accepted reaches all that it names, and ends processed or as a dead letter with a cause that is
//!   true, unless the team is deleted;
//! - members, requests and tasks are in the state that the model has them in;
//! - a session that was superseded, approved away or stopped is told so and ends.
//!
//! The comparison of the stores in `alike` makes more kinds of calls, and knows less of what must come of them.
//!
//! That it can fail was tried with faults that were planted into the rules; each was found by the default number of cases:
//!
//! | fault | what found it |
//! |---|---|
//! | a former life's credential passes | a stream was accepted, and must be refused |
//! | a superseded session's calls pass | an acknowledgement was accepted, and must be refused |
//! | what is acknowledged stays in the inbox | the inbox differs |
//! | the ledger forgets what was answered | the first answer was forgotten |
//! | a commit does not check what was read | another task than the one that is due |
//! | what was decided can be answered again | whether it was answered before |
//! | a full inbox is left out instead of refusing | a send was accepted, and must be refused |
//! | a message that was shown before does not say so | just that |
//! | a new life keeps its predecessor's claims | a task is in progress, and must be pending |

mod model;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
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
    v1::{
        self, CloseReason, MemberState, ReceiptState, RequestKind, RequestState, SenderKind, TaskStatus,
        history_entry::Event, message::Body, stream_response::Frame,
    },
};
use teamwire_server::{
    coordinator::{Coordinator, HistoryQuery},
    delivery::{heartbeats::Heartbeats, session::Pace},
    domain::{identity::CallerCredentials, record::inbox},
    store::Store,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{board::task, team::*};
use model::{Asks, Caller, Life, Model, State};
use teamwire_proto::v1::DeadLetterCause;

const NAMES: [&str; 4] = ["lead", "ann", "bob", "cid"];

/// Far more than anything takes, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for a frame before it is looked whether there is anything to wait for.
const LOOK: Duration = Duration::from_millis(20);

/// Which of a member's sessions a call shows.
#[derive(Clone, Debug)]
enum Shows {
    None,
    Latest,
    Any(Index),
}

#[derive(Clone, Debug)]
enum Who {
    Operator,
    Stranger,
    /// `former`: with the credential of any of its lives.
    Member {
        name: &'static str,
        former: Option<Index>,
        shows: Shows,
    },
}

#[derive(Clone, Debug)]
enum Act {
    Message {
        to: &'static str,
        keyed: bool,
    },
    Broadcast {
        keyed: bool,
    },
    /// A send that was accepted under a key, again.
    Again {
        which: Index,
    },
    Shutdown {
        to: &'static str,
    },
    Plan,
    Answer {
        request: Index,
        asks: Option<Asks>,
        to: Option<&'static str>,
        approve: bool,
        rightly: bool,
    },
    Stream,
    Ack {
        messages: Vec<Index>,
    },
    Heartbeat,
    Join {
        name: &'static str,
    },
    Rejoin,
    Leave,
    Force {
        name: &'static str,
    },
    Delete,
    /// Time passes, and what is due is done.
    Pass {
        steps: u64,
    },
    Add,
    Claim {
        task: Option<Index>,
    },
    /// `rightly`: by the owner with its token, as far as the caller has one.
    Finish {
        claim: Index,
        done: bool,
        rightly: bool,
    },
}

#[derive(Clone, Debug)]
struct Step {
    who: Who,
    coordinator: usize,
    act: Act,
}

fn names() -> impl Strategy<Value = &'static str> {
    select(&NAMES[..])
}

fn steps() -> impl Strategy<Value = Step> {
    let shows = prop_oneof![6 => Just(Shows::None), 4 => Just(Shows::Latest), 2 => any::<Index>().prop_map(Shows::Any)];
    let former = prop_oneof![6 => Just(None), 1 => any::<Index>().prop_map(Some)];
    let name = prop_oneof![3 => Just("lead"), 8 => names()];
    let who = prop_oneof![
        2 => Just(Who::Operator),
        1 => Just(Who::Stranger),
        20 => (name, former, shows).prop_map(|(name, former, shows)| Who::Member { name, former, shows }),
    ];
    let asks = prop_oneof![4 => Just(None), 1 => Just(Some(Asks::Shutdown)), 1 => Just(Some(Asks::Plan))];
    let to = proptest::option::weighted(0.2, names());
    let act = prop_oneof![
        10 => (names(), any::<bool>()).prop_map(|(to, keyed)| Act::Message { to, keyed }),
        3 => any::<bool>().prop_map(|keyed| Act::Broadcast { keyed }),
        4 => any::<Index>().prop_map(|which| Act::Again { which }),
        5 => names().prop_map(|to| Act::Shutdown { to }),
        5 => Just(Act::Plan),
        10 => (any::<Index>(), asks, to, any::<bool>(), prop::bool::weighted(0.6))
            .prop_map(|(request, asks, to, approve, rightly)| Act::Answer { request, asks, to, approve, rightly }),
        8 => Just(Act::Stream),
        8 => vec(any::<Index>(), 1..4).prop_map(|messages| Act::Ack { messages }),
        3 => Just(Act::Heartbeat),
        4 => names().prop_map(|name| Act::Join { name }),
        3 => Just(Act::Rejoin),
        2 => Just(Act::Leave),
        2 => names().prop_map(|name| Act::Force { name }),
        1 => Just(Act::Delete),
        5 => (1..4_u64).prop_map(|steps| Act::Pass { steps }),
        3 => Just(Act::Add),
        6 => proptest::option::of(any::<Index>()).prop_map(|task| Act::Claim { task }),
        6 => (any::<Index>(), any::<bool>(), any::<bool>())
            .prop_map(|(claim, done, rightly)| Act::Finish { claim, done, rightly }),
    ];
    (who, 0..2_usize, act).prop_map(|(who, coordinator, act)| Step { who, coordinator, act })
}

/// One session, as its client sees it.
struct Listener {
    member: String,
    session_id: String,
    incarnation: u64,
    frames: mpsc::Receiver<teamwire_server::delivery::session::Frame>,
    /// The last sequence that was delivered.
    last: u64,
    /// Why it must end, once it must.
    must_end: Option<CloseReason>,
    has_ended: bool,
}

/// A send that was accepted under a key.
struct Keyed {
    who: Caller,
    request: v1::SendRequest,
    message_id: String,
}

/// A team as it runs, and as it should be.
struct Story {
    team: Team,
    coordinators: [Arc<Coordinator>; 2],
    model: Model,
    /// Of each life of each name.
    credentials: HashMap<&'static str, Vec<CallerCredentials>>,
    listeners: Vec<Listener>,
    /// How many sessions have shown each message to each member.
    seen: BTreeMap<(String, String), u32>,
    /// What each member has acknowledged.
    acked: BTreeSet<(String, String)>,
    /// What was accepted, by the message's id.
    contents: HashMap<String, String>,
    keyed: Vec<Keyed>,
    /// Every claim that was given: the task, who got it, the token.
    claims: Vec<(usize, String, String)>,
    is_deleted: bool,
    /// How many calls were accepted, and how many refused.
    tally: (usize, usize),
    forwarder: tokio::task::JoinHandle<()>,
}

impl Story {
    async fn new() -> Self {
        let team = Team::with_limits(|limits| {
            limits.inbox_entries_max = model::INBOX_ENTRIES_MAX;
            limits.deliveries_max = model::DELIVERIES_MAX as usize;
            limits.shutdown_deadline = Duration::from_secs(model::SHUTDOWN_DEADLINE);
            limits.plan_deadline = Duration::from_secs(model::PLAN_DEADLINE);
            limits.lease_ttl = Duration::from_secs(model::LEASE);
            limits.lost_grace = Duration::from_secs(model::GRACE);
        })
        .await;
        let coordinators = [team.coordinator.clone(), team.another_coordinator().await];
        let (mut notifications, told) = (team.clock.notifications(), coordinators.clone());
        let forwarder = tokio::spawn(async move {
            while let Ok(notification) = notifications.recv().await {
                told.iter().for_each(|coordinator| coordinator.notifier().notification(&notification));
            }
        });
        let credentials = [("lead", vec![team.lead.who.clone()])].into();
        let mut story = Self {
            team,
            coordinators,
            model: Model::default(),
            credentials,
            listeners: Vec::new(),
            seen: BTreeMap::new(),
            acked: BTreeSet::new(),
            contents: HashMap::new(),
            keyed: Vec::new(),
            claims: Vec::new(),
            is_deleted: false,
            tally: (0, 0),
            forwarder,
        };
        story.model.begin("lead");
        for name in ["ann", "bob"] {
            story.step(&Step { who: Who::Operator, coordinator: 0, act: Act::Join { name } }).await;
        }
        story
    }

    /// Returns what a caller shows, and who that is.
    fn present(&self, who: &Who) -> (CallerCredentials, Caller) {
        let Who::Member { name, former, shows } = who else {
            let is_operator = matches!(who, Who::Operator);
            let stranger = presented(&format!("twm:alpha:bob:{}", "0".repeat(40)));
            return if is_operator { (operator(), Caller::Operator) } else { (stranger, Caller::Stranger) };
        };
        let Some(lives) = self.credentials.get(name) else {
            return (presented(&format!("twm:alpha:{name}:{}", "0".repeat(40))), Caller::Stranger);
        };
        let life = former.map_or(lives.len() - 1, |index| index.index(lives.len()));
        let own: Vec<usize> = (0..self.listeners.len()).filter(|at| self.listeners[*at].member == *name).collect();
        let session = match shows {
            Shows::None => None,
            Shows::Latest => own.last().copied(),
            Shows::Any(index) => (!own.is_empty()).then(|| own[index.index(own.len())]),
        };
        let session_id = session.map(|at| self.listeners[at].session_id.clone());
        let name = (*name).to_owned();
        let caller = Caller::Member { name, incarnation: life as u64 + 1, session };
        (CallerCredentials { session_id, ..lives[life].clone() }, caller)
    }

    /// Makes a call, and checks that it was accepted or refused as it must be.
    async fn step(&mut self, step: &Step) {
        let (who, caller) = self.present(&step.who);
        let coordinator = self.coordinators[step.coordinator].clone();
        let depths = self.depths().await;
        let before = format!("{:?}", self.team.everything().await);
        let is_accepted = self.act(&coordinator, &who, &caller, &depths, &step.act).await;
        match is_accepted {
            Some(true) => self.tally.0 += 1,
            Some(false) => {}
            None => {
                self.tally.1 += 1;
                let after = format!("{:?}", self.team.everything().await);
                assert_eq!(before, after, "a refusal has changed something");
            }
        }
        self.settle().await;
        self.check().await;
    }

    /// Returns how many entries each inbox has.
    async fn depths(&self) -> BTreeMap<String, u64> {
        let names: Vec<String> = self.model.members.keys().cloned().collect();
        let streams: Vec<_> = names.iter().map(|name| inbox(&Name::parse(name, "name").unwrap())).collect();
        let extents = self.team.clock.extents(&self.team.namespace, &streams).await.unwrap();
        names.into_iter().zip(extents.iter().map(|extent| extent.entries)).collect()
    }

    /// Returns whether a call was accepted. `None`: it was refused.
    async fn act(
        &mut self,
        c: &Arc<Coordinator>,
        who: &CallerCredentials,
        caller: &Caller,
        depths: &BTreeMap<String, u64>,
        act: &Act,
    ) -> Option<bool> {
        let alpha = if who.credential.team().is_none() { "alpha".to_owned() } else { String::new() };
        let room = |name: &str| depths.get(name).is_none_or(|entries| *entries < model::INBOX_ENTRIES_MAX);
        let twice_room = |name: &str| depths.get(name).is_none_or(|entries| *entries < 2 * model::INBOX_ENTRIES_MAX);
        let from = match caller {
            Caller::Member { name, .. } => name.clone(),
            _ => "operator".to_owned(),
        };
        let content = self.contents.len().to_string();
        let in_team = |request: v1::SendRequest| v1::SendRequest { team: alpha.clone(), ..request };
        match act {
            Act::Message { to, keyed } => {
                let request = self.under_key(*keyed, in_team(message(to, &content)));
                let expected = self.model.accepts_message(caller, to, room).then(|| vec![(*to).to_owned()]);
                self.send(c, who, caller, &from, request, expected, content, None).await
            }
            Act::Broadcast { keyed } => {
                let request = self.under_key(*keyed, in_team(broadcast(&content)));
                let expected = self.model.accepts_broadcast(caller, room);
                self.send(c, who, caller, &from, request, expected, content, None).await
            }
            Act::Again { which } => {
                let Some(again) = self.keyed.get(which.index(self.keyed.len().max(1))) else { return Some(false) };
                let Keyed { who: first, request, message_id } = again;
                let who = match first {
                    Caller::Member { name, .. } => self.credentials[name.as_str()].last().unwrap().clone(),
                    _ => operator(),
                };
                let reply = c.send(&who, request).await;
                let is_in = self.keyed_sender_is_in(first);
                let reply = expect(reply, is_in, "a send again")?;
                assert_eq!((reply.replayed, &reply.message_id), (true, message_id), "the first answer was forgotten");
                Some(true)
            }
            Act::Shutdown { to } => {
                let request = in_team(shutdown(to));
                let is_accepted = self.model.accepts_shutdown(caller, to, room);
                let expected = is_accepted.then(|| vec![(*to).to_owned()]);
                let only_for = self.model.members.get(*to).map(|bearer| bearer.incarnation);
                let is_sent = self.send(c, who, caller, &from, request, expected, String::new(), only_for).await;
                if is_sent == Some(true) {
                    let by = (from != "operator").then_some(from);
                    let id = self.latest_request().await;
                    self.model.ask(&id, Asks::Shutdown, to, by);
                }
                is_sent
            }
            Act::Plan => {
                let request = in_team(plan(&content));
                let expected = self.model.accepts_plan(caller, room).then(|| vec!["lead".to_owned()]);
                let is_sent = self.send(c, who, caller, &from, request, expected, content, None).await;
                if is_sent == Some(true) {
                    let id = self.latest_request().await;
                    self.model.ask(&id, Asks::Plan, &from, Some(from.clone()));
                }
                is_sent
            }
            Act::Answer { request, asks, to, approve, rightly } => {
                let pending: Vec<usize> = (0..self.model.requests.len())
                    .filter(|at| !rightly || self.model.requests[*at].state == State::Pending)
                    .collect();
                let Some(at) = pending.get(request.index(pending.len().max(1))).copied() else { return Some(false) };
                let asked = self.model.requests[at].clone();
                let asks = asks.filter(|_| !rightly).unwrap_or(asked.asks);
                let to =
                    to.filter(|_| !rightly).unwrap_or(NAMES.into_iter().find(|name| asked.member == *name).unwrap());
                // As whoever is due, that runs get somewhere.
                let (who, caller, alpha) = match (rightly, asks) {
                    (false, _) => (who.clone(), caller.clone(), alpha),
                    (true, Asks::Plan) => (operator(), Caller::Operator, "alpha".to_owned()),
                    (true, Asks::Shutdown) => {
                        let (who, caller) = self.present(&Who::Member { name: to, former: None, shows: Shows::None });
                        (who, caller, String::new())
                    }
                };
                let from = match &caller {
                    Caller::Member { name, .. } => name.clone(),
                    _ => "operator".to_owned(),
                };
                let request = match asks {
                    Asks::Shutdown => answer(&asked.id, Some(*approve), &content),
                    Asks::Plan => answer_plan(to, &asked.id, Some(*approve), &content),
                };
                let request = v1::SendRequest { team: alpha, ..request };
                let expected = self.model.accepts_answer(&caller, at, asks, to, *approve, twice_room);
                let reply = expect(c.send(&who, &request).await, expected.is_some(), "an answer")?;
                assert_eq!(reply.replayed, expected == Some(false), "whether it was answered before");
                if expected == Some(true) {
                    let to: Vec<_> = asked.by.into_iter().collect();
                    assert_eq!(reply.recipients, to);
                    self.contents.insert(reply.message_id.clone(), content);
                    self.model.send(&reply.message_id, &from, &to, None);
                    self.model.answer(at, *approve);
                    if asks == Asks::Shutdown && *approve {
                        self.end_session(&asked.member, CloseReason::ShutdownApproved);
                    }
                }
                Some(true)
            }
            Act::Stream => {
                let expected = self.model.accepts_stream(caller);
                let opened = c.open_session(who, &v1::StreamRequest::default()).await;
                let session = expect(opened, expected.is_some(), "a stream")?;
                let (name, draining) = (expected?, CancellationToken::new());
                let mut frames = session.start(Pace::default(), Arc::new(Heartbeats::default()), draining);
                let first = timeout(PATIENCE, frames.recv()).await.expect("a frame").unwrap().unwrap().frame.unwrap();
                let Frame::Opened(opened) = first else { panic!("a stream begins with {first:?}") };
                if opened.session_id.is_empty() {
                    // It has approved its shutdown, and is told so again.
                    assert_eq!(self.model.members[&name].life, Life::Approved);
                    let last = timeout(PATIENCE, frames.recv()).await.expect("a frame").unwrap().unwrap().frame;
                    assert!(
                        matches!(last, Some(Frame::Closing(last)) if last.reason() == CloseReason::ShutdownApproved)
                    );
                    return Some(true);
                }
                self.end_session(&name, CloseReason::Superseded);
                self.model.hear(&name, false);
                let bearer = self.model.members.get_mut(&name).unwrap();
                bearer.session = Some(self.listeners.len());
                self.listeners.push(Listener {
                    incarnation: bearer.incarnation,
                    member: name,
                    session_id: opened.session_id,
                    frames,
                    last: 0,
                    must_end: None,
                    has_ended: false,
                });
                Some(true)
            }
            Act::Ack { messages } => {
                if self.model.sent.is_empty() {
                    return Some(false);
                }
                // Mostly such as lie in the caller's inbox.
                let own = self.model.members.get(&from).map(|bearer| bearer.inbox.clone()).unwrap_or_default();
                let pick = |(at, index): (usize, &Index)| match own.len() {
                    len if len > 0 && at % 3 < 2 => own[index.index(len)],
                    _ => index.index(self.model.sent.len()),
                };
                let picked: BTreeSet<usize> = messages.iter().enumerate().map(pick).collect();
                let message_ids: Vec<_> = picked.iter().map(|place| self.model.sent[*place].id.clone()).collect();
                let request = v1::AckRequest { session_id: String::new(), message_ids: message_ids.clone() };
                let expected = self.model.accepts_ack(caller);
                expect(c.acknowledge(who, &request).await, expected.is_some(), "an acknowledgement")?;
                let name = expected?;
                let bearer = self.model.members.get_mut(&name).unwrap();
                for place in picked.iter().filter(|place| bearer.inbox.contains(place)) {
                    self.acked.insert((self.model.sent[*place].id.clone(), name.clone()));
                }
                bearer.inbox.retain(|place| !picked.contains(place));
                Some(true)
            }
            Act::Heartbeat => {
                let expected = self.model.accepts_ack(caller);
                expect(c.heartbeat(who, &v1::HeartbeatRequest::default()).await, expected.is_some(), "a heartbeat")?;
                self.model.hear(&expected?, true);
                Some(true)
            }
            Act::Join { name } => {
                let invite =
                    v1::InviteRequest { team: "alpha".to_owned(), member: (*name).to_owned(), ..Default::default() };
                let token = self.coordinators[0].invite(&operator(), &invite).await.unwrap().join_token;
                let joined = c.join(&presented(&token), &v1::JoinRequest::default()).await;
                let joined = match self.model.accepts_join(name) {
                    true => joined.unwrap_or_else(|refusal| panic!("a join was refused: {refusal}")),
                    false => {
                        assert!(joined.is_err(), "a name was taken that somebody bears");
                        return Some(false);
                    }
                };
                self.begin(name, &joined);
                Some(true)
            }
            Act::Rejoin => {
                let expected = self.model.accepts_rejoin(caller);
                let joined = expect(c.join(who, &v1::JoinRequest::default()).await, expected.is_some(), "a new life")?;
                let name = NAMES.into_iter().find(|name| expected.as_deref() == Some(*name)).unwrap();
                self.begin(name, &joined);
                Some(true)
            }
            Act::Leave => {
                let expected = self.model.accepts_leave(caller);
                let exit = Some(v1::ExitReport { code: Some(0), ..Default::default() });
                expect(c.leave(who, &v1::LeaveRequest { exit }).await, expected.is_some(), "an exit")?;
                self.model.end(&expected.clone()?);
                self.end_session(&expected?, CloseReason::MemberStopped);
                Some(true)
            }
            Act::Force { name } => {
                let request = v1::ForceStopRequest { team: alpha, member: (*name).to_owned(), reason: String::new() };
                let is_accepted = self.model.accepts_force(caller, name);
                expect(c.force_stop(who, &request).await, is_accepted, "a stop by force")?;
                self.model.force(name);
                self.end_session(name, CloseReason::MemberStopped);
                Some(true)
            }
            Act::Delete => {
                let is_accepted = self.model.accepts_delete(caller);
                expect(c.delete_team(who, &alpha).await, is_accepted, "the end of the team")?;
                self.is_deleted = true;
                for listener in &mut self.listeners {
                    listener.must_end.get_or_insert(CloseReason::TeamDeleted);
                }
                Some(true)
            }
            Act::Pass { steps } => {
                self.team.clock.advance(Duration::from_secs(steps * model::STEP));
                self.model.now += steps * model::STEP;
                for coordinator in &self.coordinators {
                    // It learns of the time with its next commit.
                    let observe = v1::CreateObserverRequest { team: "alpha".to_owned(), ttl: None };
                    coordinator.create_observer(&operator(), &observe).await.unwrap();
                }
                let leases = self.team.leases().await;
                c.sweep(&self.team.namespace, &leases, true).await.unwrap();
                let before: Vec<_> =
                    self.model.members.iter().map(|(name, bearer)| (name.clone(), bearer.life)).collect();
                self.model.sweep();
                for (name, life) in before {
                    let ends = life != self.model.members[&name].life && life != Life::Live;
                    if ends {
                        self.end_session(&name, CloseReason::MemberStopped);
                    }
                }
                Some(false)
            }
            Act::Add => {
                let request = v1::CreateTaskRequest { team: "alpha".to_owned(), ..task("work") };
                let added = c.create_task(&operator(), &request).await.unwrap().task.unwrap();
                self.model.tasks.push(model::Task::default());
                assert_eq!(added.id as usize, self.model.tasks.len());
                Some(false)
            }
            Act::Claim { task } => {
                let (claim, expected, place) = match task {
                    Some(index) => {
                        // Now and then one that is not there.
                        let place = index.index(self.model.tasks.len() + 1);
                        let request = v1::ClaimTaskRequest { task_id: place as u64 + 1, ..Default::default() };
                        let claim = c.claim_task(who, &request).await.map(Some);
                        (claim, self.model.accepts_claim(caller, place), Some(place))
                    }
                    None => {
                        let claim = c.claim_next_task(who, &v1::ClaimNextTaskRequest::default()).await;
                        (claim, self.model.accepts_next(caller), self.model.next_task())
                    }
                };
                let claim = expect(claim, expected.is_some(), "a claim")?;
                let given = claim.as_ref().map(|claim| claim.task.as_ref().unwrap().id as usize - 1);
                assert_eq!(given, place, "another task than the one that is due");
                if let (Some(claim), Some(place), Some(name)) = (claim, place, expected) {
                    self.model.claim(&name, place, &claim.token);
                    self.claims.push((place, name, claim.token));
                }
                Some(true)
            }
            Act::Finish { claim, done, rightly } => {
                let claims: Vec<_> = self.claims.iter().filter(|claim| !rightly || claim.1 == from).collect();
                let Some(claim) = claims.get(claim.index(claims.len().max(1))) else { return Some(false) };
                let (place, _, claim_token) = (*claim).clone();
                let expected = self.model.accepts_finish(caller, place, &claim_token, *done);
                let (team, task_id) = (alpha, place as u64 + 1);
                let finished = match done {
                    true => {
                        let result = String::new();
                        let request = v1::CompleteTaskRequest { team, task_id, claim_token, result };
                        c.complete_task(who, &request).await.map(drop)
                    }
                    false => {
                        let request = v1::ReleaseTaskRequest { team, task_id, claim_token, ..Default::default() };
                        c.release_task(who, &request).await.map(drop)
                    }
                };
                expect(finished, expected.is_some(), "the end of a claim")?;
                if expected == Some(true) {
                    self.model.finish(place, *done);
                }
                Some(true)
            }
        }
    }

    fn under_key(&self, keyed: bool, request: v1::SendRequest) -> v1::SendRequest {
        let key = format!("k{}", self.keyed.len());
        if keyed { v1::SendRequest { idempotency_key: key, ..request } } else { request }
    }

    /// Whoever has approved its shutdown may still hear what it was answered before.
    fn keyed_sender_is_in(&self, first: &Caller) -> bool {
        match first {
            Caller::Member { name, .. } => {
                matches!(self.model.members[name].life, Life::Live | Life::Lost | Life::Approved)
            }
            _ => true,
        }
    }

    /// Sends something new. `expected`: who must get it; `None`: it must be refused.
    #[allow(clippy::too_many_arguments)]
    async fn send(
        &mut self,
        c: &Coordinator,
        who: &CallerCredentials,
        caller: &Caller,
        from: &str,
        request: v1::SendRequest,
        expected: Option<Vec<String>>,
        content: String,
        only_for: Option<u64>,
    ) -> Option<bool> {
        let reply = expect(c.send(who, &request).await, expected.is_some(), "a send")?;
        let mut to = reply.recipients.clone();
        to.sort();
        assert_eq!(Some(&to), expected.as_ref(), "who gets it");
        assert!(!reply.replayed);
        let is_new = self.contents.insert(reply.message_id.clone(), content).is_none();
        assert!(is_new, "an id was given twice");
        self.model.send(&reply.message_id, from, &to, only_for);
        if !request.idempotency_key.is_empty() {
            self.keyed.push(Keyed { who: caller.clone(), request, message_id: reply.message_id });
        }
        Some(true)
    }

    async fn latest_request(&self) -> String {
        let list = v1::ListRequestsRequest { team: "alpha".to_owned(), page_size: 1, ..Default::default() };
        self.coordinators[0].list_requests(&operator(), &list).await.unwrap().requests.remove(0).id
    }

    /// Takes note of a new life.
    fn begin(&mut self, name: &'static str, joined: &v1::JoinResponse) {
        self.model.begin(name);
        self.end_session(name, CloseReason::Superseded);
        self.credentials.entry(name).or_default().push(presented(&joined.credential));
        assert_eq!(joined.member.as_ref().unwrap().incarnation, self.model.members[name].incarnation);
    }

    /// Takes note that the latest session of a member must end, unless it must already.
    fn end_session(&mut self, name: &str, why: CloseReason) {
        if let Some(at) = self.model.members[name].session {
            self.listeners[at].must_end.get_or_insert(why);
        }
    }

    /// Waits until every session has delivered all that it must, or has ended.
    async fn settle(&mut self) {
        for at in 0..self.listeners.len() {
            let began = tokio::time::Instant::now();
            while !self.listeners[at].has_ended {
                let is_done = match self.listeners[at].must_end {
                    Some(_) => false,
                    None => self.has_delivered_all(at).await,
                };
                if is_done {
                    break;
                }
                assert!(began.elapsed() < PATIENCE, "nothing comes to {}", self.listeners[at].member);
                let Ok(frame) = timeout(LOOK, self.listeners[at].frames.recv()).await else { continue };
                self.take_frame(at, frame.expect("a last frame comes first").unwrap().frame.unwrap());
            }
        }
    }

    async fn inbox(&self, name: &str) -> Vec<v1::Delivery> {
        let (team, member) = ("alpha".to_owned(), name.to_owned());
        let list = v1::ListInboxRequest { team, member, page_size: 1_000, ..Default::default() };
        self.coordinators[0].list_inbox(&operator(), &list).await.unwrap().deliveries
    }

    async fn has_delivered_all(&self, at: usize) -> bool {
        let listener = &self.listeners[at];
        self.inbox(&listener.member).await.iter().all(|delivery| delivery.sequence <= listener.last)
    }

    fn take_frame(&mut self, at: usize, frame: Frame) {
        let listener = &mut self.listeners[at];
        let name = listener.member.clone();
        match frame {
            Frame::Delivery(delivery) => {
                assert!(delivery.sequence > listener.last, "twice in one session, or out of order");
                listener.last = delivery.sequence;
                let message = delivery.message.unwrap();
                assert!(message.recipients.contains(&name), "{name} was given what is for {:?}", message.recipients);
                let seen = self.seen.entry((message.id.clone(), name.clone())).or_default();
                assert!(delivery.delivery_count > *seen, "it was shown before, and does not say so");
                let is_acked = self.acked.contains(&(message.id.clone(), name.clone()));
                assert!(!is_acked || listener.must_end.is_some(), "it was acknowledged before");
                *seen += 1;
                if message.sender.as_ref().unwrap().kind() == SenderKind::Coordinator {
                    return;
                }
                let content = self.contents.get(&message.id).expect("what is delivered was accepted");
                assert_eq!(content_of(&message), content);
                let sent = self.model.sent.iter().find(|sent| sent.id == message.id).unwrap();
                assert_eq!(message.sender.unwrap().name, sent.from);
                assert!(sent.only_for.is_none_or(|life| life == listener.incarnation), "it is for another life");
            }
            Frame::Closing(closing) => {
                let expected = listener.must_end.unwrap_or_else(|| panic!("nothing has ended it: {closing:?}"));
                assert_eq!(closing.reason(), expected, "{}", closing.detail);
                listener.has_ended = true;
            }
            _ => {}
        }
    }

    /// Compares what is there with what should be.
    async fn check(&mut self) {
        if self.is_deleted {
            assert!(self.team.is_gone(&NAMES).await, "something of the team is left");
            return;
        }
        let c = &self.coordinators[1];
        let members = c.list_members(&operator(), &all_members("alpha")).await.unwrap().members;
        assert_eq!(members.len(), self.model.members.len());
        for member in &members {
            let bearer = &self.model.members[&member.name];
            let life = match member.state() {
                MemberState::Lost => vec![Life::Lost],
                MemberState::Stopping => vec![Life::Approved, Life::Forced],
                MemberState::Exited => vec![Life::Exited { dismissed: true }, Life::Exited { dismissed: false }],
                _ => vec![Life::Live],
            };
            assert!(life.contains(&bearer.life), "{} is {:?}, and should be {:?}", member.name, life, bearer.life);
            assert_eq!(member.incarnation, bearer.incarnation);
        }
        let list = v1::ListRequestsRequest { team: "alpha".to_owned(), page_size: 1_000, ..Default::default() };
        let mut requests = c.list_requests(&operator(), &list).await.unwrap().requests;
        requests.reverse();
        let shown: Vec<_> = requests.iter().map(|request| (request.id.as_str(), state_of(request))).collect();
        let expected: Vec<_> = self.model.requests.iter().map(|request| (request.id.as_str(), request.state)).collect();
        // One that is overdue and not swept yet counts as expired already.
        for (shown, expected) in shown.iter().zip(&expected) {
            assert!(
                shown == expected
                    || (shown.0 == expected.0 && expected.1 == State::Pending && shown.1 == State::Expired)
            );
        }
        assert_eq!(shown.len(), expected.len());
        for (request, expected) in requests.iter().zip(&self.model.requests) {
            let asks = if request.kind() == RequestKind::Shutdown { Asks::Shutdown } else { Asks::Plan };
            assert_eq!((asks, &request.member), (expected.asks, &expected.member));
        }
        let list = v1::ListTasksRequest { team: "alpha".to_owned(), page_size: 1_000, ..Default::default() };
        let tasks = c.list_tasks(&operator(), &list).await.unwrap().tasks;
        for task in tasks {
            let expected = &self.model.tasks[task.id as usize - 1];
            let status = match &expected.owner {
                _ if expected.is_done => TaskStatus::Completed,
                Some(_) => TaskStatus::InProgress,
                None => TaskStatus::Pending,
            };
            assert_eq!((task.status(), task.owner.as_str()), (status, expected.owner.as_deref().unwrap_or_default()));
        }
        for name in self.model.members.keys().cloned().collect::<Vec<_>>() {
            self.check_inbox(&name).await;
        }
    }

    /// Checks that what lies in an inbox is what should, in the order in which it was accepted.
    async fn check_inbox(&mut self, name: &str) {
        let found: Vec<String> = self
            .inbox(name)
            .await
            .into_iter()
            .map(|delivery| delivery.message.unwrap())
            .filter(|message| message.sender.as_ref().unwrap().kind() != SenderKind::Coordinator)
            .map(|message| message.id)
            .collect();
        let (incarnation, seen) = (self.model.members[name].incarnation, &self.seen);
        let sent = &self.model.sent;
        // What was shown often enough may be given up, and what asks another life to end is not shown to this one.
        let may_be_gone = |place: usize| {
            let was_shown = seen.get(&(sent[place].id.clone(), name.to_owned())).copied().unwrap_or_default();
            was_shown >= model::DELIVERIES_MAX || sent[place].only_for.is_some_and(|life| life != incarnation)
        };
        let should = self.model.members[name].inbox.clone();
        let kept: Vec<usize> =
            should.iter().copied().filter(|place| found.contains(&sent[*place].id) || !may_be_gone(*place)).collect();
        let kept_ids: Vec<&String> = kept.iter().map(|place| &sent[*place].id).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), kept_ids, "the inbox of {name}");
    }

    /// Lets everybody work off what there is, and checks what has become of each message.
    async fn finish(mut self) -> (usize, usize) {
        if self.is_deleted {
            self.forwarder.abort();
            return self.tally;
        }
        // The lead last, who is told of what the others do.
        for name in NAMES.into_iter().rev() {
            if !self.model.members.contains_key(name) {
                continue;
            }
            if self.model.accepts_join(name) {
                self.step(&Step { who: Who::Operator, coordinator: 0, act: Act::Join { name } }).await;
            }
            let who = Who::Member { name, former: None, shows: Shows::None };
            self.step(&Step { who: who.clone(), coordinator: 1, act: Act::Stream }).await;
            let (presented, _) = self.present(&who);
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
        self.check_receipts().await;
        self.forwarder.abort();
        self.tally
    }

    /// Checks the history: dense, each message once, and with a receipt of each that should get it.
    async fn check_receipts(&self) {
        let filter = Some(v1::HistoryFilter { include_receipts: true, ..Default::default() });
        let query = HistoryQuery { filter, limit: 1_000, ..Default::default() };
        let entries = self.coordinators[0].history(&operator(), "alpha", &query).await.unwrap().entries;
        let mut places: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut accepted: BTreeSet<&str> = self.model.sent.iter().map(|sent| sent.id.as_str()).collect();
        for (at, entry) in entries.iter().enumerate() {
            assert_eq!(entry.sequence, at as u64 + 1, "the history is dense");
            let Some(Event::Message(message)) = &entry.event else { continue };
            let is_notice = message.sender.as_ref().unwrap().kind() == SenderKind::Coordinator;
            assert!(is_notice || accepted.remove(message.id.as_str()), "never accepted, or there twice: {message:?}");
            let named: Vec<_> = entry.receipts.iter().map(|receipt| receipt.recipient.as_str()).collect();
            assert_eq!(named, message.recipients, "each recipient has a receipt");
            for receipt in &entry.receipts {
                if receipt.sequence > 0 {
                    places.entry(receipt.recipient.clone()).or_default().push(receipt.sequence);
                }
                // An inbox that is full takes no more notices.
                assert!(is_notice || receipt.sequence > 0, "accepted, and not in each inbox");
                self.check_receipt(&message.id, receipt);
            }
        }
        assert!(accepted.is_empty(), "accepted, and not in the history: {accepted:?}");
        for (name, places) in places {
            let name = Name::parse(&name, "name").unwrap();
            let extent = self.team.clock.extents(&self.team.namespace, &[inbox(&name)]).await.unwrap().remove(0);
            assert_eq!(places, (1..extent.next).collect::<Vec<_>>(), "the inbox of {name} is dense");
        }
    }

    fn check_receipt(&self, id: &str, receipt: &v1::Receipt) {
        let key = (id.to_owned(), receipt.recipient.clone());
        let (seen, is_acked) = (self.seen.get(&key).copied().unwrap_or_default(), self.acked.contains(&key));
        let bearer = &self.model.members[&receipt.recipient];
        let only_for = self.model.sent.iter().find(|sent| sent.id == id).and_then(|sent| sent.only_for);
        match (receipt.state(), receipt.dead_letter_cause()) {
            (ReceiptState::Processed, _) => assert!(is_acked, "processed, and nobody said so"),
            (ReceiptState::DeadLettered, DeadLetterCause::DeliveryLimit) => assert!(seen >= model::DELIVERIES_MAX),
            (ReceiptState::DeadLettered, DeadLetterCause::TargetReplaced) => {
                assert!(only_for.is_some_and(|life| life != bearer.incarnation));
            }
            (ReceiptState::DeadLettered, DeadLetterCause::InboxFull) => assert_eq!(receipt.sequence, 0),
            // Who was stopped keeps what it has until its name is forgotten, or begins anew.
            (ReceiptState::Queued | ReceiptState::Delivered, _) => {
                let was_accepted = self.contents.contains_key(id);
                let is_stopped = bearer.life == Life::Forced;
                assert!(!was_accepted || is_stopped, "{} has not got {id}: {receipt:?}", receipt.recipient);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Checks that a call was accepted or refused as it must be. `None`: refused.
fn expect<T>(outcome: Result<T, Refusal>, is_accepted: bool, what: &str) -> Option<T> {
    match outcome {
        Ok(value) if is_accepted => Some(value),
        Ok(_) => panic!("{what} was accepted, and must be refused"),
        Err(refusal) if is_accepted => panic!("{what} must be accepted, and was refused: {} {refusal}", refusal.reason),
        Err(_) => None,
    }
}

fn state_of(request: &v1::Request) -> State {
    match request.state() {
        RequestState::Pending => State::Pending,
        RequestState::Approved => State::Approved,
        RequestState::Rejected => State::Rejected,
        RequestState::Expired => State::Expired,
        RequestState::Cancelled => State::Cancelled,
        RequestState::Unspecified => panic!("{request:?}"),
    }
}

fn content_of(message: &v1::Message) -> &str {
    match message.body.as_ref().unwrap() {
        Body::Message(body) => &body.content,
        Body::Broadcast(body) => &body.content,
        Body::ShutdownRequest(body) => &body.reason,
        Body::ShutdownResponse(body) => &body.reason,
        Body::PlanApprovalRequest(body) => &body.plan,
        Body::PlanApprovalResponse(body) => &body.feedback,
        Body::Notice(body) => &body.text,
    }
}

#[test]
fn a_team_does_what_its_model_does_whatever_its_members_do() {
    let seed = std::env::var("TEAMWIRE_SEED").map_or(7, |seed| seed.parse::<u64>().unwrap());
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let cases = std::env::var("PROPTEST_CASES").map_or(32, |cases| cases.parse().unwrap());
    let config = Config { failure_persistence: None, cases, max_shrink_iters: 100, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let tally = std::cell::Cell::new((0, 0));
    let result = runner.run(&vec(steps(), 20..90), |steps| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (accepted, refused) = runtime.block_on(async {
            let mut story = Story::new().await;
            for step in &steps {
                if story.is_deleted {
                    break;
                }
                story.step(step).await;
            }
            story.finish().await
        });
        tally.set((tally.get().0 + accepted, tally.get().1 + refused));
        Ok(())
    });
    if let Err(error) = result {
        panic!("with TEAMWIRE_SEED={seed}: {error}");
    }
    let (accepted, refused) = tally.get();
    eprintln!("{accepted} calls were accepted, {refused} were refused");
    assert!(accepted > 10 * cases as usize && refused > 5 * cases as usize, "too quiet to tell anything");
}
