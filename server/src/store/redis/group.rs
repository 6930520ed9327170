//! Group commit: transactions of a namespace that wait at the same time are sent in one call of the function.
//!
//! One call for a namespace is under way at a time. What arrives meanwhile waits, and goes with the next one, in the order of its
//! arrival. Each transaction has an outcome of its own, as if it had been sent alone: a call that the server refuses, or whose answer
//! is lost, fails every transaction in it; a transaction that fails before it writes anything is sent again, alone.

use std::{
    collections::{HashMap, VecDeque, hash_map},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use redis::Value;
use tokio::{runtime::Handle, sync::oneshot};

use super::{
    connection::Reply,
    function_call::{EncodedTxn, command},
    functions::Function,
    keys::Keys,
    reply::unparsable,
    topology::Topology,
};
use crate::store::{Namespace, StoreError};

/// How many transactions go in one call. The server does nothing else meanwhile: about 25 us for each.
const TXNS_MAX: usize = 64;

/// How many bytes the transactions of a call have, unless a single one has more.
const BYTES_MAX: usize = 1 << 20;

/// Sends transactions to the servers of a store.
pub(super) struct GroupCommit {
    topology: Topology,
    keys: Keys,
    /// The transactions that wait, for each namespace that has a call under way.
    waiting: Mutex<HashMap<Namespace, VecDeque<Waiting>>>,
}

/// A transaction that waits for the call under way.
struct Waiting {
    function: Function,
    txn: EncodedTxn,
    answer: oneshot::Sender<Result<Reply, StoreError>>,
}

impl fmt::Debug for GroupCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCommit").field("topology", &self.topology).finish_non_exhaustive()
    }
}

impl GroupCommit {
    /// Makes one that sends to the servers of a topology.
    pub(super) fn new(topology: Topology, keys: Keys) -> Arc<Self> {
        Arc::new(Self { topology, keys, waiting: Mutex::default() })
    }

    /// Executes a transaction, possibly together with others. Returns the function's answer to it.
    pub(super) async fn execute(
        self: &Arc<Self>,
        namespace: &Namespace,
        function: Function,
        txn: EncodedTxn,
    ) -> Result<Reply, StoreError> {
        let (answer, answered) = oneshot::channel();
        let mut next = Some(Waiting { function, txn, answer });
        match self.waiting.lock().entry(namespace.clone()) {
            hash_map::Entry::Occupied(mut waiting) => waiting.get_mut().extend(next.take()),
            hash_map::Entry::Vacant(none) => drop(none.insert(VecDeque::new())),
        }
        match next {
            // Nothing is under way.
            Some(Waiting { function, txn, .. }) => {
                let _turn = Turn { group: self.clone(), namespace: namespace.clone() };
                self.alone(namespace, function, txn).await
            }
            None => answered
                .await
                .unwrap_or_else(|_| Err(StoreError::Unavailable("the coordinator is shutting down".to_owned()))),
        }
    }

    async fn alone(&self, namespace: &Namespace, function: Function, txn: EncodedTxn) -> Result<Reply, StoreError> {
        let (reply, answers) = self.call(namespace, function, &[txn]).await?;
        Ok(reply.with(answers.into_iter().next().ok_or_else(unparsable)?))
    }

    /// Calls the function. Returns its reply, and the answer to each transaction.
    async fn call(
        &self,
        namespace: &Namespace,
        function: Function,
        txns: &[EncodedTxn],
    ) -> Result<(Reply, Vec<Value>), StoreError> {
        let command = |name: &str, history: &str| command(&self.keys, namespace, txns, name, history);
        let mut reply = self.topology.call(namespace, function, command).await?;
        match std::mem::take(&mut reply.value) {
            Value::Array(answers) if answers.len() == txns.len() => Ok((reply, answers)),
            _ => Err(unparsable()),
        }
    }

    /// Executes what waits for a namespace until nothing does.
    async fn drain(self: Arc<Self>, namespace: Namespace, mut abandoned: Abandoned) {
        loop {
            let group = self.next_group(&namespace);
            let Some(function) = group.first().map(|first| first.function) else { break };
            let (txns, callers): (Vec<EncodedTxn>, Vec<_>) =
                group.into_iter().map(|waiting| (waiting.txn, waiting.answer)).unzip();
            match self.call(&namespace, function, &txns).await {
                Ok((reply, answers)) => {
                    for ((txn, caller), answer) in txns.into_iter().zip(callers).zip(answers) {
                        match failure(&answer) {
                            // The caller may be gone, here and below.
                            None => drop(caller.send(Ok(reply.with(answer)))),
                            Some(Failure::WhileWriting(error)) => drop(caller.send(Err(StoreError::Corrupt(error)))),
                            // It may have to wait for a slot that moves, so nothing waits for it.
                            Some(Failure::WroteNothing) => {
                                let (group, namespace) = (self.clone(), namespace.clone());
                                tokio::spawn(async move { caller.send(group.alone(&namespace, function, txn).await) });
                            }
                        }
                    }
                }
                Err(error) => callers.into_iter().for_each(|caller| drop(caller.send(Err(error.clone())))),
            }
        }
        abandoned.is_done = true;
    }

    /// Takes the transactions of the next call. Empty: none wait, and the next one to come makes a call of its own.
    fn next_group(&self, namespace: &Namespace) -> Vec<Waiting> {
        let mut all = self.waiting.lock();
        let Some(waiting) = all.get_mut(namespace) else { return Vec::new() };
        let mut group: Vec<Waiting> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = waiting.pop_front_if(|next| {
            let fits = bytes + next.txn.bytes() <= BYTES_MAX && group.len() < TXNS_MAX;
            group.first().is_none_or(|first| fits && first.function == next.function)
        }) {
            // Nobody waits for it any more, and it was not sent.
            if next.answer.is_closed() {
                continue;
            }
            bytes += next.txn.bytes();
            group.push(next);
        }
        if group.is_empty() {
            all.remove(namespace);
        }
        group
    }
}

/// A call for a namespace that is under way. What waits for it goes next, even if the call was canceled.
struct Turn {
    group: Arc<GroupCommit>,
    namespace: Namespace,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Self { group, namespace } = self;
        {
            let mut all = group.waiting.lock();
            if all.get(namespace).is_none_or(VecDeque::is_empty) {
                all.remove(namespace);
                return;
            }
        }
        let abandoned = Abandoned { group: group.clone(), namespace: namespace.clone(), is_done: false };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(group.clone().drain(namespace.clone(), abandoned));
        }
    }
}

/// Fails what waits for a namespace if the task that executes it ends early, as when the runtime shuts down.
struct Abandoned {
    group: Arc<GroupCommit>,
    namespace: Namespace,
    is_done: bool,
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if !self.is_done {
            let waiting = self.group.waiting.lock().remove(&self.namespace);
            drop(waiting);
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
        [Value::Int(3), Value::BulkString(error)] => Some(Failure::WhileWriting(String::from_utf8_lossy(error).into_owned())),
        _ => None,
    }
}
