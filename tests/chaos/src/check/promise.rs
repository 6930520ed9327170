//! The promises, each with its checker. `docs/proof.md` shows this table.

use super::{coordination, index::Index, liveness, messages, orders, store};
use crate::history::{Event, What};

/// A promise; [`PROMISES`] says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    NothingLost,
    NothingInvented,
    NothingDuplicated,
    Order,
    Fenced,
    Claims,
    Decisions,
    Answers,
    Orders,
    OneProcess,
    NothingLeft,
    Shutdown,
    Progress,
    Alive,
    LossReported,
    Responsive,
    Unharmed,
    Kept,
    StoreBounded,
    MemoryBounded,
    DamageDetected,
}

/// What a promise says and how it is checked.
#[derive(Debug)]
pub struct PromiseSpec {
    pub promise: Promise,
    /// The promise, for a reader.
    pub says: &'static str,
    /// What the checker compares.
    pub checked: &'static str,
    pub(super) checker: fn(&Index<'_>) -> Vec<String>,
}

/// Every promise.
pub const PROMISES: [PromiseSpec; 21] = [
    PromiseSpec {
        promise: Promise::NothingLost,
        says: "After an OK, a message from a member is delivered and processed. In these runs, there are two exceptions. \
               A message becomes a dead letter if five processes have received it and none has acknowledged it. If its \
               recipient has exited, a message waits in the inbox for the recipient's next life.",
        checked: "every OK and every confirmed acknowledgement against the recipients' deliveries and the final receipts",
        checker: messages::nothing_lost,
    },
    PromiseSpec {
        promise: Promise::NothingInvented,
        says: "Every delivered message was sent, by the sender it names and to the member that receives it.",
        checked: "every delivery against the only send that has the same content",
        checker: messages::nothing_invented,
    },
    PromiseSpec {
        promise: Promise::NothingDuplicated,
        says: "A send makes one message, however often it is retried. A process receives it once. If a later process \
               receives it, it is marked as redelivered. After a confirmed acknowledgement, no process receives it.",
        checked: "all messages with the same content, which must have one id; the deliveries to each process, and their delivery counts",
        checker: messages::nothing_duplicated,
    },
    PromiseSpec {
        promise: Promise::Order,
        says: "One process's messages arrive in the order it sent them, and no two share a place in an inbox. A process receives \
               its inbox in order, except that a shutdown request may come before its turn, but never after it.",
        checked: "inbox sequences against the order of sends, and each process's deliveries against the sequences",
        checker: messages::order,
    },
    PromiseSpec {
        promise: Promise::Fenced,
        says: "A process whose session was superseded can change nothing.",
        checked: "every OK against the sessions that other processes had opened before the call began",
        checker: coordination::fenced,
    },
    PromiseSpec {
        promise: Promise::Claims,
        says: "A task is completed once, by the holder of its latest claim.",
        checked: "every completion against the claim tokens issued before it",
        checker: coordination::claims,
    },
    PromiseSpec {
        promise: Promise::Decisions,
        says: "A request has one answer and keeps it.",
        checked: "two processes of the lead answer every plan and every permission request in opposite ways",
        checker: coordination::decisions,
    },
    PromiseSpec {
        promise: Promise::Answers,
        says: "The answer to a permission request reaches the member that asked, and says what was decided. A request that was \
               withdrawn or has expired is never approved.",
        checked: "the decisions, against what the askers saw and received; some requests are withdrawn, some expire, and some \
                  approvers exit",
        checker: coordination::answers,
    },
    PromiseSpec {
        promise: Promise::Orders,
        says: "An order to start a member is decided once. No later than 10 s after its deadline, it is decided and no longer \
               reserves the member's name. The order starts at most one process. Unless the order is approved, that process gets \
               nothing done after the decision.",
        checked: "the orders and their decisions, against the reserved names (which the lead lists five times a second) and \
                  against what the ordered processes get done",
        checker: orders::orders,
    },
    PromiseSpec {
        promise: Promise::OneProcess,
        says: "Of two processes under one name, the earlier one can no longer get anything done once the later one has acted.",
        checked: "everything that ordered processes get done",
        checker: orders::one_process,
    },
    PromiseSpec {
        promise: Promise::NothingLeft,
        says: "After an ordered member has ended, no process or record of it is left on its host.",
        checked: "processes and records, 90 s after the last member ended",
        checker: orders::nothing_left,
    },
    PromiseSpec {
        promise: Promise::Shutdown,
        says: "A process exits within 40 s after its shutdown is approved. In these runs, a member exits with 0 only after an approval.",
        checked: "exits against approvals",
        checker: coordination::shutdown,
    },
    PromiseSpec {
        promise: Promise::Progress,
        says: "Once every fault is healed, all work finishes.",
        checked: "the inboxes, and the calls in flight, 90 s after the last fault",
        checker: liveness::progress,
    },
    PromiseSpec {
        promise: Promise::Alive,
        says: "No member is declared lost while its process runs or is being replaced, unless the process is cut off from the \
               coordinators for longer than its lease.",
        checked: "the team's history",
        checker: liveness::alive,
    },
    PromiseSpec {
        promise: Promise::LossReported,
        says: "If the store loses acknowledged writes, the team gets a notice. Otherwise, it gets no such notice. Both rules have \
               [exceptions](redis.md#lost-commits).",
        checked: "the team's history against the times at which the store was made to lose writes",
        checker: store::loss_reported,
    },
    PromiseSpec {
        promise: Promise::Responsive,
        says: "Sends are answered with OK within 5 s, whatever strangers do.",
        checked: "every send during a flood",
        checker: liveness::responsive,
    },
    PromiseSpec {
        promise: Promise::Unharmed,
        says: "If a team has hostile members, its other members, its lead and the operator still get their answers within 5 s, \
               even over new connections. The lead can still stop a hostile member by force.",
        checked: "four times a second: messages sent to the lead, and calls by the lead and the operator over new connections; at \
                  the end of the run: a forced stop",
        checker: liveness::unharmed,
    },
    PromiseSpec {
        promise: Promise::Kept,
        says: "What was said stays in the history, and how the lead used its powers stays in the audit log, whatever hostile members \
               write or try.",
        checked: "the sends that were answered with OK during the attack, against the later history; two forced stops, against the \
                  audit log",
        checker: liveness::kept,
    },
    PromiseSpec {
        promise: Promise::StoreBounded,
        says: "Whatever hostile members write, their team holds no more than its quota, plus a tenth of that for the lead and the \
               operator, plus 256 KiB for calls that are never refused. The tasks and their history are bounded in the \
               same way, but each by its share of the quota instead of the whole quota. If the bytes that count against the \
               teams' quotas grow by N during an attack, the store grows by no more than 2 N + 16 MiB.",
        checked: "four times a second during an attack: the size that the coordinator reports for the team, and the size of the \
                  store's file on disk, or the memory that Redis uses; the quota is 16 MiB, or 32 MiB with `hostile-all`",
        checker: store::store_bounded,
    },
    PromiseSpec {
        promise: Promise::MemoryBounded,
        says: "In these runs, a coordinator's memory stays below 512 MiB; up to 256 MiB of that may be the embedded store's \
               cache.",
        checked: "the peak memory of each coordinator (VmHWM)",
        checker: liveness::memory_bounded,
    },
    PromiseSpec {
        promise: Promise::DamageDetected,
        says: "After a crash, a damaged store is refused with an explanation, or lacks at most its last commit.",
        checked: "a coordinator opens damaged copies of the store: it must refuse each, or the copy must hold every write answered \
                  with OK except those of its last commit",
        checker: store::damage_detected,
    },
];

impl Promise {
    /// Returns whether a history contains anything that could have broken this promise. Any history could break most.
    pub fn was_tried(self, events: &[Event]) -> bool {
        let has = |is: fn(&What) -> bool| events.iter().any(|event| is(&event.what));
        match self {
            // A coordinator that has just started declares nobody lost.
            Self::Alive => {
                let lost_after_us = events.iter().find_map(|event| match event.what {
                    What::Started { lost_after_s } => Some(event.at_us + lost_after_s * 1_000_000),
                    _ => None,
                });
                lost_after_us.is_some_and(|at_us| events.last().is_some_and(|last| last.at_us > at_us))
            }
            Self::Orders => has(|what| matches!(what, What::Ordered { .. })),
            Self::OneProcess | Self::NothingLeft => has(|what| matches!(what, What::Acted { .. })),
            Self::Answers => has(|what| matches!(what, What::Asked { .. })),
            Self::LossReported => has(|what| matches!(what, What::MayBeLost { .. })),
            Self::Responsive => has(|what| matches!(what, What::FloodBegan)),
            Self::Unharmed => has(|what| matches!(what, What::Probing { .. })),
            Self::Kept => has(|what| matches!(what, What::Kept { .. } | What::Audited { .. })),
            Self::StoreBounded => has(|what| matches!(what, What::Held { .. } | What::Grew { .. })),
            Self::MemoryBounded => has(|what| matches!(what, What::Memory { .. })),
            Self::DamageDetected => has(|what| matches!(what, What::Damaged { .. })),
            _ => true,
        }
    }
}

/// Returns the table of promises as lines of Markdown, its two header lines included.
pub fn promise_table() -> Vec<String> {
    let head = ["| promise | what it says | how it is checked |".to_owned(), "|---|---|---|".to_owned()];
    let rows = PROMISES.iter().map(|spec| format!("| {:?} | {} | {} |", spec.promise, spec.says, spec.checked));
    head.into_iter().chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_shows_this_table() {
        let proof = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proof.md");
        let documented = std::fs::read_to_string(proof).unwrap();
        assert!(
            documented.contains(&promise_table().join("\n")),
            "renew docs/proof.md with `cargo xtask faults --markdown docs/proof.md`, or paste:\n{}",
            promise_table().join("\n")
        );
    }
}
