//! The orders that a host is carrying out, and the slots that they take.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};

use super::record::Record;
use crate::host::{Ended, Order, StartError};

/// How long an order waits for a slot: the process of a member that has just left may still be exiting.
const SLOT_PATIENCE: Duration = Duration::from_secs(5);

/// The state of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OrderState {
    /// It has a slot, and is about to be started.
    Reserved,
    /// Its runner has the join token.
    Running(Box<Record>),
    /// Its runner has ended.
    Ended,
    /// An earlier process of the host died before the runner had its token. No process of the order runs.
    Interrupted,
}

#[derive(Debug)]
struct HostedOrder {
    member: String,
    state: OrderState,
}

/// The orders in hand. No more run at a time than there are slots.
#[derive(Debug)]
pub(super) struct Table {
    slots: usize,
    entries: Mutex<HashMap<String, HostedOrder>>,
    /// Ends that the host has not handled yet, at most one for each entry.
    ends: Mutex<VecDeque<Ended>>,
    /// Notified when an entry has changed.
    changed: Notify,
    /// Notified when there is an end to handle.
    ended: Notify,
}

impl Table {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots, entries: Mutex::default(), ends: Mutex::default(), changed: Notify::new(), ended: Notify::new() }
    }

    pub(super) fn state(&self, request_id: &str) -> Option<OrderState> {
        self.entries.lock().get(request_id).map(|entry| entry.state.clone())
    }

    pub(super) fn set(&self, request_id: &str, member: &str, state: OrderState) {
        self.entries.lock().insert(request_id.to_owned(), HostedOrder { member: member.to_owned(), state });
        self.changed.notify_waiters();
    }

    /// Forgets an order.
    pub(super) fn remove(&self, request_id: &str) {
        self.entries.lock().remove(request_id);
        self.changed.notify_waiters();
    }

    /// Returns whether another order for the same name is in hand.
    pub(super) fn has_other(&self, request_id: &str, member: &str) -> bool {
        has_other(&self.entries.lock(), request_id, member)
    }

    /// Returns the records of all running members.
    pub(super) fn running(&self) -> Vec<Record> {
        let entries = self.entries.lock();
        let running = entries.values().filter_map(|entry| match &entry.state {
            OrderState::Running(record) => Some(Record::clone(record)),
            _ => None,
        });
        running.collect()
    }

    /// Waits until no member runs.
    pub(super) async fn all_ended(&self) {
        self.until(|entries| !entries.values().any(|entry| matches!(entry.state, OrderState::Running(_)))).await;
    }

    /// Waits until no other order for the same name is in hand.
    pub(super) async fn name_free(&self, order: &Order) {
        self.until(|entries| !has_other(entries, &order.request_id, &order.member)).await;
    }

    /// Takes a slot for an order. Fails if none is free within a few seconds.
    pub(super) async fn take_slot(&self, order: &Order) -> Result<(), StartError> {
        let taken = timeout(SLOT_PATIENCE, async {
            while !self.try_take_slot(order) {
                self.until(|entries| used(entries, &order.request_id) < self.slots).await;
            }
        });
        let slots = if self.slots == 1 { "slot is" } else { "slots are" };
        taken.await.map_err(|_| StartError::here_only(format!("The host is full: its {} {slots} taken.", self.slots)))
    }

    fn try_take_slot(&self, order: &Order) -> bool {
        let mut entries = self.entries.lock();
        let is_free = used(&entries, &order.request_id) < self.slots;
        if is_free {
            let entry = HostedOrder { member: order.member.clone(), state: OrderState::Reserved };
            entries.insert(order.request_id.clone(), entry);
        }
        is_free
    }

    /// Records that a member has ended, which frees its slot.
    pub(super) fn end(&self, ended: Ended) {
        self.set(&ended.request_id, &ended.member, OrderState::Ended);
        self.ends.lock().push_back(ended);
        self.ended.notify_one();
    }

    /// Waits for the next end. Cancel-safe.
    pub(super) async fn next_end(&self) -> Ended {
        loop {
            if let Some(ended) = self.ends.lock().pop_front() {
                return ended;
            }
            self.ended.notified().await;
        }
    }

    /// Waits until a condition on the entries holds.
    async fn until(&self, holds: impl Fn(&HashMap<String, HostedOrder>) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if holds(&self.entries.lock()) {
                return;
            }
            changed.await;
        }
    }
}

/// Returns whether another order for the same name is in hand that may have a running process, or files to remove.
fn has_other(entries: &HashMap<String, HostedOrder>, but: &str, member: &str) -> bool {
    let is_same = |(id, entry): (&String, &HostedOrder)| {
        id != but && entry.state != OrderState::Interrupted && entry.member.eq_ignore_ascii_case(member)
    };
    entries.iter().any(is_same)
}

/// Returns how many slots other orders take.
fn used(entries: &HashMap<String, HostedOrder>, but: &str) -> usize {
    let takes_slot = |(id, entry): &(&String, &HostedOrder)| {
        *id != but && matches!(entry.state, OrderState::Reserved | OrderState::Running(_))
    };
    entries.iter().filter(takes_slot).count()
}
