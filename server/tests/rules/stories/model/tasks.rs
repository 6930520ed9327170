//! The model's task board.

use std::collections::BTreeSet;

use super::{CLAIM_TTL, Caller, Lets, Life, Model};

/// The bounds of a board in these tests.
pub(crate) mod limits {
    pub(crate) const OPEN_TASKS_MAX: u64 = 8;
    pub(crate) const CLAIMS_MAX: usize = 2;
    pub(crate) const TASK_DEPENDENCIES_MAX: usize = 3;
    pub(crate) const BOARD_DEPENDENCIES_MAX: usize = 6;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    #[default]
    Pending,
    InProgress,
    Completed,
    Deleted,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) owner: Option<String>,
    /// The token of the current claim, or of the claim under which the task was completed or released.
    token: Option<String>,
    /// When the current claim expires. `None` if it ends with its owner's life.
    expires: Option<u64>,
    pub(crate) status: Status,
    /// The indices of the tasks it waits for, closed ones included.
    pub(crate) blocked_by: BTreeSet<usize>,
}

impl Task {
    fn is_open(&self) -> bool {
        matches!(self.status, Status::Pending | Status::InProgress)
    }

    fn is_claimed_by(&self, name: &str) -> bool {
        self.status == Status::InProgress && self.owner.as_deref() == Some(name)
    }
}

/// A change to a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// The new owner; empty: nobody.
    pub(crate) owner: Option<String>,
    pub(crate) add: BTreeSet<usize>,
    pub(crate) remove: BTreeSet<usize>,
}

impl Model {
    fn is_open(&self, task: usize) -> bool {
        self.tasks.get(task).is_some_and(Task::is_open)
    }

    fn is_blocked(&self, task: usize) -> bool {
        self.tasks[task].blocked_by.iter().any(|blocker| self.is_open(*blocker))
    }

    /// Counts the open tasks that open tasks wait for.
    fn dependencies(&self) -> usize {
        let open = self.tasks.iter().filter(|task| task.is_open());
        open.map(|task| task.blocked_by.iter().filter(|blocker| self.is_open(**blocker)).count()).sum()
    }

    /// Returns whether a task waits for another, directly or not.
    fn waits_for(&self, task: usize, other: usize) -> bool {
        let blockers = self.tasks.get(task).filter(|task| task.is_open()).map(|task| task.blocked_by.clone());
        let mut open = blockers.into_iter().flatten().filter(|blocker| self.is_open(*blocker));
        open.any(|blocker| blocker == other || self.waits_for(blocker, other))
    }

