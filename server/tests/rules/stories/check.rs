//! Compares a team with its model.

use std::collections::{BTreeMap, BTreeSet};

use teamwire_proto::{
    name::Name,
    v1::{
        self, DeadLetterCause, Liveness, MemberState, ReceiptState, RequestKind, RequestState, SenderKind,
        history_entry::Event, message::Body,
    },
};
use teamwire_server::{
    coordinator::history::HistoryQuery,
    domain::{streams::inbox, task::board::Status as TaskStatus},
    store::Store,
};

use super::{
    Sessions, Story,
    generate::{HOSTS, NAMES},
    model::{self, Asks, Life, State, Status},
};
use crate::{
    board_check::check_board,
    team::{all_members, operator},
};

impl Story {
    /// Compares the team with the model.
    pub(super) async fn check(&mut self) {
        if self.is_deleted {
            let names: Vec<&str> = NAMES.into_iter().chain(HOSTS).collect();
            assert!(self.team.is_gone(&names).await, "the deleted team left something behind");
            return;
        }
        let c = &self.coordinators[1];
        let members = c.list_members(&operator(), &all_members("alpha")).await.unwrap().members;
        assert_eq!(members.len(), self.model.members.values().filter(|bearer| !bearer.is_host).count());
        for member in &members {
            let bearer = &self.model.members[&member.name];
            let life = lives_of(member.state());
            assert!(life.contains(&bearer.life), "{} is {:?}, and should be {:?}", member.name, life, bearer.life);
            assert_eq!(member.incarnation, bearer.incarnation);
            assert_eq!(member.liveness() == Liveness::Detached, bearer.detached, "{}", member.name);
            assert_eq!(member.state() == MemberState::Away, bearer.is_away(self.model.now), "{}", member.name);
        }
        let list = v1::ListRequestsRequest { team: "alpha".to_owned(), page_size: 1_000, ..Default::default() };
        let mut requests = c.list_requests(&operator(), &list).await.unwrap().requests;
        requests.reverse();
        let shown: Vec<_> = requests.iter().map(|request| (request.id.as_str(), state_of(request))).collect();
        let expected: Vec<_> = self.model.requests.iter().map(|request| (request.id.as_str(), request.state)).collect();
        // An overdue request counts as expired even before the sweep.
        for (shown, expected) in shown.iter().zip(&expected) {
            assert!(
                shown == expected
                    || (shown.0 == expected.0 && expected.1 == State::Pending && shown.1 == State::Expired)
            );
        }
        assert_eq!(shown.len(), expected.len());
        for (request, expected) in requests.iter().zip(&self.model.requests) {
            let asks = match request.kind() {
                RequestKind::Shutdown => Asks::Shutdown,
                RequestKind::PlanApproval => Asks::Plan,
                RequestKind::Spawn => Asks::Spawn,
                _ => Asks::Permission,
            };
            assert_eq!((asks, &request.member), (expected.asks, &expected.member));
            assert_eq!(request.approver, expected.approver.clone().unwrap_or_default());
        }
        for (before, now) in self.requests.iter().zip(&requests) {
            assert!(before.state() == RequestState::Pending || before == now, "{before:?} has changed to {now:?}");
        }
        self.check_pending(&members, &requests);
        self.check_hosts(&members).await;
        self.requests = requests;
        self.check_tasks().await;
        let members = self.model.members.iter().filter(|(_, bearer)| !bearer.is_host);
        for name in members.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.check_inbox(&name).await;
        }
    }

    /// Checks that at most one shutdown and one plan, and a bounded number of permission requests, are pending for each
    /// member, that they are for its present life, and that the member shows them.
    fn check_pending(&self, members: &[v1::Member], requests: &[v1::Request]) {
        for member in members {
            for (kind, shown) in
                [(RequestKind::Shutdown, &member.pending_shutdown), (RequestKind::PlanApproval, &member.pending_plan)]
            {
                let is_pending = |r: &&v1::Request| r.state() == RequestState::Pending && r.kind() == kind;
                let pending: Vec<_> =
                    requests.iter().filter(is_pending).filter(|request| request.member == member.name).collect();
                assert!(pending.len() <= 1, "{kind:?} for {} is pending twice: {pending:?}", member.name);
                // A member does not show an overdue request, even before the sweep.
                assert!(shown.is_empty() || pending[0].id == *shown);
                assert!(pending.iter().all(|request| request.incarnation == member.incarnation));
            }
            let is_asked = |request: &&v1::Request| {
                let is_pending = request.state() == RequestState::Pending;
                is_pending && request.kind() == RequestKind::Permission && request.member == member.name
            };
            let pending: Vec<_> = requests.iter().filter(is_asked).collect();
            assert!(pending.len() <= model::PERMISSIONS_MAX, "{pending:?}");
            let bearer = &self.model.members[&member.name];
            let open = bearer.permissions.iter().map(|at| &self.model.requests[*at]);
            let open: Vec<_> = open.filter(|it| it.is_open(self.model.now)).map(|it| &it.id).collect();
            assert_eq!(member.pending_permissions.iter().collect::<Vec<_>>(), open);
            assert!(pending.iter().all(|request| request.incarnation == member.incarnation));
        }
    }

    async fn check_tasks(&self) {
        let board = check_board(&*self.team.clock, &self.team.namespace).await;
        assert_eq!(board.tasks.len(), self.model.tasks.len());
        for ((id, task), expected) in board.tasks.iter().zip(&self.model.tasks) {
            let status = match task.status {
                TaskStatus::Pending => Status::Pending,
                TaskStatus::InProgress => Status::InProgress,
                TaskStatus::InReview => panic!("no story has a reviewer: {task:?}"),
                TaskStatus::Completed => Status::Completed,
                TaskStatus::Deleted => Status::Deleted,
            };
            let blocked_by: BTreeSet<usize> = task.blocked_by.iter().map(|id| *id as usize - 1).collect();
            let found = (status, task.owner.as_ref().map(Name::as_str), &blocked_by);
            assert_eq!(found, (expected.status, expected.owner.as_deref(), &expected.blocked_by), "task {id}");
        }
    }

    /// Checks that an inbox holds what it should, in the order of acceptance.
    async fn check_inbox(&mut self, name: &str) {
        let messages: Vec<v1::Message> =
            self.inbox(name).await.into_iter().map(|delivery| delivery.message.unwrap()).collect();
        let mut about = BTreeSet::new();
        for message in &messages {
            if let Some(Body::Notice(notice)) = &message.body {
                assert!(notice.count > 0, "{notice:?}");
                assert!(about.insert((notice.kind, notice.about())), "{name} has two notices like {notice:?}");
            }
        }
        let found: Vec<String> = messages
            .into_iter()
            .filter(|message| message.sender.as_ref().unwrap().kind() != SenderKind::Coordinator)
            .filter(|message| !self.handed_on.contains(&message.id))
            .map(|message| message.id)
            .collect();
        let (incarnation, seen) = (self.model.members[name].incarnation, &self.seen);
        let sent = &self.model.sent;
        // A message that was delivered often enough may be dead-lettered, and so may a shutdown request for another
        // life.
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

    /// Checks the history: it is dense, and has each message once, with a receipt for each recipient.
    pub(super) async fn check_receipts(&self, is_end: bool) {
        let filter = Some(v1::HistoryFilter { include_receipts: true, ..Default::default() });
        let query = HistoryQuery { filter, limit: 1_000, ..Default::default() };
        let entries = self.coordinators[0].history(&operator(), "alpha", &query).await.unwrap().entries;
        let mut places: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut waiting: BTreeMap<String, u64> = BTreeMap::new();
        let mut processed = 0;
        let mut accepted: BTreeSet<&str> = self.model.sent.iter().map(|sent| sent.id.as_str()).collect();
        for (at, entry) in entries.iter().enumerate() {
            assert_eq!(entry.sequence, at as u64 + 1, "the history is dense");
            let Some(Event::Message(message)) = &entry.event else { continue };
            let is_notice = message.sender.as_ref().unwrap().kind() == SenderKind::Coordinator
                || self.handed_on.contains(&message.id);
            assert!(
                is_notice || accepted.remove(message.id.as_str()),
                "never accepted, or recorded twice: {message:?}"
            );
            let named: Vec<_> = entry.receipts.iter().map(|receipt| receipt.recipient.as_str()).collect();
            assert_eq!(named, message.recipients, "each recipient has a receipt");
            for receipt in &entry.receipts {
                if matches!(receipt.state(), ReceiptState::Queued | ReceiptState::Delivered) {
                    *waiting.entry(receipt.recipient.clone()).or_default() += 1;
                }
                processed += usize::from(receipt.state() == ReceiptState::Processed);
                if receipt.sequence > 0 {
                    places.entry(receipt.recipient.clone()).or_default().push(receipt.sequence);
                }
                // Only notices may find an inbox full.
                assert!(is_notice || receipt.sequence > 0, "an accepted message is missing from an inbox");
                self.check_receipt(&message.id, receipt, is_end);
            }
        }
        // An acknowledgement of a message that a session dead-lettered has no effect.
        let are_acked = if self.sessions == Sessions::OpenOnly {
            processed == self.acked.len()
        } else {
            processed <= self.acked.len()
        };
        assert!(are_acked, "{processed} messages are processed, {} were acknowledged", self.acked.len());
        assert!(accepted.is_empty(), "accepted, but not in the history: {accepted:?}");
        let members = self.coordinators[0].list_members(&operator(), &all_members("alpha")).await.unwrap().members;
        for shown in self.model.members.keys() {
            let name = Name::parse(shown, "name").unwrap();
            let extent = self.team.clock.extents(&self.team.namespace, &[inbox(&name)]).await.unwrap().remove(0);
            let places = places.remove(shown).unwrap_or_default();
            assert_eq!(places, (1..extent.next).collect::<Vec<_>>(), "the inbox of {name} is dense");
            assert_eq!(waiting.remove(shown).unwrap_or_default(), extent.entries, "receipts of {name}");
            let member = members.iter().find(|member| member.name == *shown);
            assert!(member.is_none_or(|member| member.inbox_depth == extent.entries));
        }
        assert!(waiting.is_empty() && places.is_empty(), "receipts of unknown members: {waiting:?} {places:?}");
    }

    fn check_receipt(&self, id: &str, receipt: &v1::Receipt, is_end: bool) {
        let key = (id.to_owned(), receipt.recipient.clone());
        let (seen, is_acked) = (self.seen.get(&key).copied().unwrap_or_default(), self.acked.contains(&key));
        let bearer = &self.model.members[&receipt.recipient];
        let only_for = self.model.sent.iter().find(|sent| sent.id == id).and_then(|sent| sent.only_for);
        match (receipt.state(), receipt.dead_letter_cause()) {
            (ReceiptState::Processed, _) => assert!(is_acked, "processed without an acknowledgement"),
            (ReceiptState::DeadLettered, DeadLetterCause::DeliveryLimit) => assert!(seen >= model::DELIVERIES_MAX),
            (ReceiptState::DeadLettered, DeadLetterCause::TargetReplaced) => {
                assert!(only_for.is_some_and(|life| life != bearer.incarnation));
            }
            (ReceiptState::DeadLettered, DeadLetterCause::NotStarted | DeadLetterCause::RequestOver) => {
                assert!(self.model.withdrawn.contains(id) || self.handed_on.contains(id));
            }
            (ReceiptState::DeadLettered, DeadLetterCause::InboxFull) => assert_eq!(receipt.sequence, 0),
            (ReceiptState::DeadLettered, DeadLetterCause::Replaced) => {
                assert!(!self.contents.contains_key(id), "a message was replaced: {receipt:?}");
            }
            (ReceiptState::Queued | ReceiptState::Delivered, _) if !is_end => {
                let is_waiting = |place: &usize| self.model.sent[*place].id == id;
                let is_notice = !self.contents.contains_key(id);
                assert!(is_notice || bearer.inbox.iter().any(is_waiting), "{id} should not wait: {receipt:?}");
            }
            // A force-stopped member keeps its inbox until its name is forgotten or reused.
            (ReceiptState::Queued | ReceiptState::Delivered, _) => {
                let was_accepted = self.contents.contains_key(id);
                let is_stopped = bearer.life == Life::Forced;
                // Without a session that delivers, no request for another life goes to the dead letters.
                let is_void =
                    self.sessions == Sessions::OpenOnly && only_for.is_some_and(|life| life != bearer.incarnation);
                let may_wait = !was_accepted || is_stopped || is_void;
                assert!(may_wait, "{} never processed {id}: {receipt:?}", receipt.recipient);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the lives that a member or a host in this state may have.
pub(super) fn lives_of(state: MemberState) -> Vec<Life> {
    match state {
        MemberState::Lost => vec![Life::Lost],
        MemberState::Stopping => vec![Life::Approved, Life::Forced],
        MemberState::Exited => vec![Life::Exited { dismissed: true }, Life::Exited { dismissed: false }],
        MemberState::Spawning => vec![Life::Spawning],
        _ => vec![Life::Live],
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

pub(super) fn content_of(message: &v1::Message) -> &str {
    match message.body.as_ref().unwrap() {
        Body::Message(body) => &body.content,
        Body::Broadcast(body) => &body.content,
        Body::ShutdownRequest(body) => &body.reason,
        Body::ShutdownResponse(body) => &body.reason,
        Body::PlanApprovalRequest(body) => &body.plan,
        Body::PlanApprovalResponse(body) => &body.feedback,
        Body::PermissionRequest(body) => &body.detail,
        Body::PermissionResponse(body) => &body.reason,
        Body::ReviewRequest(body) => &body.result,
        Body::ReviewResponse(body) => &body.reason,
        Body::SpawnOrder(body) => &body.summary,
        Body::Notice(body) => &body.text,
    }
}
