//! Group commit: transactions of a namespace that arrive while others are under way go to the server together.
//!
//! While fewer than [`CALLS_MAX`] calls for a namespace are under way, a transaction is sent at once, alone, by its
//! caller. What arrives later waits until one of the calls returns, or until [`WAITING_MAX`] wait, and then goes in one
//! call. So neither the coordinator nor the server waits for the other, and a transaction that arrives alone is not
//! delayed.
//!
//! Each transaction has its own outcome, as if it had been sent alone. A call that the server refuses, or whose answer
//! is lost, fails each transaction in it. A transaction that is known to have written nothing, because it failed only
//! in the company of others, is sent again, alone. For example, while a slot of a cluster migrates, a call needs all of
//! its keys on one node. Those of one transaction may be there although those of another are not.
//!
//! Transactions are sent in the order of their arrival, except those that are sent again. Nothing depends on that
//! order: a caller that needs an order waits for the first outcome before the second call, and each transaction checks
//! what it relies on.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use redis::Value;
use tokio::{runtime::Handle, sync::oneshot};

use super::{
    connection::Reply,
    error::Recovery,
    function_call::{EncodedTxn, command, command_for_all},
    functions::Function,
    keys::Keys,
    reply::unparsable,
    topology::Topology,
};
use crate::store::{Namespace, StoreError};

/// How many calls for a namespace are under way before transactions wait. With fewer, the coordinator and the server
/// wait for each other; with more, each call carries less.
pub(super) const CALLS_MAX: usize = 8;

/// How many transactions wait before they are sent in any case, which is also how many go in one call. The server does
/// nothing else meanwhile: about 20 us for each.
const WAITING_MAX: usize = 32;

/// How many bytes the transactions of a call have, unless a single one has more.
const BYTES_MAX: usize = 1 << 20;

/// Sends transactions to the servers of a store.
pub(super) struct GroupCommit {
    topology: Topology,
    keys: Keys,
    /// The namespaces that have calls under way.
    busy: Mutex<HashMap<Namespace, Busy>>,
}

/// A namespace that has calls under way.
#[derive(Default)]
struct Busy {
    calls: usize,
    waiting: VecDeque<WaitingTxn>,
}

/// A transaction that waits.
struct WaitingTxn {
    txn: EncodedTxn,
    applies_when_full: bool,
    answer: oneshot::Sender<Answer>,
}

type Answer = Result<Reply, StoreError>;

/// What a transaction does first.
enum Admission {
    /// It goes at once.
    Turn(Turn, EncodedTxn),
    /// It waits.
    Queue(oneshot::Receiver<Answer>),
}

impl fmt::Debug for GroupCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCommit").field("topology", &self.topology).finish_non_exhaustive()
    }
}

impl GroupCommit {
    /// Makes one that sends to the servers of a topology.
    pub(super) fn new(topology: Topology, keys: Keys) -> Arc<Self> {
        Arc::new(Self { topology, keys, busy: Mutex::default() })
    }

    /// Executes a transaction, possibly together with others. Returns the function's answer to it.
    pub(super) async fn execute(
        self: &Arc<Self>,
        namespace: &Namespace,
        txn: EncodedTxn,
        applies_when_full: bool,
    ) -> Result<Reply, StoreError> {
        match self.enter(namespace, txn, applies_when_full) {
            Admission::Turn(turn, txn) => {
                let answer = self.alone(namespace, &txn, applies_when_full).await;
                drop(turn);
                answer
            }
            Admission::Queue(answered) => {
                let ended = |_| StoreError::Unavailable("the coordinator is shutting down".to_owned());
                answered.await.map_err(ended)?
            }
        }
    }

    fn enter(self: &Arc<Self>, namespace: &Namespace, txn: EncodedTxn, applies_when_full: bool) -> Admission {
        let mut all = self.busy.lock();
        let busy = match all.get_mut(namespace) {
            Some(busy) => busy,
            None => all.entry(namespace.clone()).or_default(),
        };
        if busy.calls < CALLS_MAX {
            busy.calls += 1;
            return Admission::Turn(Turn::new(self, namespace), txn);
        }
        let (answer, answered) = oneshot::channel();
        busy.waiting.push_back(WaitingTxn { txn, applies_when_full, answer });
        let next = if busy.waiting.len() >= WAITING_MAX { busy.next_group() } else { Vec::new() };
        if !next.is_empty() {
            busy.calls += 1;
            drop(all);
            Turn::new(self, namespace).spawn(next);
        }
        Admission::Queue(answered)
    }

    async fn alone(
        &self,
        namespace: &Namespace,
        txn: &EncodedTxn,
        applies_when_full: bool,
    ) -> Result<Reply, StoreError> {
        let function = if applies_when_full { Function::CommitWhenFull } else { Function::Commit };
        self.topology.call(namespace, function, |name, history| command(&self.keys, txn, name, history)).await
    }

