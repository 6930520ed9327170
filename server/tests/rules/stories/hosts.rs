//! Acts about hosts and orders.

use proptest::sample::Index;
use teamwire_proto::v1;

use super::{
    Done, Keyed, Sessions, Story,
    acts::Call,
    generate::{Act, HOSTS, NAMES, Step, Who},
    model::{Asks, Caller, Life, Offer, Ordering, QUICK, SLOW, SLOW_DEADLINE, State},
};
use crate::{calls::RuleCalls as _, team::*};

/// The reason of every refusal, so that refusals are repeated.
const REASON: &str = "It has no room.";

/// Which order an act is about, and whether its host acts.
#[derive(Clone, Debug)]
pub(super) struct Pick {
    pub(super) order: Index,
    /// One that is pending, by the host that has it, so that stories get somewhere.
    pub(super) rightly: bool,
}

/// What a lead orders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) name: &'static str,
    pub(super) host: Option<&'static str>,
    pub(super) slow: bool,
    pub(super) prompt: bool,
    pub(super) plan_mode: bool,
    pub(super) keyed: bool,
    /// By the operator, so that stories get somewhere.
    pub(super) rightly: bool,
}

impl Story {
    /// Lets the hosts of a story join and say what they offer.
    pub(super) async fn add_hosts(&mut self) {
        for (coordinator, (host, slots)) in HOSTS.into_iter().zip([1, 1, 1]).enumerate() {
            for act in [Act::HostJoin { host }, Act::Offer { slots, slow: host != "west" }] {
                let who = match act {
                    Act::Offer { .. } => Who::latest(host),
                    _ => Who::Operator,
                };
                self.step(&Step { who, coordinator: coordinator % 2, act }).await;
            }
        }
    }

    pub(super) async fn join_host(&mut self, call: &Call, host: &'static str) -> Option<Done> {
        let invite =
            v1::InviteRequest { team: "alpha".to_owned(), member: host.to_owned(), host: true, ..Default::default() };
        let token = self.coordinators[0].invite(&operator(), &invite).await.unwrap().join_token;
        let joined = call.c.join(&presented(&token), &v1::JoinRequest { host: true, ..Default::default() }).await;
        let is_accepted = self.model.accepts_host_join(host);
        // The invitation changed something in any case.
        let Some(joined) = self.expect(joined, is_accepted, "a host's join") else { return Some(Done::Skipped) };
        self.begin(host, false, false, &joined);
        self.model.members.get_mut(host).unwrap().is_host = true;
        Some(Done::Accepted)
    }

    pub(super) async fn offer(&mut self, call: &Call, slots: usize, slow: bool) -> Option<Done> {
        let quick = v1::HostProfile { name: QUICK.to_owned(), ..Default::default() };
        let start_deadline = Some(prost_types::Duration { seconds: SLOW_DEADLINE as i64, nanos: 0 });
        let slow_one = v1::HostProfile { name: SLOW.to_owned(), start_deadline, ..Default::default() };
        let profiles = [quick].into_iter().chain(slow.then_some(slow_one)).collect();
        let offer = v1::HostOffer { profiles, slots: slots as u32, ..Default::default() };
        let expected = self.model.accepts_offer(&call.caller);
        let host = call.c.update_host(&call.who, &v1::UpdateHostRequest { offer: Some(offer) }).await;
        let host = host.map(|host| v1::Host { lease_left: None, connected: false, ..host });
        self.expect(host, expected.is_some(), "an offer")?;
        self.model.offers.insert(expected?, Offer { slots, slow });
        Some(Done::Accepted)
    }

    pub(super) async fn spawn(&mut self, call: &Call, wish: Wish) -> Option<Done> {
        let by_right = call.by((operator(), Caller::Operator));
        let call = if wish.rightly { &by_right } else { call };
        let ordering = Ordering {
            name: wish.name,
            host: wish.host,
            slow: wish.slow,
            prompt: wish.prompt,
            plan_mode: wish.plan_mode,
        };
        let prompt = if wish.prompt { self.new_content() } else { String::new() };
        let request = v1::SpawnRequest {
            team: call.team.clone(),
            idempotency_key: self.new_key(wish.keyed),
            name: wish.name.to_owned(),
            profile: if wish.slow { SLOW } else { QUICK }.to_owned(),
            host: wish.host.unwrap_or_default().to_owned(),
            prompt: prompt.clone(),
            plan_mode_required: wish.plan_mode,
            ..Default::default()
        };
        let room = |name: &str| call.has_room(name);
        let room_for_order = |name: &str| call.has_extra_room(name, Asks::Spawn);
        let expected = self.model.accepts_spawn(&call.caller, &ordering, room, room_for_order);
        let reply = call.c.spawn(&call.who, &request).await;
        let reply = self.expect(reply, expected.is_some(), "an order")?;
        let (host, order) = (expected?, reply.request.unwrap());
        assert_eq!(order.approver, host, "the order went to another host");
        if self.model.members.contains_key(wish.name) {
            self.end_session(wish.name, v1::CloseReason::Superseded);
        }
        self.model.reserve(&ordering);
        assert_eq!(reply.member.unwrap().incarnation, self.model.members[wish.name].incarnation);
        let prompted = wish.prompt.then(|| {
            assert!(self.contents.insert(reply.prompt_message_id.clone(), prompt).is_none());
            self.model.send(&reply.prompt_message_id, &call.from, &[wish.name.to_owned()], None);
            self.model.sent.len() - 1
        });
        let by = (call.from != "operator").then(|| call.from.clone());
        self.model.order(&order.id, &ordering, &host, by, prompted);
        self.check_slots(&host).await;
        if wish.keyed {
            self.keyed.push(Keyed::Spawn { who: call.caller.clone(), request, request_id: order.id });
        }
        Some(Done::Accepted)
    }

