//! What a subscription remembers of the messages that it has delivered, so that a reconnect shows none of them again.

use std::collections::{HashMap, VecDeque};

/// What is known of a message that has just come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was not delivered by this subscription.
    Never,
    /// It was handed out and is not acknowledged: the application still has it.
    Handed,
    /// It was acknowledged; the coordinator does not know that yet.
    Acked,
}

/// The latest messages, and whether each was acknowledged.
///
/// Holds as many ids as it was made for. When it is full the oldest is forgotten; if that one comes again, it is handed
/// out again, with the delivery count that says so. A coordinator has at most 64 messages unacknowledged in a session,
/// so that this takes a message which thousands of others have overtaken.
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

    /// Notes that a message has come in, and returns what was known of it before.
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

    /// Notes that a message was acknowledged.
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
        fn it_never_grows_over_its_bound(ids in proptest::collection::vec(("[a-f]{1,2}", any::<bool>()), 0..200)) {
            let mut window = Window::new(5);
            for (id, is_ack) in ids {
                if is_ack { window.ack(&id) } else { window.deliver(&id); }
                prop_assert!(window.order.len() <= 5 && window.is_acked.len() == window.order.len());
            }
        }
    }
}
