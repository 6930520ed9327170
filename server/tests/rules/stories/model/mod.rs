//! A reference model of a team: small, slow, in memory, without records, versions or caches.
//!
//! It is independent of the rules' code. For each call it says whether the call must be accepted, and what the team
//! looks like afterwards: the state of every member, request and task, and the unprocessed messages in each inbox,
//! except the coordinator's own notices. Time is in seconds.

mod hosts;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use hosts::{Offer, Order, Ordering, QUICK, SLOW, SLOW_DEADLINE, SPAWN_DEADLINE};
pub(super) use tasks::{Change, Status, Task, limits};

pub(super) const INBOX_ENTRIES_MAX: u64 = 8;
pub(super) const DELIVERIES_MAX: u32 = 3;
/// The smallest passage of time. Every deadline is half a step off, so that the test's own speed does not matter.
pub(super) const STEP: u64 = 100;
pub(super) const SHUTDOWN_DEADLINE: u64 = 250;
pub(super) const PLAN_DEADLINE: u64 = 350;
pub(super) const PERMISSION_DEADLINE: u64 = 250;
pub(super) const PERMISSIONS_MAX: usize = 2;
pub(super) const LEASE: u64 = 450;
pub(super) const GRACE: u64 = 200;
pub(super) const EXIT_ALARM: u64 = 150;
pub(super) const CLAIM_TTL: u64 = 650;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Live,
    Lost,
    /// It approved its shutdown.
    Approved,
    Forced,
    Exited {
        dismissed: bool,
    },
    /// Was ordered, and has not joined.
    Spawning,
}

impl Life {
    fn takes_messages(self) -> bool {
        matches!(self, Self::Live | Self::Lost | Self::Spawning)
    }

    fn is_live(self) -> bool {
        matches!(self, Self::Live | Self::Approved | Self::Forced)
    }

    fn holds_name(self) -> bool {
        self.is_live() || self == Self::Spawning
    }
}

/// A name and its current life.
#[derive(Clone, Debug)]
pub(super) struct Bearer {
    pub(super) incarnation: u64,
    pub(super) life: Life,
    /// No process keeps this life going.
    pub(super) detached: bool,
    lease_until: u64,
    /// The index of the latest session.
    pub(super) session: Option<usize>,
    /// The indices of the pending requests.
    pub(super) shutdown: Option<usize>,
    pub(super) plan: Option<usize>,
    pub(super) permissions: Vec<usize>,
    /// It must have a plan approved before it works on tasks.
    pub(super) plan_mode: bool,
    plan_approved: bool,
    /// It takes orders, and nothing else.
    pub(super) is_host: bool,
    /// The order that began its present life.
    pub(super) ordered: Option<usize>,
    /// That order, while it is pending.
    pub(super) order: Option<usize>,
    /// The indices of the unprocessed messages.
    pub(super) inbox: Vec<usize>,
}

impl Bearer {
    /// The bearer of a new name, before its first life.
    fn new(lease_until: u64) -> Self {
        Self {
            incarnation: 0,
            life: Life::Exited { dismissed: true },
            detached: false,
            lease_until,
            session: None,
            shutdown: None,
            plan: None,
            permissions: Vec::new(),
            plan_mode: false,
            plan_approved: false,
            is_host: false,
            ordered: None,
            order: None,
            inbox: Vec::new(),
        }
    }

    pub(super) fn is_away(&self, now: u64) -> bool {
        self.detached && self.life == Life::Live && now >= self.lease_until
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    Shutdown,
    Plan,
    Permission,
    Spawn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    Approved,
    Rejected,
    Expired,
    Cancelled,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) asks: Asks,
    pub(super) member: String,
    pub(super) by: Option<String>,
    /// The member that a permission request names, or the host that has an order.
    pub(super) approver: Option<String>,
    pub(super) state: State,
    pub(super) expires: u64,
    /// The message that made it. `None` if another has since made it again.
    pub(super) message: Option<usize>,
}

impl Request {
    /// Returns whether it can still be answered.
    pub(super) fn is_open(&self, now: u64) -> bool {
        self.state == State::Pending && self.expires > now
    }
}

/// An accepted message.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) from: String,
    /// The life that a shutdown request addresses.
    pub(super) only_for: Option<u64>,
}

/// The caller, as its credential shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    Operator,
    Stranger,
    Member {
        name: String,
        /// The life that its credential belongs to.
        incarnation: u64,
        session: Option<usize>,
    },
}

