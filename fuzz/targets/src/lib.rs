//! What is fuzzed, and what must hold of it whatever comes in.
//!
//! Each target is a function over bytes that panics when something is not as it must be. libFuzzer runs them
//! (`fuzz/fuzz_targets`), and `tests/corpora.rs` plays all inputs that are kept, with every run of the tests.
//!
//! Not all of what is fuzzed is public. Such modules are taken in by their path, as they stand.

mod refusal;
mod render;
mod request;
mod runner;
mod send_message;
mod settings;
mod store;
mod text;

#[allow(dead_code, unreachable_pub)]
#[path = "../../../src/config/mod.rs"]
mod config;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../src/failure.rs"]
mod failure;
#[allow(dead_code)]
#[path = "../../../agents/src/line_protocol/lines.rs"]
mod lines;
#[path = "../../../agents/src/line_protocol/loose_keys.rs"]
mod loose_keys;
#[path = "../../../agents/src/line_protocol/output_parser.rs"]
mod output_parser;

/// A target: what its directory in `fuzz/corpus` is called, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("address", text::address),
    ("config", settings::config),
    ("credential", text::credential),
    ("dialect", send_message::read),
    ("join_string", text::join_string),
    ("lines", runner::lines),
    ("output_parser", runner::output_parser),
    ("recipient", text::recipient),
    ("refusal", refusal::refusal),
    ("render", render::render),
    ("request", request::requests),
    ("store", store::open),
    ("trace_parent", text::trace_parent),
    ("write_dialect", send_message::write),
];

/// Runs the target of this name.
pub fn run(name: &str, input: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of this name");
    target(input);
}