    fn needs_plan(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|bearer| bearer.plan_mode && !bearer.plan_approved)
    }

    /// Returns whether the task may wait for more tasks. `has`: the tasks it waits for besides.
    fn takes_blockers(&self, task: usize, has: &BTreeSet<usize>, add: &BTreeSet<usize>) -> bool {
        let new: BTreeSet<_> = add.difference(has).copied().collect();
        has.len() + new.len() <= limits::TASK_DEPENDENCIES_MAX
            && self.dependencies() + new.len() <= limits::BOARD_DEPENDENCIES_MAX
            && new.iter().all(|blocker| {
                let exists = self.tasks.get(*blocker).is_some_and(|blocker| blocker.status != Status::Deleted);
                exists && *blocker != task && !self.waits_for(*blocker, task)
            })
    }

    fn takes_owner(&self, owner: &str) -> bool {
        owner.is_empty() || self.takes(owner)
    }

    pub(crate) fn accepts_add(&self, caller: &Caller, owner: &str, after: &BTreeSet<usize>) -> bool {
        let open = self.tasks.iter().filter(|task| task.is_open()).count();
        self.sender(caller).is_some()
            && self.takes_owner(owner)
            && (open as u64) < limits::OPEN_TASKS_MAX
            && self.takes_blockers(self.tasks.len(), &BTreeSet::new(), after)
    }

    pub(crate) fn add(&mut self, owner: &str, after: BTreeSet<usize>) {
        let owner = (!owner.is_empty()).then(|| owner.to_owned());
        self.tasks.push(Task { owner, blocked_by: after, ..Task::default() });
    }

    pub(crate) fn accepts_change(&self, caller: &Caller, task: usize, change: &Change) -> bool {
        let (Some(from), Some(now)) = (self.sender(caller), self.tasks.get(task).filter(|task| task.is_open())) else {
            return false;
        };
        let (is_own, rules) = (now.owner.as_deref() == Some(from), self.rules(from));
        let (is_claimed, moves) =
            (now.status == Status::InProgress, !change.add.is_empty() || !change.remove.is_empty());
        let kept: BTreeSet<_> = now.blocked_by.difference(&change.remove).copied().collect();
        let owner_fits = change.owner.as_ref().is_none_or(|owner| {
            let is_same = now.owner.as_deref().unwrap_or_default() == owner;
            let may = if is_claimed { rules } else { now.owner.is_none() || is_own || rules };
            self.takes_owner(owner) && (is_same || may)
        });
        (!is_claimed || ((is_own || rules) && !moves)) && self.takes_blockers(task, &kept, &change.add) && owner_fits
    }

    pub(crate) fn change(&mut self, task: usize, change: Change) {
        let task = &mut self.tasks[task];
        task.blocked_by.retain(|blocker| !change.remove.contains(blocker));
        task.blocked_by.extend(change.add);
        let Some(owner) = change.owner.map(|owner| (!owner.is_empty()).then_some(owner)) else { return };
        if owner != task.owner {
            if task.status == Status::InProgress {
                (task.status, task.token) = (Status::Pending, None);
            }
            task.owner = owner;
        }
    }

    pub(crate) fn accepts_delete_task(&self, caller: &Caller, task: usize) -> bool {
        let (Some(from), Some(task)) = (self.sender(caller), self.tasks.get(task)) else { return false };
        task.status != Status::InProgress || task.is_claimed_by(from) || self.rules(from)
    }

    pub(crate) fn delete_task(&mut self, task: usize) {
        let task = &mut self.tasks[task];
        if task.status != Status::Deleted {
            (task.status, task.token) = (Status::Deleted, None);
            // A deleted task waits for nothing.
            task.blocked_by.clear();
        }
    }

    fn may_claim_one_more(&self, name: &str) -> bool {
        self.tasks.iter().filter(|task| task.is_claimed_by(name)).count() < limits::CLAIMS_MAX
    }

    pub(crate) fn accepts_claim(&self, caller: &Caller, place: usize) -> Option<String> {
        let name = self.member_only(caller, Lets::Working).filter(|name| !self.needs_plan(name))?;
        let task = self.tasks.get(place).filter(|task| task.status == Status::Pending && !self.is_blocked(place))?;
        let is_free = task.owner.as_deref().is_none_or(|owner| owner == name);
        (is_free && self.may_claim_one_more(name)).then(|| name.to_owned())
    }

    /// Returns the caller and the task that `ClaimNextTask` must give it. The inner `None`: there is no task to give.
    pub(crate) fn accepts_next(&self, caller: &Caller) -> Option<(String, Option<usize>)> {
        let name = self.member_only(caller, Lets::Working).filter(|name| !self.needs_plan(name))?;
        let ready = |owner: Option<&str>| {
            let is_ready = |place: &usize| {
                let task = &self.tasks[*place];
                task.status == Status::Pending && task.owner.as_deref() == owner && !self.is_blocked(*place)
            };
            (0..self.tasks.len()).find(is_ready)
        };
        let next = ready(Some(name)).or_else(|| ready(None));
        (next.is_none() || self.may_claim_one_more(name)).then(|| (name.to_owned(), next))
    }

    pub(crate) fn claim(&mut self, name: &str, task: usize, token: &str) {
        if self.members[name].life == Life::Lost {
            self.hear(name, true);
        }
        let expires = self.members[name].detached.then_some(self.now + CLAIM_TTL);
        let task = &mut self.tasks[task];
        (task.owner, task.token, task.expires) = (Some(name.to_owned()), Some(token.to_owned()), expires);
        task.status = Status::InProgress;
    }

    /// Returns whether completing or releasing a task changes it, if the call is accepted.
    pub(crate) fn accepts_finish(&self, caller: &Caller, place: usize, token: &str, done: bool) -> Option<bool> {
        let name = self.admit(caller, Lets::Ending)?;
        if done && name != "operator" && self.needs_plan(name) {
            return None;
        }
        let task = self.tasks.get(place)?;
        let is_token = !token.is_empty() && task.token.as_deref() == Some(token);
        let rules_without_token = token.is_empty() && self.rules(name);
        match task.status {
            Status::Completed if done && (is_token || (rules_without_token && task.token.is_none())) => Some(false),
            Status::Completed | Status::Deleted => None,
            Status::Pending if !done && (is_token || rules_without_token) => Some(false),
            Status::Pending => (done && rules_without_token && !self.is_blocked(place)).then_some(true),
            Status::InProgress => ((is_token && task.is_claimed_by(name)) || rules_without_token).then_some(true),
        }
    }

    /// Returns the latest claim that is still held: the owner, the task and the token.
    pub(crate) fn held_claim(&self, claims: &[(usize, String, String)]) -> Option<(usize, String, String)> {
        let is_held = |(place, name, token): &&(usize, String, String)| {
            self.tasks[*place].is_claimed_by(name) && self.tasks[*place].token.as_ref() == Some(token)
        };
        claims.iter().rev().find(is_held).cloned()
    }

    pub(crate) fn finish(&mut self, by: &Caller, task: usize, token: &str, done: bool) {
        let task = &mut self.tasks[task];
        task.token = task.token.take().filter(|held| held == token);
        if !done {
            (task.status, task.owner) = (Status::Pending, None);
            return;
        }
        task.status = Status::Completed;
        if let (None, Caller::Member { name, .. }) = (&task.owner, by) {
            task.owner = Some(name.clone());
        }
    }

    /// Returns the claims that have expired to the board.
    pub(super) fn expire_claims(&mut self) {
        let now = self.now;
        let is_due = |task: &&mut Task| task.status == Status::InProgress && task.expires.is_some_and(|at| at <= now);
        for task in self.tasks.iter_mut().filter(is_due) {
            (task.status, task.owner, task.token) = (Status::Pending, None, None);
        }
    }

    /// Returns the claims of an ended life to the board.
    pub(super) fn give_back(&mut self, name: &str) {
        for task in self.tasks.iter_mut().filter(|task| task.is_claimed_by(name)) {
            (task.status, task.owner, task.token) = (Status::Pending, None, None);
        }
    }
}
