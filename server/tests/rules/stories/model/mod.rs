//! What a team is, said once more and in another way: small, slow, in memory, without records, versions or caches.
//!
//! It knows nothing of how the rules are written. It says of each call whether it must be accepted, and what is there
//! afterwards: the state of every member, request and task, and what lies unprocessed in each inbox, the coordinator's own
//! notices apart. Time is in seconds.

use std::collections::BTreeMap;

pub(super) const INBOX_ENTRIES_MAX: u64 = 8;
pub(super) const DELIVERIES_MAX: u32 = 3;
/// How much time passes at once. Every term is half a step off, so that how fast the test runs does not matter.
pub(super) const STEP: u64 = 100;
pub(super) const SHUTDOWN_DEADLINE: u64 = 250;
pub(super) const PLAN_DEADLINE: u64 = 350;
pub(super) const LEASE: u64 = 450;
pub(super) const GRACE: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Live,
    Lost,
    /// Has approved its shutdown.
    Approved,
    Forced,
    Exited {
        dismissed: bool,
    },
}

impl Life {
    fn takes_messages(self) -> bool {
        matches!(self, Self::Live | Self::Lost)
    }

    fn keeps_the_team(self) -> bool {
        matches!(self, Self::Live | Self::Approved | Self::Forced)
    }
}

/// A name and who bears it.
#[derive(Clone, Debug)]
pub(super) struct Bearer {
    pub(super) incarnation: u64,
    pub(super) life: Life,
    lease_until: u64,
    /// The latest session, by its place among all of them.
    pub(super) session: Option<usize>,
    /// What awaits an answer, by its place among all requests.
    shutdown: Option<usize>,
    plan: Option<usize>,
    /// The unprocessed messages, by their place among all that were sent.
    pub(super) inbox: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    Shutdown,
    Plan,
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
    pub(super) state: State,
    expires: u64,
}

/// A message that was accepted.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) from: String,
    /// The life that a shutdown request is for.
    pub(super) only_for: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) owner: Option<String>,
    /// Of the claim that holds; of a task that rests, of the one under which it was completed or given back.
    token: Option<String>,
    pub(super) is_done: bool,
}

/// Who calls, as far as a team knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    Operator,
    Stranger,
    Member {
        name: String,
        /// Which life's credential it shows.
        incarnation: u64,
        session: Option<usize>,
    },
}

/// Whom a call lets in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lets {
    Working,
    Ending,
    Ended,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) now: u64,
    pub(super) members: BTreeMap<String, Bearer>,
    pub(super) requests: Vec<Request>,
    pub(super) sent: Vec<Sent>,
    pub(super) tasks: Vec<Task>,
}

