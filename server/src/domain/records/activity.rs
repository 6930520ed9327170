//! What a member's program has used.

use serde::{Deserialize, Serialize};
use teamwire_proto::v1;

use super::record_type::stored_as_json;
use crate::domain::time::timestamp;

/// What a member's programs have used, and which report was the last. Id: the member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityRecord {
    /// The life that made the last report.
    pub incarnation: u64,
    /// The idempotency key of its last report, if it had one.
    pub last_key: Option<String>,
    /// What that life has used.
    pub life: v1::Usage,
    /// What all lives before it have used.
    pub earlier: v1::Usage,
    /// What that life has used of a model of which the price is not known yet.
    #[serde(default, skip_serializing_if = "v1::Usage::is_none")]
    pub unpriced: v1::Usage,
    /// The turns of that life that have failed in a row. `None` if its latest turn has not failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
    /// What the program of that life is and does. `None` if nothing was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// How much all lives may use. `None` if any amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Bound>,
}

stored_as_json!(ActivityRecord, "activity");

/// The turn of a member's program that ended last. Id: the member. Apart from [`ActivityRecord`], which is read far more
/// often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastTurnRecord {
    /// The life that it was in.
    pub incarnation: u64,
    /// Which turn of that life it was.
    pub turn: u64,
    /// When it began, if the program says so.
    pub started_ms: Option<u64>,
    /// When it ended.
    pub ended_ms: u64,
    /// What the model wrote last.
    pub final_text: String,
    /// How many tool calls it made.
    pub tool_calls: u32,
    /// The files that it changed.
    pub files: Vec<String>,
    /// What it used.
    pub used: v1::Usage,
    /// Why it ended early. Empty if it did not.
    pub cut_short: String,
}

stored_as_json!(LastTurnRecord, "last-turn");

/// A member's work, as its runner reported it last. Id: the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkRecord {
    /// The work.
    pub work: v1::Work,
}

stored_as_json!(WorkRecord, "work");

impl LastTurnRecord {
    /// Returns the protocol form.
    pub fn show(&self) -> v1::TurnEnded {
        v1::TurnEnded {
            turn: self.turn,
            incarnation: self.incarnation,
            started_at: self.started_ms.map(timestamp),
            ended_at: Some(timestamp(self.ended_ms)),
            final_text: self.final_text.clone(),
            tool_calls: self.tool_calls,
            files: self.files.clone(),
            usage: self.used.nonzero(),
            cut_short: self.cut_short.clone(),
        }
    }
}

impl ActivityRecord {
    /// Returns the record as a life of the member finds it.
    pub fn in_life(&self, incarnation: u64) -> Self {
        if self.incarnation == incarnation {
            return self.clone();
        }
        Self { incarnation, earlier: self.total(), budget: self.budget, ..Self::default() }
    }

    /// Returns what all lives have used.
    pub fn total(&self) -> v1::Usage {
        self.earlier.plus(self.life)
    }
}

/// What a program is and does. See `Program` of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name and version, if known.
    pub version: Option<String>,
    /// When its turn began. `None` if it is in no turn.
    pub turn_since_ms: Option<u64>,
    /// The tool call that is running.
    pub tool: Option<ToolCall>,
    /// What keeps it from its work, if something does.
    pub trouble: Option<String>,
    /// The model that it uses, if known.
    pub model: Option<String>,
}

/// A tool call that is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its name, and what it does, for a reader.
    pub text: String,
    /// When it began, if the program says so.
    pub since_ms: Option<u64>,
}

impl Program {
    /// Returns the protocol form.
    pub fn show(&self) -> v1::Program {
        v1::Program {
            version: self.version.clone().unwrap_or_default(),
            turn_since: self.turn_since_ms.map(timestamp),
            tool: self.tool.as_ref().map(|tool| tool.text.clone()).unwrap_or_default(),
            tool_since: self.tool.as_ref().and_then(|tool| tool.since_ms).map(timestamp),
            trouble: self.trouble.clone().unwrap_or_default(),
            model: self.model.clone().unwrap_or_default(),
        }
    }
}

/// Turns that have failed in a row. See `FailedTurns` of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// How many.
    pub count: u32,
    /// How the latest one failed.
    pub error: String,
    /// When the first of them was reported.
    pub since_ms: u64,
}

impl Failed {
    /// Returns the protocol form.
    pub fn show(&self) -> v1::FailedTurns {
        v1::FailedTurns { count: self.count, error: self.error.clone(), since: Some(timestamp(self.since_ms)) }
    }
}

/// How much may be used. Zero means any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The cost, in millionths of a US dollar.
    pub cost_usd_micros: u64,
    /// Tokens read and written.
    pub tokens: u64,
}

impl Bound {
    /// Returns the bound. `None` if it permits any amount.
    pub fn some(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }

    /// Returns the bound raised by another. What has no bound gets none.
    pub fn raised(self, by: Self) -> Self {
        let raised = |bound: u64, by: u64| if bound == 0 { 0 } else { bound.saturating_add(by) };
        Self {
            cost_usd_micros: raised(self.cost_usd_micros, by.cost_usd_micros),
            tokens: raised(self.tokens, by.tokens),
        }
    }

    /// Returns the bound raised by itself until it is not used up.
    pub fn above(self, used: v1::Usage) -> Self {
        let above = |bound: u64, used: u64| match used.checked_div(bound) {
            Some(times @ 1..) => bound.saturating_mul(times.saturating_add(1)),
            _ => bound,
        };
        Self {
            cost_usd_micros: above(self.cost_usd_micros, used.cost_usd_micros),
            tokens: above(self.tokens, used.tokens()),
        }
    }

    /// Returns whether it is used up.
    pub fn is_spent(self, used: v1::Usage) -> bool {
        (self.cost_usd_micros > 0 && used.cost_usd_micros >= self.cost_usd_micros)
            || (self.tokens > 0 && used.tokens() >= self.tokens)
    }
}

impl From<v1::Budget> for Bound {
    fn from(budget: v1::Budget) -> Self {
        let v1::Budget { cost_usd_micros, tokens } = budget;
        Self { cost_usd_micros, tokens }
    }
}

impl From<Bound> for v1::Budget {
    fn from(bound: Bound) -> Self {
        let Bound { cost_usd_micros, tokens } = bound;
        Self { cost_usd_micros, tokens }
    }
}
