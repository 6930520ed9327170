//! How messages reach a program, one module for each mode.

pub(crate) mod exec;
pub(crate) mod lines;
pub(crate) mod output_parser;
pub(crate) mod stdin;
