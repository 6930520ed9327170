//! The audit log: who used which powers, and who was refused.
//!
//! - [`chain`]: its chains, to which entries are added and from which old ones are removed. [`caller`]: who called.
//! - [`tally`]: how many entries one caller, and all callers, can cause.
//!
//! The store keeps it in a namespace that belongs to no team, so it outlives the teams, and the rules here touch
//! nothing else.

pub mod caller;
pub mod chain;
pub mod tally;
