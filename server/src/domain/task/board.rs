//! What is stored of a task board: one record per task, and two records by which rules find tasks without reading them.

use std::collections::{BTreeMap, BTreeSet};

use rangemap::RangeInclusiveSet;
use serde::{Deserialize, Serialize};
use teamwire_proto::{
    name::Name,
    v1::{self, TaskStatus},
};

use super::terms::{Review, Reviewer, TaskPaths};
use crate::domain::{actor::Actor, records::record_type::stored_as_json, secret::ClaimToken, time::timestamp};

/// Ids of tasks. Kept as ranges, since tasks are created, and mostly claimed, in order.
pub type Ids = RangeInclusiveSet<u64>;

/// A task. Id: its number in decimal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskRecord {
    /// The task's number within the team, from 1.
    pub id: u64,
    /// What is to be done, on one line.
    pub subject: String,
    /// The details.
    pub description: String,
    /// What it is called while a member works on it.
    pub active_form: String,
    /// Its state.
    pub status: Status,
    /// The member that it is assigned to, or that has claimed or completed it.
    pub owner: Option<Name>,
    /// The tasks that must be completed first, including those that are completed or deleted already.
    pub blocked_by: BTreeSet<u64>,
    /// The tasks that it blocks.
    pub blocks: BTreeSet<u64>,
    /// Free-form pairs.
    pub metadata: BTreeMap<String, String>,
    /// The number of its changes.
    pub version: u64,
    /// The number of its claims.
    pub attempts: u32,
    /// Its result.
    pub result: String,
    /// The member that added it. `None` means the operator.
    pub created_by: Option<Name>,
    /// When it was added.
    pub created_ms: u64,
    /// When it last changed.
    pub updated_ms: u64,
    /// When it was last claimed.
    pub claimed_ms: Option<u64>,
    /// When it was completed or deleted.
    pub closed_ms: Option<u64>,
    /// The token of the current claim, or of the last one if its owner has completed or released the task.
    pub claim: Option<ClaimToken>,
    /// How it last came back to the board.
    pub released: Option<Release>,
    /// Which files it will change.
    #[serde(default)]
    pub paths: TaskPaths,
    /// Who reviews its result. `None` means no one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<Reviewer>,
    /// Whether its owner's runner merges the approved commit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merge_on_approval: bool,
    /// The review that it awaits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// The commit that is in review or was approved. Empty if none is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
}

/// How a task came back to the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Why, for a reader.
    pub because: String,
    /// When.
    pub at_ms: u64,
}

stored_as_json!(TaskRecord, "task");

/// Returns the id of a task's record.
pub fn record_id(id: u64) -> String {
    id.to_string()
}

/// See `TaskStatus` of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No member works on it.
    Pending,
    /// Its owner has claimed it.
    InProgress,
    /// Its owner has completed it, and it awaits its review.
    InReview,
    /// Done.
    Completed,
    /// Off the board.
    Deleted,
}

impl From<Status> for TaskStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::InProgress => Self::InProgress,
            Status::InReview => Self::InReview,
            Status::Completed => Self::Completed,
            Status::Deleted => Self::Deleted,
        }
    }
}

impl TaskRecord {
    /// Returns about how many bytes it has.
    pub fn size(&self) -> usize {
        let metadata = self.metadata.iter().map(|(key, value)| key.len() + value.len());
        let ids = 8 * (self.blocked_by.len() + self.blocks.len());
        let paths = self.paths.patterns.iter().map(String::len).sum::<usize>();
        self.subject.len() + self.description.len() + self.result.len() + metadata.sum::<usize>() + ids + paths
    }

    /// Puts it back on the board.
    pub fn go_back(&mut self, because: &str, now_ms: u64) {
        self.status = Status::Pending;
        self.claim = None;
        self.released = Some(Release { because: because.to_owned(), at_ms: now_ms });
    }

    /// Says when and why it last came back to the board. `None` if it never did.
    pub fn released_text(&self) -> Option<String> {
        let Release { because, at_ms } = self.released.as_ref()?;
        let because = because.trim_end_matches('.');
        let why = if because.is_empty() { String::new() } else { format!(": {because}") };
        // To the second, for a reader.
        let at = timestamp(at_ms - at_ms % 1_000);
        Some(format!("Task {} went back to the board at {at}{why}", self.id))
    }

