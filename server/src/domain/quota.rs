//! A team's quota: how many bytes it may hold in the store, and which share of them its tasks may use.
//!
//! The store counts what a team holds, and each commit checks it against the limit that the transaction states, so no
//! record holds a count for the whole team. To keep room for messages, tasks may use a quarter of the quota, and the
//! history of their changes another quarter. The board counts its tasks, and the weight of the stream of the history
//! counts their changes.
//!
//! - A teammate may fill the team up to the quota.
//! - The lead and the operator may use a tenth more, so that they can still act in a team that teammates have filled.
//! - The coordinator is not bounded, and neither is a rule that ends or frees something, or whose writes another limit
//!   bounds; see `Tx::needs_no_room`.
//!
//! Nothing is ever deleted to make room.

use std::fmt;

use teamwire_proto::{Reason, Refusal, v1};

use super::{caller::Principal, limits::Limits};
use crate::store::{Bound, WhenFull};

/// Into how many parts of the quota the tasks must fit; the history of their changes, too.
const TASK_SHARE: u64 = 4;

/// The reserve of the lead and the operator, as a part of what teammates may use.
const RESERVE: u64 = 10;

/// At how many percent of a quota the lead is notified.
pub const ALARM_PERCENT: u64 = 80;

/// From how many percent of a quota on it counts as full, because little more fits.
pub const FULL_PERCENT: u64 = 99;

/// By how many percent usage must fall below an alarm before the same alarm is raised again.
pub(super) const ALARM_AGAIN_BELOW: u64 = 10;

/// About how many bytes a change to a task adds besides its entry in the history: a remembered reply, or a notice.
const CHANGE_BYTES: u64 = 512;

/// What frees space, for texts.
pub(super) const REMEDY: &str = "The history gives space back as its entries reach limits.history_ttl, and tasks do when they are deleted. The \
                      coordinator's operator can raise limits.team_bytes_max.";

/// Who adds to what a team holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spender {
    /// The coordinator, unbounded.
    #[default]
    Coordinator,
    /// A teammate, an observer or a host, up to the quota.
    Teammate,
    /// The lead or the operator, up to the quota and the reserve.
    Lead,
}

impl From<&Principal> for Spender {
    fn from(caller: &Principal) -> Self {
        match caller {
            Principal::Operator | Principal::Member { lead: true, .. } => Self::Lead,
            Principal::Member { .. } | Principal::Observer => Self::Teammate,
        }
    }
}

impl Spender {
    /// Returns how much of a quota it may use. `None` if it is not bounded.
    fn part_of(self, quota: u64) -> Option<u64> {
        match self {
            Self::Coordinator => None,
            Self::Teammate => Some(quota),
            Self::Lead => Some(quota.saturating_add(quota / RESERVE)),
        }
    }

    /// Returns how many bytes the team may hold after it has added something. `None` if it is not bounded.
    pub fn team_bytes_max(self, limits: &Limits) -> Option<u64> {
        self.part_of(limits.team_bytes_max)
    }

    /// Returns how many bytes tasks may have after it has added something. `None` if it is not bounded.
    pub fn task_bytes_max(self, limits: &Limits) -> Option<u64> {
        self.part_of(task_share(limits))
    }

    /// Returns the bound of the history's weight, which counts changes to tasks, for a change that it makes.
    pub fn task_changes_bound(self, limits: &Limits) -> Option<Bound> {
        let weight_max = self.part_of(task_share(limits))?;
        Some(Bound { entries_max: u64::MAX, weight_max, when_full: WhenFull::Refuse })
    }
}

/// Returns the weight of a change to a task whose entry has this length.
pub fn weight_of_task_change(entry: usize) -> u64 {
    entry as u64 + CHANGE_BYTES
}

/// Returns how many bytes the tasks of a team may have, and how many bytes the history of their changes may have.
pub fn task_share(limits: &Limits) -> u64 {
    limits.team_bytes_max / TASK_SHARE
}

/// How much a team holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBytes {
    /// The bytes of everything.
    pub team: u64,
    /// The bytes of its tasks.
    pub tasks: u64,
    /// The bytes of the history of its tasks.
    pub task_changes: u64,
}

