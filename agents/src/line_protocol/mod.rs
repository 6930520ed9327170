//! The lines that a runner and its program exchange: JSON, one object a line. `docs/line-protocol.md` defines them.
//!
//! [`input_lines`] are what the program reads, [`input`] writes them; [`lines`] reads what the program writes, and
//! [`json`] reads JSON as programs really write it, [`output_parser`] decides which of its lines are meant for the
//! runner, with [`loose_keys`] for those that are not JSON.

pub(crate) mod input;
pub(crate) mod input_lines;
pub(crate) mod json;
pub(crate) mod lines;
mod loose_keys;
pub(crate) mod output_parser;
