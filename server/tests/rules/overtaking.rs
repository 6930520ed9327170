//! Shutdown requests overtake what a session has no credit for. Nothing else leaves its place in the inbox.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use proptest::{collection::vec, prelude::*, sample::Index};
use teamwire_proto::{
    Reason,
    v1::{self, CloseReason, ReceiptState, message::Body},
};
use teamwire_server::{
    coordinator::Coordinator,
    delivery::reconciler,
    store::{Store as _, embedded::EmbeddedStore, redis::RedisStore},
};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::{team::*, test_redis::TestRedis};

/// The longest wait for a frame. Never reached unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);

/// A team whose sessions may have two unacknowledged messages.
async fn narrow() -> (Team, Member) {
    let t = Team::with_limits(|limits| limits.unacked_messages_max = 2).await;
    let [bob] = t.join_all(["bob"]).await;
    (t, bob)
}

/// Sends bob this many messages. Returns their ids.
async fn fill(t: &Team, messages: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..messages {
        ids.push(t.send(&t.lead, message("bob", &n.to_string())).await.message_id);
    }
    ids
}

/// Returns the sequence and the count of the next delivery.
async fn place(session: &mut Open) -> (u64, u32) {
    let delivery = timeout(PATIENCE, session.delivery()).await.expect("a delivery");
    (delivery.sequence, delivery.delivery_count)
}

async fn places<const N: usize>(session: &mut Open) -> [(u64, u32); N] {
    let mut found = [(0, 0); N];
    for place_ in &mut found {
        *place_ = place(session).await;
    }
    found
}

#[tokio::test]
async fn shutdown_request_overtakes_messages_for_which_there_is_no_credit() {
    let (t, bob) = narrow().await;
    let ids = fill(&t, 4).await;
    let mut session = t.open(&bob).await;
    assert_eq!(places(&mut session).await, [(1, 1), (2, 1)]);
    let asked = t.send(&t.lead, shutdown("bob")).await;
    let request = timeout(PATIENCE, session.delivery()).await.expect("the request");
    assert_eq!((request.sequence, request.delivery_count), (5, 1));
    assert!(matches!(request.message.unwrap().body, Some(Body::ShutdownRequest(_))));
    assert_eq!(t.receipts(&ids[2]).await[0].state(), ReceiptState::Queued, "only the request has overtaken");

    // The others follow in order as credit allows, and the request does not come again.
    t.send(&session.member, reject(&asked.request_id, "not yet")).await;
    fill(&t, 1).await;
    t.ack(&session.member, &[&ids[0], &ids[1]]).await.unwrap();
    assert_eq!(place(&mut session).await, (3, 1), "the request still uses up credit");
    t.ack(&session.member, &[&asked.message_id]).await.unwrap();
    assert_eq!(place(&mut session).await, (4, 1));
    t.ack(&session.member, &[&ids[2], &ids[3]]).await.unwrap();
    assert_eq!(place(&mut session).await, (6, 1));
}

#[tokio::test]
async fn unacknowledged_request_is_passed_over_when_its_turn_comes() {
    let (t, bob) = narrow().await;
    let ids = fill(&t, 3).await;
    let mut session = t.open(&bob).await;
    t.send(&t.lead, shutdown("bob")).await;
    assert_eq!(places(&mut session).await, [(1, 1), (2, 1), (4, 1)]);
    let last = fill(&t, 1).await;
    t.ack(&session.member, &[&ids[0], &ids[1]]).await.unwrap();
    assert_eq!(place(&mut session).await, (3, 1));
    t.ack(&session.member, &[&ids[2]]).await.unwrap();
    assert_eq!(place(&mut session).await, (5, 1));
    assert_eq!(t.receipts(&last[0]).await[0].sequence, 5);
}

#[tokio::test]
async fn shutdown_request_overtakes_messages_that_are_too_large_for_the_credit_left() {
    let t = Team::with_limits(|limits| limits.unacked_bytes_max = 2_000).await;
    let [bob] = t.join_all(["bob"]).await;
    for _ in 0..3 {
        t.send(&t.lead, message("bob", &"x".repeat(1_500))).await;
    }
    let mut session = t.open(&bob).await;
    assert_eq!(place(&mut session).await, (1, 1));
    t.send(&t.lead, shutdown("bob")).await;
    assert_eq!(place(&mut session).await, (4, 1));
}