    /// Completes it.
    pub fn complete(&mut self, now_ms: u64) {
        self.status = Status::Completed;
        self.closed_ms = Some(now_ms);
    }

    /// Returns whether its owner has claimed it, or has completed it and it awaits its review.
    pub fn is_held(&self) -> bool {
        matches!(self.status, Status::InProgress | Status::InReview)
    }

    /// Returns whether it is completed or deleted, which is final.
    pub fn is_closed(&self) -> bool {
        matches!(self.status, Status::Completed | Status::Deleted)
    }

    /// Returns whether the member owns it.
    pub fn is_owned_by(&self, name: &Name) -> bool {
        self.owner.as_ref() == Some(name)
    }
}

/// Where every task of a team is. Id: "". Changes with every claim.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BoardRecord {
    /// The last id given to a task.
    pub last_id: u64,
    /// Pending, unblocked and unassigned.
    pub ready: Ids,
    /// Pending and unblocked, by the member that they are assigned to.
    pub assigned: BTreeMap<Name, Ids>,
    /// In progress, by the member that has claimed them.
    pub claimed: BTreeMap<Name, Ids>,
    /// Pending, and waiting for others.
    pub blocked: Ids,
    /// Awaiting their review.
    #[serde(default)]
    pub in_review: Ids,
    /// Done.
    pub completed: Ids,
    /// Deleted.
    #[serde(default, rename = "tombstones")]
    pub deleted: Ids,
    /// Deleted, as earlier versions wrote it: with the time of deletion in milliseconds since 1970.
    #[serde(default, rename = "deleted")]
    pub deleted_before: BTreeMap<u64, u64>,
    /// The bytes of all tasks, without those that an earlier version wrote and this one has not changed.
    #[serde(default)]
    pub bytes: u64,
    /// Claimed by a detached life, with the time at which the claim expires in milliseconds since 1970.
    #[serde(default)]
    pub expiring: BTreeMap<u64, u64>,
    /// Whether an open task says which files it will change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_paths: bool,
}

stored_as_json!(BoardRecord, "board");

/// Where a task is on the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Any member may claim it.
    Ready,
    /// It is assigned to this member.
    Assigned(Name),
    /// This member works on it.
    Claimed(Name),
    /// Waits for others.
    Blocked,
    /// Awaits its review.
    InReview,
    /// Done.
    Completed,
    /// Deleted.
    Deleted,
}

impl BoardRecord {
    /// Returns how many tasks are neither completed nor deleted.
    pub fn open(&self) -> u64 {
        self.open_by_status().iter().sum()
    }

    /// Returns how many tasks are ready, assigned, blocked, in progress, and in review, in this order.
    pub fn open_by_status(&self) -> [u64; 5] {
        let of = |ids: &Ids| ids.iter().map(|range| range.end() - range.start() + 1).sum::<u64>();
        let mine = |by: &BTreeMap<Name, Ids>| by.values().map(of).sum::<u64>();
        [of(&self.ready), mine(&self.assigned), of(&self.blocked), mine(&self.claimed), of(&self.in_review)]
    }

    /// Moves a task to its place.
    pub fn place(&mut self, id: u64, place: Place) {
        for ids in [&mut self.ready, &mut self.blocked, &mut self.in_review, &mut self.completed, &mut self.deleted] {
            ids.remove(id..=id);
        }
        for by in [&mut self.assigned, &mut self.claimed] {
            by.retain(|_, ids| {
                ids.remove(id..=id);
                !ids.is_empty()
            });
        }
        self.deleted_before.remove(&id);
        self.expiring.remove(&id);
        match place {
            Place::Ready => self.ready.insert(id..=id),
            Place::Assigned(name) => self.assigned.entry(name).or_default().insert(id..=id),
            Place::Claimed(name) => self.claimed.entry(name).or_default().insert(id..=id),
            Place::Blocked => self.blocked.insert(id..=id),
            Place::InReview => self.in_review.insert(id..=id),
            Place::Completed => self.completed.insert(id..=id),
            Place::Deleted => self.deleted.insert(id..=id),
        }
    }

