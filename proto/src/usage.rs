//! What programs have used: sums and differences.

use crate::v1::Usage;

impl Usage {
    /// Returns the sum of this usage and another.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// Returns what was used since an earlier usage. Zero where that was more.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.each(earlier, u64::saturating_sub)
    }

    /// Returns the tokens that count for a budget: those that the model has read and written.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Returns whether nothing was used.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns it unless nothing was used.
    pub fn nonzero(self) -> Option<Self> {
        Some(self).filter(|used| !used.is_none())
    }

    /// Combines each counter with that of another usage.
    #[must_use]
    pub fn each(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            turns: combine(self.turns, other.turns),
            input_tokens: combine(self.input_tokens, other.input_tokens),
            cached_input_tokens: combine(self.cached_input_tokens, other.cached_input_tokens),
            output_tokens: combine(self.output_tokens, other.output_tokens),
            cost_usd_micros: combine(self.cost_usd_micros, other.cost_usd_micros),
        }
    }
}