#[tokio::test]
async fn session_that_reopens_on_a_backlog_delivers_the_request_without_an_acknowledgement() {
    let (t, bob) = narrow().await;
    fill(&t, 200).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    let mut session = t.open(&bob).await;
    assert_eq!(session.opened.backlog, 201);
    assert_eq!(places(&mut session).await, [(1, 1), (2, 1), (201, 1)]);
    t.send(&session.member, approve(&id)).await;
    assert_eq!(session.closing().await.reason(), CloseReason::ShutdownApproved);
}

#[tokio::test]
async fn only_a_pending_request_for_this_life_overtakes() {
    let (mut t, bob) = narrow().await;
    let ids = fill(&t, 3).await;
    // One was answered, one has expired.
    let answered = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, reject(&answered, "busy")).await;
    t.ask(&t.lead, shutdown("bob")).await;
    t.pass_and_run_due(Duration::from_secs(601), &[&bob, &t.lead.clone()]).await;
    let mut session = t.open(&bob).await;
    assert_eq!(places(&mut session).await, [(1, 1), (2, 1)]);
    t.ack(&session.member, &[&ids[0]]).await.unwrap();
    assert_eq!(place(&mut session).await, (3, 1));
    t.ask(&t.lead, shutdown("bob")).await;
    assert_eq!(place(&mut session).await, (6, 1));

    // All three are for an earlier life.
    let bob = t.rejoin(&bob).await;
    let mut session = t.open(&bob).await;
    assert_eq!(places(&mut session).await.map(|(sequence, _)| sequence), [2, 3]);
    fill(&t, 1).await;
    t.ack(&session.member, &[&ids[1]]).await.unwrap();
    assert_eq!(place(&mut session).await.0, 7);
}

#[tokio::test]
async fn redelivery_counts_what_overtook_and_nothing_that_it_overtook() {
    let (t, bob) = narrow().await;
    let ids = fill(&t, 4).await;
    let asked = t.send(&t.lead, shutdown("bob")).await.message_id;
    for count in 1..=2 {
        let mut session = t.open(&bob).await;
        assert_eq!(places(&mut session).await, [(1, count), (2, count), (5, count)]);
        session.close(&t).await;
        let receipt = t.receipts(&asked).await.remove(0);
        assert_eq!((receipt.state(), receipt.delivery_count), (ReceiptState::Delivered, count));
        assert!(receipt.delivered_at.is_some());
        assert_eq!(t.receipts(&ids[2]).await[0].state(), ReceiptState::Queued);
        let counts: Vec<_> = t.deliveries(&bob).await.iter().map(|delivery| delivery.delivery_count).collect();
        assert_eq!(counts, [count, count, 0, 0, count]);
    }
    let mut session = t.open(&bob).await;
    assert_eq!(places(&mut session).await, [(1, 3), (2, 3), (5, 3)]);
    t.ack(&session.member, &[&ids[0], &ids[1]]).await.unwrap();
    assert_eq!(place(&mut session).await, (3, 1), "it is delivered for the first time");
}

#[tokio::test]
async fn request_that_no_session_acknowledges_becomes_a_dead_letter_after_five_deliveries() {
    let (t, bob) = narrow().await;
    fill(&t, 2).await;
    let asked = t.send(&t.lead, shutdown("bob")).await.message_id;
    for count in 1..=5 {
        let mut session = t.open(&bob).await;
        assert_eq!(places(&mut session).await, [(1, count), (2, count), (3, count)]);
        session.close(&t).await;
    }
    let mut session = t.open(&bob).await;
    fill(&t, 1).await;
    assert_eq!(place(&mut session).await, (4, 1), "all three are dead letters");
    assert_eq!(t.receipts(&asked).await[0].dead_letter_cause(), v1::DeadLetterCause::DeliveryLimit);
}

#[tokio::test]
async fn session_on_another_coordinator_counts_the_redelivered_request_and_supersedes_the_old_one() {
    let (t, bob) = narrow().await;
    fill(&t, 3).await;
    let mut old = t.open(&bob).await;
    assert_eq!(places(&mut old).await, [(1, 1), (2, 1)]);
    t.send(&t.lead, shutdown("bob")).await;
    assert_eq!(place(&mut old).await, (4, 1));
    // The old session's coordinator does not hear of the new session: as if it had died.
    let other = t.another_coordinator().await;
    let mut new = t.open_on(&other, &bob).await;
    assert_eq!(places(&mut new).await, [(1, 2), (2, 2), (4, 2)]);
    let late = t.try_send(&old.member, message("lead", "x")).await;
    assert_eq!(late.unwrap_err().reason, Reason::SessionSuperseded);
}