    /// Forgets a task that is closed and whose record is deleted, which had this many bytes.
    pub fn forget(&mut self, id: u64, bytes: u64) {
        for ids in [&mut self.completed, &mut self.deleted] {
            ids.remove(id..=id);
        }
        self.deleted_before.remove(&id);
        self.count_bytes(bytes, 0);
    }

    /// Counts the bytes of a task that has changed.
    pub fn count_bytes(&mut self, before: u64, after: u64) {
        self.bytes = self.bytes.saturating_add(after).saturating_sub(before);
    }

    /// Returns the tasks that the member can do next, the first one first.
    pub fn candidates_for(&self, name: &Name) -> impl Iterator<Item = u64> {
        let assigned = self.assigned.get(name).into_iter().flat_map(|ids| ids.iter());
        assigned.chain(self.ready.iter()).flat_map(|range| range.clone())
    }

    /// Returns the task that the member should do next.
    pub fn next_for(&self, name: &Name) -> Option<u64> {
        self.candidates_for(name).next()
    }

    /// Returns the tasks that the member has claimed.
    pub fn claimed_by(&self, name: &Name) -> Vec<u64> {
        self.claimed.get(name).map_or_else(Vec::new, each)
    }

    /// Returns which of these tasks are neither completed nor deleted.
    pub fn open_of<'a>(&'a self, ids: &'a BTreeSet<u64>) -> impl Iterator<Item = u64> + 'a {
        ids.iter().copied().filter(|id| self.is_open(*id))
    }

    /// Returns whether a task is neither completed nor deleted.
    pub fn is_open(&self, id: u64) -> bool {
        let in_any = |by: &BTreeMap<Name, Ids>| by.values().any(|ids| ids.contains(&id));
        let is_in_one = [&self.ready, &self.blocked, &self.in_review].into_iter().any(|ids| ids.contains(&id));
        is_in_one || in_any(&self.assigned) || in_any(&self.claimed)
    }
}

/// Returns the ids one by one.
pub fn each(ids: &Ids) -> Vec<u64> {
    ids.iter().flat_map(|range| range.clone()).collect()
}

/// Which task waits for which. Id: "". Holds only tasks that wait for an open one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WaitingRecord {
    /// By the task that waits.
    pub waiting: BTreeMap<u64, BlockedTask>,
}

stored_as_json!(WaitingRecord, "waiting");

/// A task that waits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BlockedTask {
    /// The open tasks that it waits for.
    pub on: BTreeSet<u64>,
    /// The member that it is assigned to, so that it can be placed without being read.
    pub owner: Option<Name>,
}

impl WaitingRecord {
    /// Returns the total number of dependencies.
    pub fn dependencies(&self) -> usize {
        self.waiting.values().map(|waiting| waiting.on.len()).sum()
    }

    /// Removes a task that is no longer open from all dependencies. Returns the tasks that no longer wait, with the
    /// members that they are assigned to.
    pub fn finish(&mut self, id: u64) -> Vec<(u64, Option<Name>)> {
        self.waiting.remove(&id);
        let mut free = Vec::new();
        self.waiting.retain(|waiting_id, waiting| {
            waiting.on.remove(&id);
            if waiting.on.is_empty() {
                free.push((*waiting_id, waiting.owner.take()));
            }
            !waiting.on.is_empty()
        });
        free
    }

    /// Returns the path of dependencies from `from` to `to`, both included. `None` if there is none.
    pub fn path(&self, from: u64, to: u64) -> Option<Vec<u64>> {
        let mut came_from: BTreeMap<u64, u64> = BTreeMap::new();
        let mut next = vec![from];
        while let Some(id) = next.pop() {
            if id == to {
                let mut path = vec![to];
                while let Some(before) = came_from.get(path.last()?).filter(|_| path.last() != Some(&from)) {
                    path.push(*before);
                }
                path.reverse();
                return Some(path);
            }
            for blocker in self.waiting.get(&id).into_iter().flat_map(|waiting| &waiting.on) {
                if *blocker != from && !came_from.contains_key(blocker) {
                    came_from.insert(*blocker, id);
                    next.push(*blocker);
                }
            }
        }
        None
    }
}

