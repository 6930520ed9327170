//! Places at which a test of faults has the process die on the spot.
//!
//! They are there with the feature `failpoints` only. The variable `FAILPOINTS` then says where, and at the how-manieth time:
//! `before-commit=41*off->return` at the 42nd.

#[cfg(all(feature = "failpoints", not(debug_assertions)))]
compile_error!("failpoints are for tests; nothing with them may be released");

/// Dies here, as by kill -9, if a test says so.
#[cfg(feature = "failpoints")]
pub(crate) fn reach(place: &str) {
    fail::fail_point!(place, |_| std::process::abort());
}

/// Does nothing in what is released.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn reach(_place: &str) {}
