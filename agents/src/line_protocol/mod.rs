//! The lines that a runner and its program exchange: JSON, one object a line.
//!
//! [`input_lines`] are what the program reads, [`input`] writes them; [`lines`] reads what the program writes, and
//! [`output_parser`] tells which of its lines are meant for the runner.

pub(crate) mod input;
pub(crate) mod input_lines;
pub(crate) mod lines;
pub(crate) mod output_parser;