/// Notifications may get lost: the reconciler finds what they said.
#[tokio::test]
async fn request_sent_to_another_coordinator_reaches_a_session_despite_lost_notifications() {
    let (t, bob) = narrow().await;
    fill(&t, 3).await;
    let mut session = t.open(&bob).await;
    assert_eq!(places(&mut session).await, [(1, 1), (2, 1)]);
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    tokio::spawn(reconciler::run(Arc::clone(&t.coordinator), stop));
    let other = t.another_coordinator().await;
    other.send(&t.lead.who, &shutdown("bob")).await.unwrap();
    assert_eq!(place(&mut session).await, (4, 1));
}

#[tokio::test]
async fn acknowledgements_through_another_coordinator_free_credit() {
    let (t, bob) = narrow().await;
    let ids = fill(&t, 5).await;
    let mut session = t.open(&bob).await;
    assert_eq!(places(&mut session).await, [(1, 1), (2, 1)]);
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    tokio::spawn(reconciler::run(Arc::clone(&t.coordinator), stop));
    let other = t.another_coordinator().await;
    let ack = |id: &String| v1::AckRequest { message_ids: vec![id.clone()], ..v1::AckRequest::default() };
    assert_eq!(other.acknowledge(&session.member.who, &ack(&ids[1])).await, Ok(1));
    assert_eq!(place(&mut session).await, (3, 1));
    assert_eq!(other.acknowledge(&session.member.who, &ack(&ids[0])).await, Ok(1));
    assert_eq!(place(&mut session).await, (4, 1));
    // Credit that was freed there is not freed again here.
    assert_eq!(t.ack(&session.member, &[&ids[0], &ids[1]]).await, Ok(0));
    let fifth = timeout(Duration::from_millis(100), session.delivery()).await;
    assert!(fifth.is_err(), "two messages are unacknowledged");
    assert_eq!(t.ack(&session.member, &[&ids[2]]).await, Ok(1));
    assert_eq!(place(&mut session).await, (5, 1));
}

#[tokio::test]
async fn full_inbox_takes_a_shutdown_request_and_a_full_lead_its_answer() {
    let t = Team::with_limits(|limits| limits.inbox_entries_max = 2).await;
    let [bob, eve] = t.join_all(["bob", "eve"]).await;
    fill(&t, 2).await;
    // Answers fill the inbox to twice its bound.
    for _ in 0..2 {
        let plan = t.send(&bob, plan("p")).await;
        t.ack(&t.lead, &[&plan.message_id]).await.unwrap();
        t.send(&t.lead, answer_plan("bob", &plan.request_id, Some(false), "no")).await;
    }
    t.send(&bob, message("lead", "1")).await;
    t.send(&bob, message("lead", "2")).await;
    for _ in 0..2 {
        let id = t.ask(&t.lead, shutdown("eve")).await;
        t.send(&eve, reject(&id, "busy")).await;
    }
    for (from, to) in [(&t.lead, "bob"), (&eve, "lead")] {
        let full = t.try_send(from, message(to, "3"));
        t.refused(full, Code::ResourceExhausted, Reason::InboxFull, "").await;
    }
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, approve(&id)).await;
    assert_eq!((t.deliveries(&bob).await.len(), t.inbox(&t.lead).await.len()), (5, 5));
    assert_eq!(t.request(&id).await.state(), v1::RequestState::Approved);
}

#[tokio::test]
async fn unread_shutdown_requests_in_a_full_inbox_are_bounded() {
    let mut t = Team::with_limits(|limits| limits.inbox_entries_max = 2).await;
    let [bob] = t.join_all(["bob"]).await;
    fill(&t, 2).await;
    for _ in 0..4 {
        t.ask(&t.lead, shutdown("bob")).await;
        t.pass_and_run_due(Duration::from_secs(601), &[&bob, &t.lead.clone()]).await;
        for id in t.inbox(&t.lead.clone()).await.iter().map(|message| message.id.clone()).collect::<Vec<_>>() {
            t.ack(&t.lead, &[&id]).await.unwrap();
        }
    }
    let full = t.try_send(&t.lead, shutdown("bob"));
    t.refused(full, Code::ResourceExhausted, Reason::InboxFull, "").await;
}