/// The lives that may make a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lets {
    Working,
    Ending,
    Ended,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) now: u64,
    pub(super) lead: String,
    pub(super) members: BTreeMap<String, Bearer>,
    pub(super) requests: Vec<Request>,
    pub(super) sent: Vec<Sent>,
    pub(super) tasks: Vec<Task>,
    pub(super) orders: Vec<Order>,
    pub(super) offers: BTreeMap<String, Offer>,
    /// The prompts of orders that failed, and the messages of requests that ended without an answer.
    pub(super) withdrawn: BTreeSet<String>,
}

impl Model {
    /// Returns the caller's name. `None` if the call must be refused, as most calls of hosts must.
    fn admit(&self, caller: &Caller, lets: Lets) -> Option<&str> {
        self.admit_any(caller, lets).filter(|name| !self.members.get(*name).is_some_and(|bearer| bearer.is_host))
    }

    /// Returns the caller's name, also that of a host.
    fn admit_any(&self, caller: &Caller, lets: Lets) -> Option<&str> {
        let (name, incarnation, session) = match caller {
            Caller::Operator => return Some("operator"),
            Caller::Stranger => return None,
            Caller::Member { name, incarnation, session } => (name, incarnation, session),
        };
        let (name, bearer) = self.members.get_key_value(name)?;
        let lives = match bearer.life {
            Life::Live | Life::Lost => true,
            Life::Approved => lets != Lets::Working,
            Life::Forced | Life::Exited { .. } => lets == Lets::Ended,
            // Nobody has its credential.
            Life::Spawning => false,
        };
        let is_newest = bearer.incarnation == *incarnation && (session.is_none() || *session == bearer.session);
        (lives && is_newest).then_some(name)
    }

    /// Returns whether the caller may add and claim tasks.
    pub(super) fn may_work(&self, caller: &Caller) -> bool {
        self.admit(caller, Lets::Working).is_some()
    }

    /// Returns whether the caller may learn the reply to an earlier send: a member that approved its shutdown may, too.
    pub(super) fn may_repeat_a_send(&self, caller: &Caller) -> bool {
        self.admit(caller, Lets::Ending).is_some()
    }

    fn member_only(&self, caller: &Caller, lets: Lets) -> Option<&str> {
        self.admit(caller, lets).filter(|name| *name != "operator")
    }

    /// The same for the calls that a host may make, too.
    fn inbox_owner(&self, caller: &Caller, lets: Lets) -> Option<&str> {
        self.admit_any(caller, lets).filter(|name| *name != "operator")
    }