impl Model {
    /// Returns the name under which a caller acts. `None`: it must be refused.
    fn admit(&self, caller: &Caller, lets: Lets) -> Option<&str> {
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
        };
        let is_newest = bearer.incarnation == *incarnation && (session.is_none() || *session == bearer.session);
        (lives && is_newest).then_some(name)
    }

    fn member_only(&self, caller: &Caller, lets: Lets) -> Option<&str> {
        self.admit(caller, lets).filter(|name| *name != "operator")
    }

    fn takes(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|bearer| bearer.life.takes_messages())
    }

    /// Who may send something new.
    fn sender(&self, caller: &Caller) -> Option<&str> {
        self.admit(caller, Lets::Working)
    }

    fn rules(name: &str) -> bool {
        name == "operator" || name == "lead"
    }

    fn bearer(&mut self, name: &str) -> &mut Bearer {
        self.members.get_mut(name).expect("a name that was borne")
    }

    // What must be accepted. `room`: whether an inbox takes one more, the coordinator's notices counted.

    pub(super) fn accepts_message(&self, caller: &Caller, to: &str, room: impl Fn(&str) -> bool) -> bool {
        self.sender(caller).is_some_and(|from| from != to) && self.takes(to) && room(to)
    }

    /// Returns who gets it.
    pub(super) fn accepts_broadcast(&self, caller: &Caller, room: impl Fn(&str) -> bool) -> Option<Vec<String>> {
        let from = self.sender(caller)?;
        let to: Vec<_> = self.members.keys().filter(|name| *name != from && self.takes(name)).cloned().collect();
        to.iter().all(|name| room(name)).then_some(to)
    }

    pub(super) fn accepts_shutdown(&self, caller: &Caller, to: &str, room: impl Fn(&str) -> bool) -> bool {
        let is_pending = |index: &usize| self.requests[*index].expires > self.now;
        self.accepts_message(caller, to, room)
            && self.sender(caller).is_some_and(Self::rules)
            && !self.members[to].shutdown.as_ref().is_some_and(is_pending)
    }

    pub(super) fn accepts_plan(&self, caller: &Caller, room: impl Fn(&str) -> bool) -> bool {
        self.sender(caller).is_some_and(|from| !Self::rules(from)) && self.takes("lead") && room("lead")
    }

    /// Returns whether an answer is accepted, and whether it is new. `to`: whom an answer to a plan names.
    pub(super) fn accepts_answer(
        &self,
        caller: &Caller,
        request: usize,
        asks: Asks,
        to: &str,
        approve: bool,
        twice_room: impl Fn(&str) -> bool,
    ) -> Option<bool> {
        let request = &self.requests[request];
        let may = match asks {
            Asks::Shutdown => self.admit(caller, Lets::Ending)? == request.member,
            Asks::Plan => {
                let from = self.sender(caller)?;
                Self::rules(from) && to != from && to == request.member
            }
        };
        let is_due = request.state == State::Pending && request.expires > self.now;
        let was = match request.state {
            State::Approved => Some(true),
            State::Rejected => Some(false),
            _ => None,
        };
        let has_room = request.by.as_deref().is_none_or(twice_room);
        match may && request.asks == asks {
            true if is_due && has_room => Some(true),
            true if was == Some(approve) => Some(false),
            _ => None,
        }
    }

    pub(super) fn accepts_stream(&self, caller: &Caller) -> Option<String> {
        // The session that it shows is about to be superseded by this one.
        let Caller::Member { name, incarnation, .. } = caller else { return None };
        let anew = Caller::Member { name: name.clone(), incarnation: *incarnation, session: None };
        self.member_only(&anew, Lets::Ending).map(ToOwned::to_owned)
    }

    pub(super) fn accepts_ack(&self, caller: &Caller) -> Option<String> {
        self.member_only(caller, Lets::Ending).map(ToOwned::to_owned)
    }

    pub(super) fn accepts_leave(&self, caller: &Caller) -> Option<String> {
        self.member_only(caller, Lets::Ended).map(ToOwned::to_owned)
    }

    /// By a token that is bound to the name.
    pub(super) fn accepts_join(&self, name: &str) -> bool {
        self.members.get(name).is_none_or(|bearer| !bearer.life.keeps_the_team())
    }

    pub(super) fn accepts_rejoin(&self, caller: &Caller) -> Option<String> {
        let Caller::Member { name, incarnation, .. } = caller else { return None };
        let bearer = self.members.get(name).filter(|bearer| bearer.incarnation == *incarnation)?;
        matches!(bearer.life, Life::Live | Life::Lost | Life::Exited { dismissed: false }).then(|| name.clone())
    }

    pub(super) fn accepts_force(&self, caller: &Caller, name: &str) -> bool {
        let is_there = self.members.get(name).is_some_and(|bearer| !matches!(bearer.life, Life::Exited { .. }));
        is_there && self.sender(caller).is_some_and(|from| Self::rules(from) && from != name)
    }

    pub(super) fn accepts_delete(&self, caller: &Caller) -> bool {
        let Some(from) = self.sender(caller).filter(|from| Self::rules(from)) else { return false };
        self.members.iter().all(|(name, bearer)| name == from || !bearer.life.keeps_the_team())
    }

    pub(super) fn accepts_claim(&self, caller: &Caller, task: usize) -> Option<String> {
        let name = self.member_only(caller, Lets::Working)?;
        self.tasks.get(task).filter(|task| !task.is_done && task.owner.is_none())?;
        Some(name.to_owned())
    }

    /// Returns the task that the next claim must give. `None`: it must give none, or be refused.
    pub(super) fn next_task(&self) -> Option<usize> {
        self.tasks.iter().position(|task| !task.is_done && task.owner.is_none())
    }

    pub(super) fn accepts_next(&self, caller: &Caller) -> Option<String> {
        self.member_only(caller, Lets::Working).map(ToOwned::to_owned)
    }

    /// Returns whether an end of a claim is accepted, and whether it is new.
    pub(super) fn accepts_finish(&self, caller: &Caller, task: usize, token: &str, done: bool) -> Option<bool> {
        let name = self.admit(caller, Lets::Ending)?;
        let task = &self.tasks[task];
        let is_token = task.token.as_deref() == Some(token);
        match &task.owner {
            _ if task.is_done => (done && is_token).then_some(false),
            None => (!done && is_token).then_some(false),
            Some(owner) => (is_token && owner == name).then_some(true),
        }
    }

    // What comes of it.

    /// Takes note of a message that was accepted.
    pub(super) fn send(&mut self, id: &str, from: &str, to: &[String], only_for: Option<u64>) {
        let place = self.sent.len();
        self.sent.push(Sent { id: id.to_owned(), from: from.to_owned(), only_for });
        for name in to {
            self.bearer(name).inbox.push(place);
        }
    }

    pub(super) fn ask(&mut self, id: &str, asks: Asks, member: &str, by: Option<String>) {
        let place = self.requests.len();
        let expires = self.now + if asks == Asks::Shutdown { SHUTDOWN_DEADLINE } else { PLAN_DEADLINE };
        let (id, member_name) = (id.to_owned(), member.to_owned());
        self.requests.push(Request { id, asks, member: member_name, by, state: State::Pending, expires });
        let bearer = self.bearer(member);
        let earlier = match asks {
            Asks::Shutdown => bearer.shutdown.replace(place),
            Asks::Plan => bearer.plan.replace(place),
        };
        if let Some(earlier) = earlier {
            self.requests[earlier].state = if asks == Asks::Shutdown { State::Expired } else { State::Cancelled };
        }
    }

    pub(super) fn answer(&mut self, request: usize, approve: bool) {
        self.requests[request].state = if approve { State::Approved } else { State::Rejected };
        let Request { asks, member, .. } = self.requests[request].clone();
        let now = self.now;
        let bearer = self.bearer(&member);
        match asks {
            Asks::Plan => bearer.plan = None,
            Asks::Shutdown => {
                bearer.shutdown = None;
                if approve {
                    bearer.life = Life::Approved;
                    bearer.lease_until = now + LEASE;
                }
            }
        }
    }

    fn cancel(&mut self, name: &str) {
        let bearer = self.bearer(name);
        for request in [bearer.shutdown.take(), bearer.plan.take()].into_iter().flatten() {
            self.requests[request].state = State::Cancelled;
        }
    }

    fn give_back(&mut self, name: &str) {
        for task in self.tasks.iter_mut().filter(|task| !task.is_done && task.owner.as_deref() == Some(name)) {
            *task = Task::default();
        }
    }

    pub(super) fn begin(&mut self, name: &str) {
        let lease_until = self.now + LEASE;
        if self.members.contains_key(name) {
            self.cancel(name);
            self.give_back(name);
            let bearer = self.bearer(name);
            (bearer.incarnation, bearer.life, bearer.lease_until) = (bearer.incarnation + 1, Life::Live, lease_until);
            return;
        }
        let bearer = Bearer {
            incarnation: 1,
            life: Life::Live,
            lease_until,
            session: None,
            shutdown: None,
            plan: None,
            inbox: Vec::new(),
        };
        self.members.insert(name.to_owned(), bearer);
    }

    pub(super) fn end(&mut self, name: &str) {
        self.cancel(name);
        self.give_back(name);
        let bearer = self.bearer(name);
        let dismissed = matches!(bearer.life, Life::Approved | Life::Forced | Life::Exited { dismissed: true });
        bearer.life = Life::Exited { dismissed };
    }

    pub(super) fn force(&mut self, name: &str) {
        self.cancel(name);
        self.give_back(name);
        self.bearer(name).life = Life::Forced;
    }

    /// A sign of life. Whoever was lost is found by it, unless it only opens a stream.
    pub(super) fn hear(&mut self, name: &str, finds: bool) {
        let until = self.now + LEASE;
        let bearer = self.bearer(name);
        bearer.lease_until = until;
        if finds && bearer.life == Life::Lost {
            bearer.life = Life::Live;
        }
    }

    pub(super) fn claim(&mut self, name: &str, task: usize, token: &str) {
        if self.members[name].life == Life::Lost {
            self.hear(name, true);
        }
        self.tasks[task] = Task { owner: Some(name.to_owned()), token: Some(token.to_owned()), is_done: false };
    }

    pub(super) fn finish(&mut self, task: usize, done: bool) {
        let task = &mut self.tasks[task];
        task.is_done = done;
        if !done {
            task.owner = None;
        }
    }

    /// Does what is due.
    pub(super) fn sweep(&mut self) {
        for name in self.members.keys().cloned().collect::<Vec<_>>() {
            let now = self.now;
            let requests = &mut self.requests;
            let bearer = self.members.get_mut(&name).expect("a name that was borne");
            for pending in [&mut bearer.shutdown, &mut bearer.plan] {
                if pending.is_some_and(|index| requests[index].expires <= now) {
                    requests[pending.take().expect("it was there")].state = State::Expired;
                }
            }
            if now < bearer.lease_until + GRACE {
                continue;
            }
            match bearer.life {
                Life::Live => {
                    bearer.life = Life::Lost;
                    self.give_back(&name);
                }
                Life::Approved | Life::Forced => self.end(&name),
                Life::Lost | Life::Exited { .. } => {}
            }
        }
    }
}
