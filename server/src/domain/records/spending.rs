//! Budgets, and what a team has used of its own.

use serde::{Deserialize, Serialize};
use teamwire_proto::v1;

use super::{Used, record_type::stored_as_json};

/// How much may be used. Zero means any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The cost, in millionths of a US dollar.
    pub cost_usd_micros: u64,
    /// Tokens read and written.
    pub tokens: u64,
}

/// The budget of a team, and what its members have used since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamSpendingRecord {
    /// How much may be used.
    pub budget: Bound,
    /// What was used.
    pub used: Used,
}

stored_as_json!(TeamSpendingRecord, "team-spending");

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

    /// Returns whether it is used up.
    pub fn is_spent(self, used: Used) -> bool {
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