#[tokio::test]
async fn session_without_credit_still_ends_when_superseded_stopped_or_deleted() {
    let (t, bob) = narrow().await;
    for n in ["1", "2", "3"] {
        t.send(&bob, message("lead", n)).await;
    }
    fill(&t, 3).await;
    let mut of_lead = t.open(&t.lead).await;
    let mut old = t.open(&bob).await;
    for session in [&mut of_lead, &mut old] {
        assert_eq!(places(session).await, [(1, 1), (2, 1)]);
    }
    let mut new = t.open(&bob).await;
    assert_eq!(ending(&mut old).await, CloseReason::Superseded);
    assert_eq!(places(&mut new).await, [(1, 2), (2, 2)]);
    t.try_force(&t.lead, "bob").await.unwrap();
    assert_eq!(ending(&mut new).await, CloseReason::MemberStopped);
    t.leave(&bob).await;
    t.try_delete(&t.lead).await.unwrap();
    assert_eq!(ending(&mut of_lead).await, CloseReason::TeamDeleted);
}

/// Returns why a session ends.
async fn ending(session: &mut Open) -> CloseReason {
    timeout(PATIENCE, session.closing()).await.expect("the end").reason()
}

/// A message that the command line acknowledged while it waited for credit was still delivered.
#[tokio::test]
async fn message_that_was_acknowledged_while_it_waited_for_credit_is_not_delivered() {
    let (t, bob) = narrow().await;
    let mut session = t.open(&bob).await;
    let ids = fill(&t, 4).await;
    assert_eq!(places(&mut session).await, [(1, 1), (2, 1)]);
    t.ack(&bob, &[&ids[2]]).await.unwrap();
    t.ack(&bob, &[&ids[0]]).await.unwrap();
    assert_eq!(place(&mut session).await, (4, 1));
}

/// What may happen to an inbox and its sessions.
#[derive(Clone, Debug)]
enum Act {
    /// A message arrives, by the first or the second coordinator.
    Send(usize),
    /// The lead asks for a shutdown, by the first or the second coordinator, unless a request is pending.
    Ask(usize),
    /// The member rejects the pending request.
    Reject,
    /// The session acknowledges one of the messages that it has delivered.
    Ack(Index),
    /// The command line acknowledges one that the session has not delivered.
    Skip(Index),
    /// Another session opens, on the first or the second coordinator. `clean`: the old one has recorded how far it got.
    Reopen { at: usize, clean: bool },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (0..2_usize).prop_map(Act::Send),
        3 => (0..2_usize).prop_map(Act::Ask),
        2 => Just(Act::Reject),
        5 => any::<Index>().prop_map(Act::Ack),
        1 => any::<Index>().prop_map(Act::Skip),
        2 => (0..2_usize, any::<bool>()).prop_map(|(at, clean)| Act::Reopen { at, clean }),
    ];
    vec(act, 10..60)
}

/// What an inbox holds, and what its session must have delivered.
#[derive(Default)]
struct Expected {
    /// The ids of the unacknowledged messages, by sequence.
    inbox: BTreeMap<u64, String>,
    next: u64,
    /// The sequence and the id of the pending request.
    pending: Option<(u64, String)>,
    /// What this session has delivered.
    delivered: BTreeSet<u64>,
    /// How many earlier sessions delivered each message.
    seen: BTreeMap<u64, u32>,
    /// How many earlier sessions may count as having delivered everything.
    crashed: u32,
}

impl Expected {
    const CREDIT: usize = 2;

    fn arrives(&mut self, id: String) -> u64 {
        self.next += 1;
        self.inbox.insert(self.next, id);
        self.next
    }

    /// Returns the next delivery that is due. `None` if the session waits.
    fn due(&self) -> Option<u64> {
        let unacked = self.delivered.iter().filter(|sequence| self.inbox.contains_key(sequence)).count();
        let mut waiting = self.inbox.keys().copied().filter(|sequence| !self.delivered.contains(sequence));
        if unacked < Self::CREDIT {
            return waiting.next();
        }
        waiting.find(|sequence| self.pending.as_ref().is_some_and(|(pending, _)| pending == sequence))
    }

