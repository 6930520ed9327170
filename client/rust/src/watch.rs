//! Watches a team: what it consists of, and what changes.

use std::collections::HashMap;

use prost_types::Duration;
use teamwire_proto::{
    Method,
    v1::{self, RequestState, team_item::Item, team_item_key::Key},
};

use crate::{Client, Error, client::watches, follow::Follower};

/// A change to a team that is watched.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "almost every change is of the large variant")]
pub enum TeamChange {
    /// An item is new or has changed. A request that is no longer pending is gone with this.
    Changed(Item),
    /// An item is gone.
    Removed(Key),
}

/// A team as it changes. Reconnects by itself.
///
/// After a reconnection, the coordinator may send everything again. This object compares that with what it had, so the
/// program gets only what has changed meanwhile.
#[derive(Debug)]
pub struct TeamWatcher {
    follower: Follower<v1::WatchTeamRequest, v1::WatchTeamResponse>,
    team: Items,
}

impl Client {
    /// Watches a team: everything that it consists of, and then every change. Sends nothing before the first
    /// [`TeamWatcher::next`].
    pub fn watch_team(&self, mut request: v1::WatchTeamRequest) -> TeamWatcher {
        self.fill(&mut request.team);
        let follower = Follower::new(self, Method::WatchTeam, request, |channel, request| {
            Box::pin(async move { watches(channel).watch_team(request).await })
        });
        TeamWatcher { follower, team: Items::default() }
    }
}

impl TeamWatcher {
    /// Waits for changes, or until [`is_current`](Self::is_current) becomes true. An error is final: None follows.
    pub async fn next(&mut self) -> Option<Result<Vec<TeamChange>, Error>> {
        loop {
            let frame = match self.follower.next().await? {
                Ok(frame) => frame,
                Err(error) => return Some(Err(error)),
            };
            self.follower.request.resume_token.clone_from(&frame.resume_token);
            let was_current = self.team.is_current;
            let changes = self.team.apply(frame);
            if !changes.is_empty() || self.team.is_current && !was_current {
                return Some(Ok(changes));
            }
        }
    }

    /// Returns whether the items were complete and current with the last frame.
    pub fn is_current(&self) -> bool {
        self.team.is_current
    }

    /// Returns the items, in no particular order.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.team.items.values()
    }
}

/// The items of a team.
#[derive(Debug, Default)]
struct Items {
    /// By key. The team itself has none.
    items: HashMap<Option<Key>, Item>,
    /// Items from before a snapshot that has not arrived in full.
    stale: HashMap<Option<Key>, Item>,
    is_current: bool,
}

impl Items {
    /// Takes a frame. Returns what it changes.
    fn apply(&mut self, frame: v1::WatchTeamResponse) -> Vec<TeamChange> {
        let mut changes = Vec::new();
        if frame.reset {
            self.stale.extend(self.items.drain());
        }
        for item in frame.items.into_iter().filter_map(|item| item.item) {
            let key = key(&item);
            let before = self.items.remove(&key).or_else(|| self.stale.remove(&key));
            if !before.is_some_and(|before| is_same(&before, &item)) {
                changes.push(TeamChange::Changed(item.clone()));
            }
            if !is_decided(&item) {
                self.items.insert(key, item);
            }
        }
        for key in frame.removed.into_iter().filter_map(|removed| removed.key) {
            let key = Some(key);
            let before = self.items.remove(&key).or_else(|| self.stale.remove(&key));
            changes.extend(before.and(key).map(TeamChange::Removed));
        }
        if frame.caught_up {
            let gone = self.stale.drain().filter_map(|(key, _)| key);
            changes.extend(gone.map(TeamChange::Removed));
        }
        self.is_current = frame.caught_up;
        changes
    }
}