    /// Checks that a host that just got an order has a slot for it.
    async fn check_slots(&self, host: &str) {
        let list = v1::ListHostsRequest { team: "alpha".to_owned(), ..Default::default() };
        let hosts = self.coordinators[1].list_hosts(&operator(), &list).await.unwrap().hosts;
        let chosen = hosts.into_iter().find(|it| it.name == host).unwrap();
        assert!(chosen.slots_used <= chosen.offer.as_ref().unwrap().slots, "an order beyond the slots: {chosen:?}");
    }

    /// Returns the order that an act is about, and the call with which its host acts.
    fn picked(&self, call: &Call, pick: &Pick) -> Option<(usize, Call)> {
        let is_pending = |at: &usize| self.model.requests[self.model.orders[*at].request].state == State::Pending;
        let known: Vec<usize> = (0..self.model.orders.len()).filter(|at| !pick.rightly || is_pending(at)).collect();
        let at = known.get(pick.order.index(known.len().max(1))).copied()?;
        let host = HOSTS.into_iter().find(|host| self.model.orders[at].host == *host).unwrap();
        Some((at, call.by(if pick.rightly { self.latest(host) } else { (call.who.clone(), call.caller.clone()) })))
    }

    fn order_id(&self, order: usize) -> String {
        self.model.requests[self.model.orders[order].request].id.clone()
    }

    pub(super) async fn take_order(&mut self, call: &Call, pick: &Pick) -> Option<Done> {
        let Some((at, call)) = self.picked(call, pick) else { return Some(Done::Skipped) };
        let is_accepted = self.model.accepts_take(&call.caller, at);
        let taken = call.c.take_order(&call.who, &v1::TakeOrderRequest { request_id: self.order_id(at) }).await;
        let token = taken.as_ref().map(|reply| reply.join_token.clone()).unwrap_or_default();
        self.expect(taken.map(|reply| reply.request), is_accepted, "taking an order")?;
        self.model.take(at, self.tokens.len());
        self.tokens.push(token);
        Some(Done::Accepted)
    }

    /// Joins by a token that a host got, and opens a session if it should.
    pub(super) async fn join_ordered(
        &mut self,
        call: &Call,
        token: &Index,
        latest: bool,
        detached: bool,
        starts: bool,
    ) -> Option<Done> {
        let Some(at) = self.tokens.len().checked_sub(1) else { return Some(Done::Skipped) };
        let at = if latest { at } else { token.index(at + 1) };
        let expected = self.model.accepts_ordered_join(at);
        let joined = call.c.join(&presented(&self.tokens[at]), &join_by(detached)).await;
        let joined = self.expect(joined, expected.is_some(), "a join by an order's token")?;
        let order = expected?;
        self.model.begin_ordered(order, detached);
        let joined_as = joined.member.as_ref().unwrap();
        let name = NAMES.into_iter().find(|name| joined_as.name == *name).unwrap();
        assert_eq!(joined_as.incarnation, self.model.orders[order].incarnation, "the order began another life");
        self.note_life(name, &joined);
        if starts {
            return self.open_stream(&call.by(self.latest(name))).await;
        }
        Some(Done::Accepted)
    }

    pub(super) async fn refuse_order(&mut self, call: &Call, pick: &Pick, try_another_host: bool) -> Option<Done> {
        let Some((at, call)) = self.picked(call, pick) else { return Some(Done::Skipped) };
        let is_same_reason = self.refused.contains(&at);
        let expected = self.model.accepts_refusal(&call.caller, at, is_same_reason);
        let request =
            v1::RefuseOrderRequest { request_id: self.order_id(at), reason: REASON.to_owned(), try_another_host };
        let refused = call.c.refuse_order(&call.who, &request).await;
        let refused = self.expect(refused, expected.is_some(), "refusing an order")?;
        if expected == Some(true) {
            let life = self.life_of(at);
            match self.model.refuse(at, try_another_host) {
                Some(next) => {
                    assert_eq!(refused.approver, next, "the order went to another host");
                    self.check_slots(&next).await;
                }
                None => {
                    self.refused.insert(at);
                    assert_eq!(refused.state(), v1::RequestState::Rejected);
                    self.end_if_joined(at, life);
                }
            }
        }
        Some(Done::Accepted)
    }

