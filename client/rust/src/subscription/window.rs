//! The messages that a subscription has delivered lately, so that a reconnect delivers none of them again.

use std::collections::{HashMap, VecDeque};

/// What is known about a message that has just arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// This subscription has not delivered it.
    Never,
    /// It was delivered and is not acknowledged: the application still has it.
    Handed,
    /// It was acknowledged, and the coordinator does not know that yet.
    Acked,
}

/// The latest messages, and whether each is acknowledged.
///
/// Holds up to `ids_max` ids. When it is full, it forgets the oldest. If the coordinator delivers that message again,
/// the program gets it again, with a higher delivery count. A session has at most 64 unacknowledged messages, so this
/// happens only to a message that thousands of others have overtaken.
#[derive(Debug)]
pub(crate) struct Window {
    is_acked: HashMap<String, bool>,
    order: VecDeque<String>,
    ids_max: usize,
}

impl Window {
    pub(crate) fn new(ids_max: usize) -> Self {
        Self { is_acked: HashMap::new(), order: VecDeque::new(), ids_max }
    }

    /// Records that a message has arrived, and returns what was known about it before.
    pub(crate) fn deliver(&mut self, id: &str) -> Seen {
        match self.is_acked.get(id) {
            Some(true) => Seen::Acked,
            Some(false) => Seen::Handed,
            None => {
                self.insert(id, false);
                Seen::Never
            }
        }
    }

    /// Records that a message is acknowledged.
    pub(crate) fn ack(&mut self, id: &str) {
        match self.is_acked.get_mut(id) {
            Some(is_acked) => *is_acked = true,
            None => self.insert(id, true),
        }
    }

    fn insert(&mut self, id: &str, is_acked: bool) {
        if self.order.len() >= self.ids_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.is_acked.remove(&oldest);
        }
        self.order.push_back(id.to_owned());
        self.is_acked.insert(id.to_owned(), is_acked);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_is_new_once() {
        let mut window = Window::new(8);
        assert_eq!(window.deliver("a"), Seen::Never);
        assert_eq!(window.deliver("a"), Seen::Handed);
        window.ack("a");
        assert_eq!(window.deliver("a"), Seen::Acked);
    }

    #[test]
    fn the_oldest_is_forgotten_when_the_window_is_full() {
        let mut window = Window::new(2);
        for id in ["a", "b", "c"] {
            assert_eq!(window.deliver(id), Seen::Never);
        }
        assert_eq!(window.deliver("c"), Seen::Handed);
        assert_eq!(window.deliver("a"), Seen::Never);
    }

    proptest! {
        #[test]
        fn the_window_never_exceeds_its_bound(ids in proptest::collection::vec(("[a-f]{1,2}", any::<bool>()), 0..200)) {
            let mut window = Window::new(5);
            for (id, is_ack) in ids {
                if is_ack { window.ack(&id) } else { window.deliver(&id); }
                prop_assert!(window.order.len() <= 5 && window.is_acked.len() == window.order.len());
            }
        }
    }
}