    /// Takes every delivery that is due, and checks its place and its count.
    async fn take_due(&mut self, session: &mut Open) {
        while let Some(sequence) = self.due() {
            let (delivered, count) = place(session).await;
            assert_eq!(delivered, sequence);
            assert!(self.delivered.insert(sequence));
            let least = self.seen.get(&sequence).copied().unwrap_or_default() + 1;
            assert!((least..=least + self.crashed).contains(&count), "{count} deliveries of {sequence}: {least}");
        }
    }

    fn reopened(&mut self, clean: bool) {
        for sequence in std::mem::take(&mut self.delivered) {
            *self.seen.entry(sequence).or_default() += 1;
        }
        self.crashed += u32::from(!clean);
    }
}

/// Plays one story, and compares every delivery with what is expected: its place, its order, its count.
async fn play(store: Arc<dyn teamwire_server::store::Store>, acts: &[Act]) {
    let t = Team::on(store, |limits| {
        limits.unacked_messages_max = Expected::CREDIT as u64;
        limits.deliveries_max = 1_000;
    })
    .await;
    let [bob] = t.join_all(["bob"]).await;
    let coordinators = [Arc::clone(&t.coordinator), t.another_coordinator().await];
    let forwarder = forward(&t, &coordinators);
    let mut expected = Expected::default();
    let (mut at, mut session) = (0, t.open(&bob).await);
    for act in acts {
        match act {
            Act::Send(by) => {
                let sent = coordinators[*by].send(&t.lead.who, &message("bob", "x")).await.unwrap();
                expected.arrives(sent.message_id);
            }
            Act::Ask(by) if expected.pending.is_none() => {
                let asked = coordinators[*by].send(&t.lead.who, &shutdown("bob")).await.unwrap();
                let sequence = expected.arrives(asked.message_id);
                expected.pending = Some((sequence, asked.request_id));
            }
            Act::Reject => {
                let Some((_, id)) = expected.pending.take() else { continue };
                coordinators[at].send(&session.member.who, &reject(&id, "no")).await.unwrap();
            }
            Act::Ack(index) | Act::Skip(index) => {
                let is_delivered = matches!(act, Act::Ack(_));
                let mut of = expected.inbox.keys().copied().collect::<Vec<_>>();
                of.retain(|sequence| expected.delivered.contains(sequence) == is_delivered);
                let Some(sequence) = of.get(index.index(of.len().max(1))) else { continue };
                let message_ids = expected.inbox.remove(sequence).into_iter().collect();
                let request = v1::AckRequest { message_ids, ..Default::default() };
                assert_eq!(coordinators[at].acknowledge(&session.member.who, &request).await, Ok(1));
            }
            Act::Reopen { at: next, clean } => {
                if *clean {
                    session.close(&t).await;
                }
                at = *next;
                session = t.open_on(&coordinators[at], &bob).await;
                expected.reopened(*clean);
            }
            Act::Ask(_) => {}
        }
        expected.take_due(&mut session).await;
    }
    // The rest comes in order, and nothing besides.
    while let Some((_, id)) = expected.inbox.pop_first() {
        let request = v1::AckRequest { message_ids: vec![id], ..Default::default() };
        coordinators[at].acknowledge(&session.member.who, &request).await.unwrap();
        expected.take_due(&mut session).await;
    }
    forwarder.abort();
}

/// Passes the store's notifications on to the coordinators.
fn forward(t: &Team, coordinators: &[Arc<Coordinator>; 2]) -> JoinHandle<()> {
    let (mut notifications, coordinators) = (t.clock.notifications(), coordinators.clone());
    tokio::spawn(async move {
        while let Ok(notification) = notifications.recv().await {
            coordinators.iter().for_each(|coordinator| coordinator.notifier().notification(&notification));
        }
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn only_shutdown_requests_overtake_and_each_message_is_delivered_once_per_session(acts in acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(EmbeddedStore::in_memory().unwrap(), &acts));
    }
}

#[test]
fn only_shutdown_requests_overtake_other_messages_on_redis() {
    let Some(server) = TestRedis::start() else { return };
    let (case, runtime) = (std::cell::Cell::new(0), tokio::runtime::Runtime::new().unwrap());
    proptest!(config(8), |(acts in acts())| {
        case.set(case.get() + 1);
        runtime.block_on(async {
            let store = RedisStore::connect(&server.url(), &format!("overtaking{}", case.get())).await.unwrap();
            play(store, &acts).await;
        });
    });
}