/// Returns the key of an item. `None` means the team itself.
fn key(item: &Item) -> Option<Key> {
    match item {
        Item::Team(_) => None,
        Item::Member(member) => Some(Key::Member(member.name.clone())),
        Item::Host(host) => Some(Key::Host(host.name.clone())),
        Item::Request(request) => Some(Key::RequestId(request.id.clone())),
        Item::Task(task) => Some(Key::TaskId(task.id)),
        Item::Activity(activity) => Some(Key::ActivityOf(activity.member.clone())),
    }
}

fn is_decided(item: &Item) -> bool {
    matches!(item, Item::Request(request) if request.state() != RequestState::Pending)
}

/// Returns whether two states differ in nothing but how long a lease still lasts.
fn is_same(before: &Item, after: &Item) -> bool {
    let has_lease = |left: &Option<Duration>| left.is_some_and(|left| left.seconds > 0 || left.nanos > 0);
    match (before, after) {
        (Item::Member(before), Item::Member(after)) => {
            has_lease(&before.lease_left) == has_lease(&after.lease_left)
                && v1::Member { lease_left: after.lease_left, ..before.clone() } == *after
        }
        (Item::Host(before), Item::Host(after)) => {
            has_lease(&before.lease_left) == has_lease(&after.lease_left)
                && v1::Host { lease_left: after.lease_left, ..before.clone() } == *after
        }
        _ => before == after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: u64, subject: &str) -> Item {
        Item::Task(v1::Task { id, subject: subject.to_owned(), ..Default::default() })
    }

    fn frame(reset: bool, items: &[Item], removed: &[Key], caught_up: bool) -> v1::WatchTeamResponse {
        let items = items.iter().map(|item| v1::TeamItem { item: Some(item.clone()) }).collect();
        let removed = removed.iter().map(|key| v1::TeamItemKey { key: Some(key.clone()) }).collect();
        v1::WatchTeamResponse { reset, items, removed, caught_up, ..Default::default() }
    }

    #[test]
    fn a_second_snapshot_yields_only_what_differs_from_the_first() {
        use TeamChange::{Changed, Removed};
        let mut team = Items::default();
        let first = [task(1, "a"), task(2, "b"), task(3, "c")];
        let changes = team.apply(frame(true, &first, &[], true));
        assert_eq!(changes, first.map(Changed));
        // Cut off after its first frame, and begun again.
        assert!(team.apply(frame(true, &[task(1, "a")], &[], false)).is_empty());
        assert!(!team.is_current);
        assert_eq!(team.apply(frame(true, &[task(1, "a"), task(2, "B")], &[], false)), [Changed(task(2, "B"))]);
        assert_eq!(
            team.apply(frame(false, &[task(4, "d")], &[], true)),
            [Changed(task(4, "d")), Removed(Key::TaskId(3))]
        );
        assert_eq!(team.items.len(), 3);
        assert_eq!(team.apply(frame(false, &[], &[Key::TaskId(4), Key::TaskId(9)], true)), [Removed(Key::TaskId(4))]);
    }

    #[test]
    fn a_request_is_gone_with_its_final_state_and_a_lease_that_shrinks_is_not_a_change() {
        let request = |state: RequestState| {
            Item::Request(v1::Request { id: "req_1".to_owned(), state: state.into(), ..Default::default() })
        };
        let member = |seconds| {
            let lease_left = Some(Duration { seconds, nanos: 0 });
            Item::Member(v1::Member { name: "ann".to_owned(), lease_left, ..Default::default() })
        };
        let mut team = Items::default();
        team.apply(frame(true, &[request(RequestState::Pending), member(30)], &[], true));
        let decided = request(RequestState::Approved);
        let changes = team.apply(frame(false, std::slice::from_ref(&decided), &[], true));
        assert_eq!(changes, [TeamChange::Changed(decided)]);
        assert!(team.apply(frame(true, &[member(20)], &[], true)).is_empty());
        assert_eq!(team.apply(frame(true, &[member(0)], &[], true)), [TeamChange::Changed(member(0))]);
    }
}
