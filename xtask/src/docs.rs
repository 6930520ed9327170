//! Renews the documentation that is generated from the binary's sources: `docs/cli.md` and `docs/config.schema.json`.
//!
//! The binary's own tests generate the files and fail when the committed ones are out of date, so `cargo xtask test`
//! checks them.

use crate::step::{Failure, Step};

pub(crate) fn generate() -> Result<(), Failure> {
    Step::cargo(&["test", "--quiet", "--locked", "--package", "teamwire", "--bin", "teamwire", "--", "reference::"])
        .env("UPDATE_DOCS", "1")
        .run()
}