    fn takes(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|bearer| bearer.life.takes_messages() && !bearer.is_host)
    }

    /// Returns whether a name takes what only a member that has started can answer.
    fn has_started(&self, name: &str) -> bool {
        self.takes(name) && self.members[name].life != Life::Spawning
    }

    /// Returns the caller's name if it may send.
    fn sender(&self, caller: &Caller) -> Option<&str> {
        self.admit(caller, Lets::Working)
    }

    /// Returns whether a caller has the lead's powers.
    fn rules(&self, name: &str) -> bool {
        name == "operator" || name == self.lead
    }

    fn bearer(&mut self, name: &str) -> &mut Bearer {
        self.members.get_mut(name).expect("a known name")
    }

    // Which calls must be accepted. `room`: whether an inbox has room for one more message, which notices do not use.

    pub(super) fn accepts_message(&self, caller: &Caller, to: &str, room: impl Fn(&str) -> bool) -> bool {
        self.sender(caller).is_some_and(|from| from != to) && self.takes(to) && room(to)
    }

    /// Returns the recipients.
    pub(super) fn accepts_broadcast(&self, caller: &Caller, room: impl Fn(&str) -> bool) -> Option<Vec<String>> {
        let from = self.sender(caller)?;
        let to: Vec<_> = self.members.keys().filter(|name| *name != from && self.takes(name)).cloned().collect();
        to.iter().all(|name| room(name)).then_some(to)
    }

    pub(super) fn accepts_shutdown(&self, caller: &Caller, to: &str, room: impl Fn(&str) -> bool) -> bool {
        let is_pending = |index: &usize| self.requests[*index].expires > self.now;
        self.accepts_message(caller, to, room)
            && self.has_started(to)
            && self.sender(caller).is_some_and(|from| self.rules(from))
            && !self.members[to].shutdown.as_ref().is_some_and(is_pending)
    }

    pub(super) fn accepts_plan(&self, caller: &Caller, room: impl Fn(&str) -> bool) -> bool {
        self.sender(caller).is_some_and(|from| !self.rules(from)) && self.takes(&self.lead) && room(&self.lead)
    }

    /// Returns the approver that the coordinator records. `of`: the member that the asker names. `None` means the lead.
    pub(super) fn approver<'o>(&self, from: &str, of: Option<&'o str>) -> Option<&'o str> {
        let has_ended = |name: &&str| self.members.get(*name).is_some_and(|_| !self.takes(name));
        of.filter(|name| self.rules(from) || !has_ended(name))
    }

    /// Returns the recipient of a permission request. `of`: the member that it names.
    pub(super) fn accepts_permission(
        &self,
        caller: &Caller,
        of: Option<&str>,
        room: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let from = self.member_only(caller, Lets::Working)?;
        let to = self.approver(from, of).unwrap_or(&self.lead);
        if from == to {
            return None;
        }
        let pending = self.members[from].permissions.iter().filter(|at| self.requests[**at].is_open(self.now));
        (pending.count() < PERMISSIONS_MAX && self.has_started(to) && room(to)).then(|| to.to_owned())
    }

    /// Returns whether a withdrawal changes the request, if it is accepted.
    pub(super) fn accepts_withdrawal(&self, caller: &Caller, request: usize) -> Option<bool> {
        let request = &self.requests[request];
        let is_own = self.admit(caller, Lets::Ending)? == request.member && request.asks == Asks::Permission;
        is_own.then(|| request.is_open(self.now))
    }

    /// Returns whether an answer is new, if it is accepted. `to`: the member that an answer to a plan names.
    pub(super) fn accepts_answer(
        &self,
        caller: &Caller,
        request: usize,
        asks: Asks,
        to: &str,
        approve: Option<bool>,
        room: impl Fn(&str) -> bool,
    ) -> Option<bool> {
        let request = &self.requests[request];
        let may = match asks {
            Asks::Shutdown => self.admit(caller, Lets::Ending)? == request.member,
            Asks::Plan => {
                let from = self.sender(caller)?;
                self.rules(from) && to != from && to == request.member
            }
            Asks::Permission => {
                let from = self.sender(caller)?;
                from != request.member && (self.rules(from) || request.approver.as_deref() == Some(from))
            }
            Asks::Spawn => return None,
        };
        let is_due = request.is_open(self.now);
        let was = match request.state {
            State::Approved => Some(true),
            State::Rejected => Some(false),
            _ => None,
        };
        let has_room = request.by.as_deref().is_none_or(room);
        match may && request.asks == asks {
            true if is_due && has_room && approve.is_some() => Some(true),
            true if approve.is_some() && was == approve => Some(false),
            _ => None,
        }
    }

    pub(super) fn accepts_stream(&self, caller: &Caller) -> Option<String> {
        // The new session supersedes any session that the caller shows.
        let Caller::Member { name, incarnation, .. } = caller else { return None };
        let without_session = Caller::Member { name: name.clone(), incarnation: *incarnation, session: None };
        self.inbox_owner(&without_session, Lets::Ending).map(ToOwned::to_owned)
    }

    pub(super) fn accepts_ack(&self, caller: &Caller) -> Option<String> {
        self.inbox_owner(caller, Lets::Ending).map(ToOwned::to_owned)
    }

    pub(super) fn accepts_leave(&self, caller: &Caller) -> Option<String> {
        self.inbox_owner(caller, Lets::Ended).map(ToOwned::to_owned)
    }

    /// With a join token bound to the name.
    pub(super) fn accepts_join(&self, name: &str) -> bool {
        self.members.get(name).is_none_or(|bearer| !self.keeps_the_team(bearer))
    }

    /// Returns whether a member keeps its team from being deleted and its name from being taken.
    fn keeps_the_team(&self, bearer: &Bearer) -> bool {
        bearer.life.holds_name() && !bearer.is_away(self.now)
    }

    pub(super) fn accepts_rejoin(&self, caller: &Caller) -> Option<String> {
        let Caller::Member { name, incarnation, .. } = caller else { return None };
        let bearer = self.members.get(name).filter(|bearer| bearer.incarnation == *incarnation)?;
        matches!(bearer.life, Life::Live | Life::Lost | Life::Exited { dismissed: false }).then(|| name.clone())
    }

    pub(super) fn accepts_force(&self, caller: &Caller, name: &str) -> bool {
        let is_there = self.members.get(name).is_some_and(|bearer| !matches!(bearer.life, Life::Exited { .. }));
        is_there && self.sender(caller).is_some_and(|from| self.rules(from) && from != name)
    }

    /// Returns whether the role really changes hands, if the call is accepted.
    pub(super) fn accepts_set_lead(&self, caller: &Caller, to: &str) -> Option<bool> {
        let from = self.sender(caller).filter(|from| self.rules(from))?;
        let lead = &self.members[&self.lead];
        let lead_is_live = lead.life.is_live() && !lead.is_away(self.now);
        match self.has_started(to) {
            true if to == self.lead => Some(false),
            true if from == "operator" && lead_is_live => None,
            is_accepted => is_accepted.then_some(true),
        }
    }

    pub(super) fn accepts_delete(&self, caller: &Caller) -> bool {
        let Some(from) = self.sender(caller).filter(|from| self.rules(from)) else { return false };
        self.members.iter().all(|(name, bearer)| name == from || bearer.is_host || !self.keeps_the_team(bearer))
    }

    // The effects of accepted calls.

    /// Adds an accepted message to inboxes.
    pub(super) fn send(&mut self, id: &str, from: &str, to: &[String], only_for: Option<u64>) {
        let place = self.sent.len();
        self.sent.push(Sent { id: id.to_owned(), from: from.to_owned(), only_for });
        for name in to {
            self.bearer(name).inbox.push(place);
        }
    }

    pub(super) fn ask(&mut self, id: &str, asks: Asks, member: &str, by: Option<String>, approver: Option<String>) {
        let place = self.requests.len();
        let expires = self.now
            + match asks {
                Asks::Shutdown => SHUTDOWN_DEADLINE,
                Asks::Plan => PLAN_DEADLINE,
                Asks::Permission => PERMISSION_DEADLINE,
                Asks::Spawn => unreachable!("orders are made with `order`"),
            };
        let (id, member_name) = (id.to_owned(), member.to_owned());
        let message = Some(self.sent.len() - 1);
        let state = State::Pending;
        self.requests.push(Request { id, asks, member: member_name, by, approver, state, expires, message });
        let bearer = self.bearer(member);
        let earlier = match asks {
            Asks::Shutdown => bearer.shutdown.replace(place),
            Asks::Plan => bearer.plan.replace(place),
            Asks::Permission => {
                bearer.permissions.push(place);
                None
            }
            Asks::Spawn => None,
        };
        if let Some(earlier) = earlier {
            self.leave(earlier, if asks == Asks::Shutdown { State::Expired } else { State::Cancelled });
        }
    }

    pub(super) fn withdraw(&mut self, request: usize) {
        self.leave(request, State::Cancelled);
        let member = self.requests[request].member.clone();
        self.bearer(&member).permissions.retain(|pending| *pending != request);
    }

    pub(super) fn answer(&mut self, request: usize, approve: bool) {
        self.requests[request].state = if approve { State::Approved } else { State::Rejected };
        let Request { asks, member, .. } = self.requests[request].clone();
        let now = self.now;
        let bearer = self.bearer(&member);
        match asks {
            Asks::Plan => {
                bearer.plan = None;
                bearer.plan_approved |= approve;
            }
            Asks::Permission => bearer.permissions.retain(|pending| *pending != request),
            Asks::Spawn => {}
            Asks::Shutdown => {
                bearer.shutdown = None;
                if approve {
                    bearer.life = Life::Approved;
                    bearer.lease_until = now + LEASE;
                }
            }
        }
    }

    /// Ends a request without an answer: its message leaves the inbox of the member that was to give one.
    fn leave(&mut self, request: usize, state: State) {
        self.requests[request].state = state;
        let Request { asks, approver, message, .. } = self.requests[request].clone();
        if !matches!(asks, Asks::Plan | Asks::Permission) {
            return;
        }
        let approver = approver.unwrap_or_else(|| self.lead.clone());
        let bearer = self.bearer(&approver);
        if let Some(place) = message.filter(|place| bearer.inbox.contains(place)) {
            bearer.inbox.retain(|other| *other != place);
            let id = self.sent[place].id.clone();
            self.withdrawn.insert(id);
        }
    }

    /// Makes another member the lead, which gets the pending requests of the others again.
    pub(super) fn set_lead(&mut self, name: &str) {
        self.lead = name.to_owned();
        for (_, bearer) in self.members.iter().filter(|(member, _)| *member != name) {
            for request in bearer.plan.iter().chain(&bearer.permissions) {
                let request = &mut self.requests[*request];
                if request.approver.is_none() {
                    request.message = None;
                }
            }
        }
    }

    fn cancel(&mut self, name: &str) {
        let bearer = self.bearer(name);
        let requests = [bearer.shutdown.take(), bearer.plan.take()];
        let permissions = std::mem::take(&mut bearer.permissions);
        for request in requests.into_iter().flatten().chain(permissions) {
            self.leave(request, State::Cancelled);
        }
        if let Some(order) = self.bearer(name).order.take() {
            self.conclude(order, State::Cancelled);
            let bearer = self.bearer(name);
            if bearer.life == Life::Spawning {
                bearer.life = Life::Exited { dismissed: true };
            }
        }
    }

    /// Begins a new life of the process that has the member's credential: the order that began its life continues.
    pub(super) fn begin_again(&mut self, name: &str, plan_mode: bool, detached: bool) {
        let bearer = self.bearer(name);
        let (ordered, order) = (bearer.ordered, bearer.order.take());
        self.begin(name, plan_mode, detached);
        let bearer = self.bearer(name);
        (bearer.ordered, bearer.order) = (ordered, order);
    }

    pub(super) fn begin(&mut self, name: &str, plan_mode: bool, detached: bool) {
        let lease_until = self.now + LEASE;
        if self.members.contains_key(name) {
            self.cancel(name);
            self.give_back(name);
            let bearer = self.bearer(name);
            (bearer.incarnation, bearer.life, bearer.lease_until) = (bearer.incarnation + 1, Life::Live, lease_until);
            (bearer.plan_mode, bearer.plan_approved, bearer.detached) = (plan_mode, false, detached);
            bearer.ordered = None;
            return;
        }
        let bearer = Bearer { incarnation: 1, life: Life::Live, detached, plan_mode, ..Bearer::new(lease_until) };
        self.members.insert(name.to_owned(), bearer);
    }

    pub(super) fn end(&mut self, name: &str) {
        self.cancel(name);
        let others = self.members.iter().filter(|(member, _)| **member != self.lead);
        for request in others.flat_map(|(_, bearer)| &bearer.permissions) {
            let request = &mut self.requests[*request];
            if request.expires > self.now && request.approver.as_deref() == Some(name) {
                request.approver = None;
                if self.lead != name {
                    request.message = None;
                }
            }
        }
        self.give_back(name);
        let bearer = self.bearer(name);
        let dismissed = matches!(bearer.life, Life::Approved | Life::Forced | Life::Exited { dismissed: true });
        bearer.life = Life::Exited { dismissed };
    }

    pub(super) fn force(&mut self, name: &str) {
        let was_reserved = self.members[name].life == Life::Spawning;
        self.cancel(name);
        if was_reserved {
            return;
        }
        self.give_back(name);
        let bearer = self.bearer(name);
        bearer.life = Life::Forced;
        if bearer.is_host {
            self.end(name);
        }
    }

    /// Renews a member's lease. `finds`: whether that makes a lost member live again, as everything but opening a
    /// stream does.
    pub(super) fn hear(&mut self, name: &str, finds: bool) {
        let until = self.now + LEASE;
        let bearer = self.bearer(name);
        bearer.lease_until = until;
        if finds && bearer.life == Life::Lost {
            bearer.life = Life::Live;
        }
    }

    /// Carries out what is due. `may_lose`: whether members may become lost.
    pub(super) fn expire(&mut self, may_lose: bool) {
        for name in self.members.keys().cloned().collect::<Vec<_>>() {
            let now = self.now;
            let requests = &self.requests;
            let is_overdue = |index: &usize| requests[*index].expires <= now;
            let bearer = self.members.get_mut(&name).expect("a known name");
            let mut overdue: Vec<usize> = Vec::new();
            for pending in [&mut bearer.shutdown, &mut bearer.plan] {
                overdue.extend(pending.take_if(|index| is_overdue(index)));
            }
            overdue.extend(bearer.permissions.iter().copied().filter(is_overdue));
            bearer.permissions.retain(|index| !is_overdue(index));
            for request in overdue {
                self.leave(request, State::Expired);
            }
            let order =
                self.members[&name].order.filter(|order| self.requests[self.orders[*order].request].expires <= now);
            if let Some(order) = order {
                self.fail(order, State::Expired);
            }
            let bearer = self.members.get_mut(&name).expect("a known name");
            let is_due = may_lose && now >= bearer.lease_until + GRACE;
            match bearer.life {
                // It has no process that would report its exit.
                Life::Approved | Life::Forced if bearer.detached => self.end(&name),
                _ if bearer.detached || !is_due => {}
                Life::Live => {
                    bearer.life = Life::Lost;
                    self.give_back(&name);
                }
                Life::Approved | Life::Forced => self.end(&name),
                Life::Lost | Life::Exited { .. } | Life::Spawning => {}
            }
        }
        self.expire_claims();
    }
}