impl HeldBytes {
    /// Returns the parts: what uses what, in words; the bytes; and the bytes at which teammates are refused.
    fn parts(&self, limits: &Limits) -> [(&'static str, u64, u64); 3] {
        let share = task_share(limits);
        [
            ("The team uses {} of its quota", self.team, limits.team_bytes_max),
            ("The team's tasks use {} of their quota", self.tasks, share),
            ("The history of the team's tasks uses {} of its quota", self.task_changes, share),
        ]
    }

    /// Returns how many percent of its quota the fullest part uses.
    pub fn percent(&self, limits: &Limits) -> u64 {
        self.parts(limits).iter().map(|(_, held, max)| percent(*held, *max)).max().unwrap_or(0)
    }

    /// Returns whether the team counts as full, because little more fits.
    pub fn is_team_full(&self, limits: &Limits) -> bool {
        percent(self.team, limits.team_bytes_max) >= FULL_PERCENT
    }

    /// Returns the parts that have used much of their quota.
    pub(super) fn nearly_full(&self, limits: &Limits) -> Vec<NearlyFull> {
        let found = self.parts(limits).into_iter().filter_map(|(what, held, max)| {
            let percent = percent(held, max);
            let text = format!("{}: {} of {}.", what.replace("{}", &format!("{percent}%")), Bytes(held), Bytes(max));
            (percent >= ALARM_PERCENT).then_some(NearlyFull { text, is_full: percent >= FULL_PERCENT })
        });
        found.collect()
    }
}

/// A part of a team that has used much of its quota.
#[derive(Debug)]
pub(super) struct NearlyFull {
    /// What uses how much, as a sentence.
    pub(super) text: String,
    /// Whether teammates can add nothing more there.
    pub(super) is_full: bool,
}

/// Returns how many percent of a maximum something is.
fn percent(held: u64, max: u64) -> u64 {
    held.saturating_mul(100) / max.max(1)
}

/// Shows how much a team holds.
pub fn show(held: &HeldBytes, limits: &Limits) -> v1::TeamStorage {
    let share = task_share(limits);
    v1::TeamStorage {
        bytes: held.team,
        bytes_max: limits.team_bytes_max,
        task_bytes: held.tasks,
        task_bytes_max: share,
        task_history_bytes: held.task_changes,
        task_history_bytes_max: share,
    }
}

/// Says in a refusal that the caller, to whom `allowed` bytes were allowed, has a reserve which is used up, too, if it
/// has one.
fn reserve_used(allowed: Option<u64>, quota: u64) -> String {
    match allowed.filter(|allowed| *allowed > quota) {
        Some(allowed) => {
            let allowed = Bytes(allowed);
            format!(
                " The tenth more that only the lead and the operator may use, up to {allowed}, has no room for this, either."
            )
        }
        None => String::new(),
    }
}

/// Returns the refusal of a call whose transaction failed because the team is full. `held`: what it holds. `allowed`:
/// how much it may hold after this caller's calls.
pub fn team_full(held: u64, allowed: Option<u64>, limits: &Limits) -> Refusal {
    let (held_text, max) = (Bytes(held), Bytes(limits.team_bytes_max));
    let reserve = reserve_used(allowed, limits.team_bytes_max);
    let text = format!(
        "The team holds {held_text}, and its quota is {max} (limits.team_bytes_max).{reserve} Nothing was changed. {REMEDY} \
         Acknowledging, answering requests, leaving, completing and deleting tasks, and stopping members still work."
    );
    refusal(text, "team", held, limits.team_bytes_max)
}

/// Returns the refusal of a change to a task that the history of tasks has no room for. `allowed`: how much it may have
/// after this caller's changes.
pub fn task_changes_full(allowed: Option<u64>, limits: &Limits) -> Refusal {
    let share = task_share(limits);
    let reserve = reserve_used(allowed, share);
    let text = format!(
        "The history of the team's tasks uses {}, a quarter of the quota (limits.team_bytes_max).{reserve} Nothing was changed. {REMEDY} \
         Completing, releasing and deleting tasks still work, and so do messages.",
        Bytes(share)
    );
    refusal(text, "task_changes", share, share)
}

/// Returns the refusal of a change that makes the tasks too large. `held`: what they have before it. `spender`: who
/// makes it.
pub fn tasks_full(held: u64, spender: Spender, limits: &Limits) -> Refusal {
    let share = task_share(limits);
    let reserve = reserve_used(spender.task_bytes_max(limits), share);
    let text = format!(
        "The team's tasks have {}, and may have {}, a quarter of the quota (limits.team_bytes_max).{reserve} Nothing was changed. Delete \
         tasks, or shorten their descriptions; completed tasks give space back after limits.completed_task_ttl. The \
         coordinator's operator can raise the quota. Messages still work.",
        Bytes(held),
        Bytes(share)
    );
    refusal(text, "tasks", held, share)
}

fn refusal(text: String, what: &str, held: u64, max: u64) -> Refusal {
    Refusal::new(Reason::QuotaExceeded, text)
        .with("quota", what)
        .with("bytes", held.to_string())
        .with("bytes_max", max.to_string())
}

/// Bytes, as a reader would write them.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut unit, mut rest) = ("bytes", self.0 as f64);
        for larger in ["KiB", "MiB", "GiB", "TiB"] {
            if rest < 1_024.0 {
                break;
            }
            (unit, rest) = (larger, rest / 1_024.0);
        }
        if unit == "bytes" || rest.fract() == 0.0 {
            write!(f, "{rest:.0} {unit}")
        } else {
            write!(f, "{rest:.1} {unit}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_readable() {
        let texts = [0, 1_023, 1_024, 1_536, 1 << 20, (1 << 30) + (1 << 29)].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(texts, ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "1 MiB", "1.5 GiB"]);
    }
}
