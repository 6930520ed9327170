//! The latest message ids, in bounded memory.

use std::collections::{HashSet, VecDeque};

/// A set of ids that forgets the oldest when it is full.
#[derive(Debug)]
pub(crate) struct RecentIds {
    ids: HashSet<String>,
    order: VecDeque<String>,
    ids_max: usize,
}

impl RecentIds {
    /// Creates an empty set that holds up to `ids_max` ids.
    pub(crate) fn new(ids_max: usize) -> Self {
        Self { ids: HashSet::new(), order: VecDeque::new(), ids_max }
    }

    /// Adds an id.
    pub(crate) fn insert(&mut self, id: &str) {
        if !self.ids.insert(id.to_owned()) {
            return;
        }
        if self.order.len() >= self.ids_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        self.order.push_back(id.to_owned());
    }

    /// Returns whether an id is remembered.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_forgets_the_oldest_id() {
        let mut recent = RecentIds::new(2);
        for id in ["a", "b", "b", "c"] {
            recent.insert(id);
        }
        assert!(!recent.contains("a") && recent.contains("b") && recent.contains("c"));
        assert_eq!((recent.ids.len(), recent.order.len()), (2, 2));
    }
}
