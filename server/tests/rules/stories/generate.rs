//! Random steps of a story.

use std::collections::BTreeSet;

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};

use super::{
    hosts::{Pick, Wish},
    model::Asks,
};

/// The members of a story.
pub(super) const NAMES: [&str; 5] = ["lead", "Ann", "bob", "cid", "dot"];

/// The hosts of a story.
pub(super) const HOSTS: [&str; 3] = ["east", "north", "west"];

/// The member that must have a plan approved before it works on tasks.
pub(super) const PLANNER: &str = "cid";

/// Which of its sessions a member shows with a call.
#[derive(Clone, Debug)]
pub(super) enum Shows {
    None,
    Latest,
    Any(Index),
}

/// Who makes a call.
#[derive(Clone, Debug)]
pub(super) enum Who {
    Operator,
    Stranger,
    /// `former`: with the credential of any of its lives, otherwise with the latest.
    Member {
        name: &'static str,
        former: Option<Index>,
        shows: Shows,
    },
}

/// How a claim is finished.
#[derive(Clone, Copy, Debug)]
pub(super) enum Proof {
    /// With the token of any claim that was ever given.
    Any,
    /// With the token of one of the caller's own claims.
    Own,
    /// Without a token.
    None,
    /// By the owner of the latest claim that is still held, so that stories get somewhere.
    Held,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Message {
        to: &'static str,
        keyed: bool,
    },
    Broadcast {
        keyed: bool,
    },
    /// Repeats a call that was accepted under a key.
    Repeat {
        which: Index,
    },
    Shutdown {
        to: &'static str,
    },
    Plan,
    /// Asks the lead (`None`) or another member.
    Permission {
        of: Option<&'static str>,
    },
    Withdraw {
        request: Index,
    },
    Answer {
        request: Index,
        asks: Option<Asks>,
        to: Option<&'static str>,
        approve: Option<bool>,
        /// By the member that must answer, so that stories get somewhere.
        rightly: bool,
    },
    Stream,
    Ack {
        messages: Vec<Index>,
    },
    Heartbeat {
        idle: Option<bool>,
    },
    /// By a token for this name. `twice`: the call is repeated under its key.
    Join {
        name: &'static str,
        twice: bool,
        detached: bool,
    },
    Rejoin {
        detached: bool,
    },
    Leave {
        code: i32,
    },
    Force {
        name: &'static str,
    },
    SetLead {
        name: &'static str,
    },
    Delete,
    /// Lets time pass and carries out what is due.
    Pass {
        steps: u64,
        may_lose: bool,
    },
    AddTask {
        owner: &'static str,
        after: Vec<Index>,
        keyed: bool,
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
    Claim {
        task: Option<Index>,
        keyed: bool,
    },
    Finish {
        claim: Index,
        done: bool,
        proof: Proof,
    },
    /// By a token for a host of this name.
    HostJoin {
        host: &'static str,
    },
    Offer {
        slots: usize,
        /// Also the profile whose start may take longer.
        slow: bool,
    },
    Spawn(Wish),
    Take(Pick),
    /// By a token that a host got with an order. `starts`: opens a session then.
    JoinOrdered {
        token: Index,
        latest: bool,
        detached: bool,
        starts: bool,
    },
    Refuse {
        pick: Pick,
        try_another: bool,
    },
    ReportExit(Pick),
    AckOrder(Pick),
}

impl Who {
    /// The latest life of a name, without a session.
    pub(super) fn latest(name: &'static str) -> Self {
        Self::Member { name, former: None, shows: Shows::None }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) who: Who,
    /// Which of the two coordinators.
    pub(super) coordinator: usize,
    pub(super) act: Act,
}

/// Picks from the tasks, and sometimes one that does not exist.
pub(super) fn pick_task(index: &Index, tasks: usize) -> usize {
    index.index(tasks * 16 + 1) / 16
}

pub(super) fn pick_tasks(indices: &[Index], tasks: usize) -> BTreeSet<usize> {
    indices.iter().map(|index| pick_task(index, tasks)).collect()
}

fn names() -> impl Strategy<Value = &'static str> {
    select(&NAMES[..])
}

fn callers() -> impl Strategy<Value = Who> {
    let shows = prop_oneof![6 => Just(Shows::None), 4 => Just(Shows::Latest), 2 => any::<Index>().prop_map(Shows::Any)];
    let former = prop_oneof![6 => Just(None), 1 => any::<Index>().prop_map(Some)];
    let name = prop_oneof![6 => Just("lead"), 16 => names(), 3 => select(&HOSTS[..])];
    prop_oneof![
        2 => Just(Who::Operator),
        1 => Just(Who::Stranger),
        20 => (name, former, shows).prop_map(|(name, former, shows)| Who::Member { name, former, shows }),
    ]
}