    pub(super) async fn report_exit(&mut self, call: &Call, pick: &Pick) -> Option<Done> {
        let Some((at, call)) = self.picked(call, pick) else { return Some(Done::Skipped) };
        let is_accepted = self.model.accepts_report(&call.caller, at);
        let report = v1::ReportExitRequest { request_id: self.order_id(at), exit: None };
        let reported = call.c.report_exit(&call.who, &report).await;
        self.expect(reported, is_accepted, "reporting an exit")?;
        let life = self.life_of(at);
        if self.model.report_exit(at) {
            self.end_if_joined(at, life);
        }
        Some(Done::Accepted)
    }

    fn life_of(&self, order: usize) -> Life {
        self.model.members[&self.model.requests[self.model.orders[order].request].member].life
    }

    /// Records that the session of an order's member must end, if the member had joined.
    fn end_if_joined(&mut self, order: usize, life: Life) {
        if life != Life::Spawning {
            let name = self.model.requests[self.model.orders[order].request].member.clone();
            self.end_session(&name, v1::CloseReason::MemberStopped);
        }
    }

    /// Acknowledges the message of an order.
    pub(super) async fn ack_order(&mut self, call: &Call, pick: &Pick) -> Option<Done> {
        let Some((at, call)) = self.picked(call, pick) else { return Some(Done::Skipped) };
        let host = self.model.orders[at].host.clone();
        let message_id = self.team.request(&self.order_id(at)).await.message_id;
        let expected = self.model.accepts_ack(&call.caller);
        let request = v1::AckRequest { session_id: String::new(), message_ids: vec![message_id.clone()] };
        let acked = call.c.acknowledge(&call.who, &request).await;
        let acked = self.expect(acked, expected.is_some(), "an acknowledgement of an order")?;
        let was_acked = self.acked.contains(&(message_id.clone(), host.clone()));
        let is_own = expected? == host;
        assert!(acked == u32::from(is_own && !was_acked) || self.sessions == Sessions::Deliver);
        if acked > 0 {
            self.acked.insert((message_id, host));
        }
        Some(Done::Accepted)
    }

    /// Compares the hosts and the orders with the model.
    pub(super) async fn check_hosts(&self, members: &[v1::Member]) {
        let list = v1::ListHostsRequest { team: "alpha".to_owned(), page_size: 1_000, ..Default::default() };
        let hosts = self.coordinators[1].list_hosts(&operator(), &list).await.unwrap().hosts;
        assert_eq!(hosts.len(), self.model.members.values().filter(|bearer| bearer.is_host).count());
        for host in hosts {
            let (bearer, offer) = (&self.model.members[&host.name], self.model.offers.get(&host.name));
            assert_eq!(host.incarnation, bearer.incarnation);
            assert_eq!(host.slots_used as usize, self.model.slots_used(&host.name), "the slots of {}", host.name);
            assert_eq!(host.offer.as_ref().map(|it| it.slots as usize), offer.map(|offer| offer.slots));
            let life = super::check::lives_of(host.state());
            assert!(life.contains(&bearer.life), "{} is {life:?}, and should be {:?}", host.name, bearer.life);
        }
        for member in members {
            let bearer = &self.model.members[&member.name];
            let order = |at: usize| &self.model.orders[at];
            let host = bearer.ordered.map_or("", |at| order(at).host.as_str());
            assert_eq!(member.spawned_on, host, "the host of {}", member.name);
            let pending = bearer.order.map(|at| &self.model.requests[order(at).request]);
            assert_eq!(member.pending_order, pending.map_or("", |request| request.id.as_str()), "{}", member.name);
            if member.state() == v1::MemberState::Spawning {
                let pending = pending.expect("a reserved name has an order");
                assert!(pending.is_open(self.model.now), "{} is still reserved", member.name);
            }
            self.check_credentials(&member.name).await;
        }
    }

    /// Checks that only the latest of a name's lives can act.
    async fn check_credentials(&self, name: &str) {
        let Some(lives) = self.credentials.get(name) else { return };
        let (latest, former) = lives.split_last().unwrap();
        let get = |who| {
            let c = &self.coordinators[0];
            async move { c.get_team(&who, "").await.is_ok() }
        };
        for (incarnation, who) in former {
            assert!(!get(who.clone()).await, "life {incarnation} of {name} acts beside life {}", latest.0);
        }
        let is_present = latest.0 == self.model.members[name].incarnation;
        assert!(is_present || !get(latest.1.clone()).await, "life {} of {name} acts after its end", latest.0);
    }

    /// Checks that a life may be given the prompt of an order.
    pub(super) fn check_prompt(&self, sent: usize, incarnation: u64) {
        let Some(order) = self.model.orders.iter().find(|order| order.prompt == Some(sent)) else { return };
        assert_eq!(self.model.requests[order.request].state, State::Approved, "the prompt of a failed order");
        assert!(incarnation >= order.incarnation, "an earlier life got the prompt");
    }
}
