//! The model's hosts and orders.

use super::{Asks, Bearer, Caller, Lets, Life, Model, Request, State};

pub(crate) const SPAWN_DEADLINE: u64 = 250;
/// How long a start with the profile [`SLOW`] may take.
pub(crate) const SLOW_DEADLINE: u64 = 350;
/// The profile that every host offers, and the one that only some do.
pub(crate) const QUICK: &str = "quick";
pub(crate) const SLOW: &str = "slow";
/// How many hosts may refuse an order.
const HOSTS_TRIED_MAX: usize = 3;

/// What a host offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) slots: usize,
    pub(crate) slow: bool,
}

/// What is ordered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordering<'a> {
    pub(crate) name: &'a str,
    pub(crate) host: Option<&'a str>,
    pub(crate) slow: bool,
    pub(crate) prompt: bool,
    pub(crate) plan_mode: bool,
}

/// An order that was accepted.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The index of its request.
    pub(crate) request: usize,
    /// The life that it is to begin.
    pub(crate) incarnation: u64,
    /// The host that has it.
    pub(crate) host: String,
    /// The host was asked for by name.
    is_bound: bool,
    slow: bool,
    refused_by: Vec<String>,
    /// The index of the message that holds the prompt.
    pub(crate) prompt: Option<usize>,
    /// The index of the token that joins its member.
    token: Option<usize>,
}

impl Model {
    /// Returns the host that calls. `None` if the call must be refused.
    fn admit_host(&self, caller: &Caller) -> Option<&str> {
        self.admit_any(caller, Lets::Working).filter(|name| self.members.get(*name).is_some_and(|it| it.is_host))
    }

    /// Returns how many slots of a host are taken.
    pub(crate) fn slots_used(&self, host: &str) -> usize {
        let is_on_host = |bearer: &&Bearer| bearer.ordered.is_some_and(|order| self.orders[order].host == host);
        self.members.values().filter(is_on_host).filter(|bearer| bearer.life.holds_name()).count()
    }

    /// Returns the host that must get an order.
    fn place(&self, bound_to: Option<&str>, slow: bool, refused_by: &[String]) -> Option<String> {
        let mut best: Option<(usize, &String)> = None;
        for (name, bearer) in self.members.iter().filter(|(_, bearer)| bearer.is_host) {
            let Some(offer) = self.offers.get(name) else { continue };
            let is_live = bearer.life == Life::Live && self.now < bearer.lease_until;
            let is_asked = bound_to.is_none_or(|host| host == name) && !refused_by.contains(name);
            let free = offer.slots.saturating_sub(self.slots_used(name));
            if is_live && is_asked && offer.slow >= slow && free > 0 && best.is_none_or(|(most, _)| free > most) {
                best = Some((free, name));
            }
        }
        best.map(|(_, name)| name.clone())
    }

    /// Returns whether a host may join under this name by a token for it.
    pub(crate) fn accepts_host_join(&self, name: &str) -> bool {
        self.members.get(name).is_none_or(|bearer| !self.keeps_the_team(bearer))
    }

    pub(crate) fn accepts_offer(&self, caller: &Caller) -> Option<String> {
        self.admit_host(caller).map(str::to_owned)
    }

    /// Returns the host that must get the order.
    pub(crate) fn accepts_spawn(
        &self,
        caller: &Caller,
        ordering: &Ordering<'_>,
        room: impl Fn(&str) -> bool,
        room_for_order: impl Fn(&str) -> bool,
    ) -> Option<String> {
        self.sender(caller).filter(|from| self.rules(from))?;
        let is_free = self.members.get(ordering.name).is_none_or(|bearer| match bearer.life {
            // It may have called a moment ago.
            Life::Lost => self.now >= bearer.lease_until,
            Life::Exited { .. } => true,
            _ => false,
        });
        let host = self.place(ordering.host, ordering.slow, &[])?;
        (is_free && (!ordering.prompt || room(ordering.name)) && room_for_order(&host)).then_some(host)
    }

    /// Returns whether the caller may learn the reply to its earlier order.
    pub(crate) fn may_repeat_an_order(&self, caller: &Caller) -> bool {
        self.sender(caller).is_some_and(|from| self.rules(from))
    }

    /// Reserves the name of an order's member.
    pub(crate) fn reserve(&mut self, ordering: &Ordering<'_>) {
        let name = ordering.name;
        if self.members.contains_key(name) {
            self.cancel(name);
        } else {
            self.members.insert(name.to_owned(), Bearer::new(0));
        }
        let bearer = self.bearer(name);
        (bearer.incarnation, bearer.life, bearer.detached) = (bearer.incarnation + 1, Life::Spawning, false);
        (bearer.plan_mode, bearer.plan_approved) = (ordering.plan_mode, false);
    }

    /// Records an order, after the name is reserved and the prompt sent. `prompt`: the index of its message.
    pub(crate) fn order(
        &mut self,
        id: &str,
        ordering: &Ordering<'_>,
        host: &str,
        by: Option<String>,
        prompt: Option<usize>,
    ) {
        let (request, place) = (self.requests.len(), self.orders.len());
        let expires = self.now + if ordering.slow { SLOW_DEADLINE } else { SPAWN_DEADLINE };
        self.requests.push(Request {
            id: id.to_owned(),
            asks: Asks::Spawn,
            member: ordering.name.to_owned(),
            by,
            approver: Some(host.to_owned()),
            state: State::Pending,
            expires,
            message: None,
        });
        let bearer = self.bearer(ordering.name);
        (bearer.ordered, bearer.order) = (Some(place), Some(place));
        let incarnation = bearer.incarnation;
        self.orders.push(Order {
            request,
            incarnation,
            host: host.to_owned(),
            is_bound: ordering.host.is_some(),
            slow: ordering.slow,
            refused_by: Vec::new(),
            prompt,
            token: None,
        });
    }