    /// Executes transactions that waited. Returns the result that each caller gets, and the transactions to send again.
    async fn together(self: &Arc<Self>, namespace: &Namespace, group: Vec<WaitingTxn>) -> Outcomes {
        let mut outcomes = Outcomes::default();
        let applies_when_full = group.iter().all(|waiting| waiting.applies_when_full);
        if let [only] = &group[..] {
            let result = self.alone(namespace, &only.txn, applies_when_full).await;
            outcomes.results.extend(group.into_iter().map(|only| only.answer).zip([result]));
            return outcomes;
        }
        let function = if applies_when_full { Function::CommitAllWhenFull } else { Function::CommitAll };
        let txns: Vec<&EncodedTxn> = group.iter().map(|waiting| &waiting.txn).collect();
        let command = |name: &str, history: &str| command_for_all(&self.keys, &txns, name, history);
        let called = self.topology.call_now(namespace, function, command).await;
        if called.as_ref().is_err_and(|failed| failed.recovery == Recovery::WaitForSlot) {
            outcomes.again = group;
            return outcomes;
        }
        let answered =
            called.map_err(|failed| failed.error).and_then(|mut reply| match std::mem::take(&mut reply.value) {
                Value::Array(answers) if answers.len() == group.len() => Ok((reply, answers)),
                _ => Err(unparsable()),
            });
        match answered {
            Ok((reply, answers)) => {
                for (waiting, answer) in group.into_iter().zip(answers) {
                    match failure(&answer) {
                        None => outcomes.results.push((waiting.answer, Ok(reply.with(answer)))),
                        Some(Failure::WhileWriting(error)) => {
                            outcomes.results.push((waiting.answer, Err(StoreError::Corrupt(error))));
                        }
                        Some(Failure::WroteNothing) => outcomes.again.push(waiting),
                    }
                }
            }
            Err(error) => {
                // A full server executed nothing, but would execute some of them.
                let is_full = matches!(error, StoreError::Full(_));
                for waiting in group {
                    match is_full && waiting.applies_when_full {
                        true => outcomes.again.push(waiting),
                        false => outcomes.results.push((waiting.answer, Err(error.clone()))),
                    }
                }
            }
        }
        outcomes
    }
}

impl Busy {
    /// Takes the transactions of the next call.
    fn next_group(&mut self) -> Vec<WaitingTxn> {
        let mut group: Vec<WaitingTxn> = Vec::with_capacity(self.waiting.len().min(WAITING_MAX));
        let mut bytes = 0;
        while let Some(next) = self.waiting.pop_front_if(|next| {
            let fits = group.len() < WAITING_MAX && bytes + next.txn.bytes() <= BYTES_MAX;
            group.first().is_none_or(|first| fits && !first.txn.goes_alone && !next.txn.goes_alone)
        }) {
            // Its caller has given up, and it was not sent.
            if next.answer.is_closed() {
                continue;
            }
            bytes += next.txn.bytes();
            group.push(next);
        }
        group
    }
}

/// What became of the transactions of a call.
#[derive(Default)]
struct Outcomes {
    results: Vec<(oneshot::Sender<Answer>, Answer)>,
    again: Vec<WaitingTxn>,
}

impl Outcomes {
    /// Hands the results to the callers, and sends again what has to be.
    fn deliver(self, group: &Arc<GroupCommit>, namespace: &Namespace) {
        for (caller, result) in self.results {
            // The caller may be gone, here and below.
            let _ = caller.send(result);
        }
        for waiting in self.again {
            // The next call does not wait for it.
            let (group, namespace) = (group.clone(), namespace.clone());
            tokio::spawn(async move {
                let result = group.alone(&namespace, &waiting.txn, waiting.applies_when_full).await;
                waiting.answer.send(result)
            });
        }
    }
}

/// A call for a namespace that is under way. When it ends, even because it was canceled, what waits goes next.
struct Turn {
    group: Arc<GroupCommit>,
    namespace: Namespace,
    has_ended: bool,
}

impl Turn {
    fn new(group: &Arc<GroupCommit>, namespace: &Namespace) -> Self {
        Self { group: group.clone(), namespace: namespace.clone(), has_ended: false }
    }

    /// Executes transactions in a task, then those that wait, until none do.
    fn spawn(self, first: Vec<WaitingTxn>) {
        // Without a runtime, no caller waits.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.run(first));
        }
    }

    async fn run(mut self, first: Vec<WaitingTxn>) {
        let (group, namespace) = (self.group.clone(), self.namespace.clone());
        let (mut next, mut done) = (first, Outcomes::default());
        while !next.is_empty() {
            // The next call is sent before the answers of the last one are handed out.
            (done, ()) = tokio::join!(group.together(&namespace, next), async { done.deliver(&group, &namespace) });
            next = self.next();
        }
        done.deliver(&group, &namespace);
    }

    /// Takes the transactions of the next call. If none wait, or enough other calls are under way, ends the turn.
    fn next(&mut self) -> Vec<WaitingTxn> {
        let mut all = self.group.busy.lock();
        let Some(busy) = all.get_mut(&self.namespace) else { return Vec::new() };
        let next = if busy.calls > CALLS_MAX { Vec::new() } else { busy.next_group() };
        if next.is_empty() {
            self.has_ended = true;
            busy.calls -= 1;
            if busy.calls == 0 {
                all.remove(&self.namespace);
            }
        }
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let next = self.next();
        if !next.is_empty() {
            Self::new(&self.group, &self.namespace).spawn(next);
        }
    }
}

/// How a transaction failed that went with others.
enum Failure {
    /// Before it wrote anything.
    WroteNothing,
    /// While it wrote.
    WhileWriting(String),
}

fn failure(answer: &Value) -> Option<Failure> {
    let Value::Array(answer) = answer else { return None };
    match answer.as_slice() {
        [Value::Int(2)] => Some(Failure::WroteNothing),
        [Value::Int(3), Value::BulkString(error)] => {
            Some(Failure::WhileWriting(String::from_utf8_lossy(error).into_owned()))
        }
        _ => None,
    }
}