fn task_acts() -> impl Strategy<Value = Act> {
    let some = |max: usize| vec(any::<Index>(), 0..=max);
    let owner = || prop_oneof![3 => Just(""), 2 => names()];
    let proof =
        prop_oneof![2 => Just(Proof::Any), 2 => Just(Proof::Own), 1 => Just(Proof::None), 5 => Just(Proof::Held)];
    prop_oneof![
        6 => (owner(), some(2), any::<bool>()).prop_map(|(owner, after, keyed)| Act::AddTask { owner, after, keyed }),
        8 => (proptest::option::of(any::<Index>()), any::<bool>()).prop_map(|(task, keyed)| Act::Claim { task, keyed }),
        9 => (any::<Index>(), prop::bool::weighted(0.7), proof)
            .prop_map(|(claim, done, proof)| Act::Finish { claim, done, proof }),
        4 => (any::<Index>(), proptest::option::of(owner()), some(2), some(1))
            .prop_map(|(task, owner, add, remove)| Act::ChangeTask { task, owner, add, remove }),
        1 => any::<Index>().prop_map(|task| Act::DeleteTask { task }),
    ]
}

fn host_acts() -> impl Strategy<Value = Act> {
    let hosts = || select(&HOSTS[..]);
    let picks = || (any::<Index>(), prop::bool::weighted(0.75)).prop_map(|(order, rightly)| Pick { order, rightly });
    let wishes = (
        names(),
        proptest::option::weighted(0.3, hosts()),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.7),
        prop::bool::weighted(0.2),
        any::<bool>(),
        prop::bool::weighted(0.7),
    );
    let wishes = wishes.prop_map(|(name, host, slow, prompt, plan_mode, keyed, rightly)| {
        Act::Spawn(Wish { name, host, slow, prompt, plan_mode, keyed, rightly })
    });
    let (latest, detached, starts) = (prop::bool::weighted(0.8), prop::bool::weighted(0.2), prop::bool::weighted(0.6));
    prop_oneof![
        2 => hosts().prop_map(|host| Act::HostJoin { host }),
        2 => (0..3_usize, any::<bool>()).prop_map(|(slots, slow)| Act::Offer { slots, slow }),
        9 => wishes,
        7 => picks().prop_map(Act::Take),
        7 => (any::<Index>(), latest, detached, starts)
            .prop_map(|(token, latest, detached, starts)| Act::JoinOrdered { token, latest, detached, starts }),
        5 => (picks(), prop::bool::weighted(0.7)).prop_map(|(pick, try_another)| Act::Refuse { pick, try_another }),
        4 => picks().prop_map(Act::ReportExit),
        2 => picks().prop_map(Act::AckOrder),
    ]
}

/// What most acts of a story are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Focus {
    Messages,
    Tasks,
    Hosts,
}

fn acts(focus: Focus) -> impl Strategy<Value = Act> {
    let asks = prop_oneof![4 => Just(None), 1 => Just(Some(Asks::Shutdown)), 1 => Just(Some(Asks::Plan)),
        1 => Just(Some(Asks::Permission))];
    let approve = prop_oneof![9 => any::<bool>().prop_map(Some), 1 => Just(None)];
    let to = proptest::option::weighted(0.2, names());
    prop_oneof![
        10 => (names(), any::<bool>()).prop_map(|(to, keyed)| Act::Message { to, keyed }),
        3 => any::<bool>().prop_map(|keyed| Act::Broadcast { keyed }),
        5 => any::<Index>().prop_map(|which| Act::Repeat { which }),
        5 => names().prop_map(|to| Act::Shutdown { to }),
        5 => Just(Act::Plan),
        6 => proptest::option::of(names()).prop_map(|of| Act::Permission { of }),
        3 => any::<Index>().prop_map(|request| Act::Withdraw { request }),
        10 => (any::<Index>(), asks, to, approve, prop::bool::weighted(0.6))
            .prop_map(|(request, asks, to, approve, rightly)| Act::Answer { request, asks, to, approve, rightly }),
        8 => Just(Act::Stream),
        8 => vec(any::<Index>(), 1..4).prop_map(|messages| Act::Ack { messages }),
        3 => proptest::option::of(any::<bool>()).prop_map(|idle| Act::Heartbeat { idle }),
        4 => (names(), any::<bool>(), any::<bool>())
            .prop_map(|(name, twice, detached)| Act::Join { name, twice, detached }),
        3 => any::<bool>().prop_map(|detached| Act::Rejoin { detached }),
        2 => (0..3).prop_map(|code| Act::Leave { code }),
        2 => prop_oneof![4 => names(), 1 => select(&HOSTS[..])].prop_map(|name| Act::Force { name }),
        2 => names().prop_map(|name| Act::SetLead { name }),
        1 => Just(Act::Delete),
        5 => (1..4_u64, prop::bool::weighted(0.8)).prop_map(|(steps, may_lose)| Act::Pass { steps, may_lose }),
        if focus == Focus::Tasks { 150 } else { 18 } => task_acts(),
        if focus == Focus::Hosts { 150 } else { 14 } => host_acts(),
    ]
}

fn steps(focus: Focus) -> impl Strategy<Value = Step> {
    (callers(), 0..2_usize, acts(focus)).prop_map(|(who, coordinator, act)| Step { who, coordinator, act })
}

/// The steps of one story, mostly about tasks in one of four, and about hosts in another.
pub(super) fn stories() -> impl Strategy<Value = Vec<Step>> {
    let focus = prop_oneof![2 => Just(Focus::Messages), 1 => Just(Focus::Tasks), 1 => Just(Focus::Hosts)];
    focus.prop_flat_map(|focus| vec(steps(focus), 20..90))
}