/// Lists tasks' numbers, such as "1, 2".
pub(super) fn listed(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Shows a task.
pub fn show(task: &TaskRecord, board: &BoardRecord) -> v1::Task {
    let creator = task.created_by.clone().map_or(Actor::Operator, Actor::Member);
    let listed = |ids: &BTreeSet<u64>| -> Vec<u64> {
        ids.iter().copied().filter(|id| board.is_open(*id) || board.completed.contains(id)).collect()
    };
    v1::Task {
        id: task.id,
        subject: task.subject.clone(),
        description: task.description.clone(),
        active_form: task.active_form.clone(),
        status: TaskStatus::from(task.status).into(),
        owner: task.owner.as_ref().map_or_else(String::new, Name::to_string),
        blocked_by: listed(&task.blocked_by),
        waiting_for: match task.is_closed() {
            true => Vec::new(),
            false => board.open_of(&task.blocked_by).collect(),
        },
        blocks: listed(&task.blocks),
        metadata: task.metadata.clone().into_iter().collect(),
        version: task.version,
        attempts: task.attempts,
        result: task.result.clone(),
        created_by: Some((&creator).into()),
        created_at: Some(timestamp(task.created_ms)),
        updated_at: Some(timestamp(task.updated_ms)),
        claimed_at: task.claimed_ms.map(timestamp).filter(|_| task.status == Status::InProgress),
        closed_at: task.closed_ms.map(timestamp),
        released_because: task.released.as_ref().map(|release| release.because.clone()).unwrap_or_default(),
        released_at: task.released.as_ref().map(|release| timestamp(release.at_ms)),
        claim_expires_at: board.expiring.get(&task.id).copied().map(timestamp),
        paths: task.paths.patterns.clone(),
        exclusive: task.paths.exclusive,
        reviewer: task.reviewer.as_ref().map_or_else(String::new, Reviewer::show),
        merge_on_approval: task.merge_on_approval,
        review_request_id: task.review.as_ref().map_or_else(String::new, |review| review.request_id.to_string()),
        commit: task.commit.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text, "name").unwrap()
    }

    #[test]
    fn a_task_is_in_one_place() {
        let mut board = BoardRecord { last_id: 3, ..Default::default() };
        let (ann, bob) = (name("ann"), name("bob"));
        for id in 1..=3 {
            board.place(id, Place::Ready);
        }
        assert_eq!((board.next_for(&ann), board.open()), (Some(1), 3));
        board.place(1, Place::Claimed(ann.clone()));
        board.place(3, Place::Assigned(bob.clone()));
        assert_eq!((board.next_for(&ann), board.next_for(&bob)), (Some(2), Some(3)));
        assert_eq!((board.claimed_by(&ann), board.open()), (vec![1], 3));
        board.place(1, Place::Completed);
        board.place(2, Place::Blocked);
        board.place(3, Place::Deleted);
        assert_eq!((board.next_for(&ann), board.next_for(&bob), board.open()), (None, None, 1));
        assert!(board.claimed.is_empty() && board.assigned.is_empty());
        assert_eq!([1, 2, 3, 4].map(|id| board.is_open(id)), [false, true, false, false]);
    }

    #[test]
    fn a_board_survives_its_encoding() {
        let mut board = BoardRecord { last_id: 9, ..Default::default() };
        board.place(1, Place::Ready);
        board.place(2, Place::Ready);
        board.place(9, Place::Claimed(name("Ann")));
        let text = serde_json::to_string(&board).unwrap();
        let read: BoardRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(each(&read.ready), [1, 2]);
        assert_eq!(read.claimed_by(&name("ann")), [9]);
    }

    #[test]
    fn a_path_between_dependent_tasks_is_found() {
        let mut record = WaitingRecord::default();
        for (id, on) in [(2, vec![1]), (3, vec![2, 5]), (4, vec![3])] {
            record.waiting.insert(id, BlockedTask { on: on.into_iter().collect(), owner: None });
        }
        assert_eq!(record.path(4, 1), Some(vec![4, 3, 2, 1]));
        assert_eq!(record.path(1, 4), None);
        assert_eq!(record.path(2, 2), Some(vec![2]));
        assert_eq!(record.dependencies(), 4);
        assert_eq!(record.finish(1).len(), 1);
        assert_eq!(record.path(4, 1), None);
    }
}