    /// Returns the member of an order and its request.
    fn parts(&self, order: usize) -> (&Order, &Request) {
        let order = &self.orders[order];
        (order, &self.requests[order.request])
    }

    fn is_open_for(&self, host: &str, order: usize) -> bool {
        let (order, request) = self.parts(order);
        order.host == host && request.is_open(self.now)
    }

    pub(crate) fn accepts_take(&self, caller: &Caller, order: usize) -> bool {
        let is_reserved = self.members[&self.parts(order).1.member].life == Life::Spawning;
        self.admit_host(caller).is_some_and(|host| self.is_open_for(host, order)) && is_reserved
    }

    /// `token`: the index of the token that the host got.
    pub(crate) fn take(&mut self, order: usize, token: usize) {
        self.orders[order].token = Some(token);
    }

    /// With a token that a host got. Returns the order that it is for.
    pub(crate) fn accepts_ordered_join(&self, token: usize) -> Option<usize> {
        let order = self.orders.iter().position(|order| order.token == Some(token))?;
        let request = self.parts(order).1;
        let bearer = &self.members[&request.member];
        (request.is_open(self.now) && bearer.life == Life::Spawning && bearer.order == Some(order)).then_some(order)
    }

    /// Begins the life that was ordered.
    pub(crate) fn begin_ordered(&mut self, order: usize, detached: bool) {
        let lease_until = self.now + super::LEASE;
        let name = self.parts(order).1.member.clone();
        let bearer = self.bearer(&name);
        (bearer.life, bearer.detached, bearer.lease_until) = (Life::Live, detached, lease_until);
    }

    /// Approves the order of a member whose session opens.
    pub(crate) fn started(&mut self, name: &str) {
        if let Some(order) = self.bearer(name).order.take() {
            let request = self.orders[order].request;
            self.requests[request].state = State::Approved;
        }
    }

    /// Returns whether a refusal changes anything, if it is accepted.
    pub(crate) fn accepts_refusal(&self, caller: &Caller, order: usize, is_same_reason: bool) -> Option<bool> {
        let host = self.admit_host(caller)?;
        let (it, request) = self.parts(order);
        let was_refused = it.host == host && request.state == State::Rejected && is_same_reason;
        match was_refused {
            true => Some(false),
            false => self.is_open_for(host, order).then_some(true),
        }
    }

    /// Hands a refused order to another host, or rejects it. Returns the host that has it now.
    pub(crate) fn refuse(&mut self, order: usize, try_another: bool) -> Option<String> {
        let (it, request) = self.parts(order);
        let (request_at, member) = (it.request, request.member.clone());
        let refused_by: Vec<String> = it.refused_by.iter().chain([&it.host]).cloned().collect();
        let may_move = try_another && !it.is_bound && refused_by.len() < HOSTS_TRIED_MAX;
        let next = match may_move && self.members[&member].life == Life::Spawning {
            true => self.place(None, it.slow, &refused_by),
            false => None,
        };
        let Some(next) = next else {
            self.fail(order, State::Rejected);
            return None;
        };
        self.requests[request_at].approver = Some(next.clone());
        let it = &mut self.orders[order];
        (it.host, it.refused_by, it.token) = (next.clone(), refused_by, None);
        Some(next)
    }

    /// Ends a pending order without a start: the name is free again, and whatever joined is dismissed.
    pub(super) fn fail(&mut self, order: usize, state: State) {
        self.conclude(order, state);
        let name = self.parts(order).1.member.clone();
        if self.members[&name].life != Life::Spawning {
            self.end(&name);
        }
        self.bearer(&name).life = Life::Exited { dismissed: true };
    }

    /// Takes the prompt back and voids the token.
    pub(super) fn conclude(&mut self, order: usize, state: State) {
        let (request, member) = (self.orders[order].request, self.parts(order).1.member.clone());
        self.requests[request].state = state;
        self.orders[order].token = None;
        let prompt = self.orders[order].prompt;
        let bearer = self.bearer(&member);
        bearer.order = None;
        if let Some(place) = prompt.filter(|place| bearer.inbox.contains(place)) {
            bearer.inbox.retain(|other| *other != place);
            let id = self.sent[place].id.clone();
            self.withdrawn.insert(id);
        }
    }

    pub(crate) fn accepts_report(&self, caller: &Caller, order: usize) -> bool {
        self.admit_host(caller).is_some_and(|host| self.orders[order].host == host)
    }

    /// Ends the life of an order's member, unless it has ended. Returns whether it did.
    pub(crate) fn report_exit(&mut self, order: usize) -> bool {
        let name = self.parts(order).1.member.clone();
        let bearer = &self.members[&name];
        if bearer.ordered != Some(order) {
            return false;
        }
        match bearer.life {
            Life::Exited { .. } => return false,
            Life::Spawning => self.fail(order, State::Rejected),
            _ => self.end(&name),
        }
        true
    }
}
