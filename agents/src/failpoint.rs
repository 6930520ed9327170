//! Failpoints: places at which a test can kill a host program.
//!
//! They exist only with the feature `failpoints`. The variable `FAILPOINTS` names the failpoint and which hit of it
//! fires: `order-taken=2*off->return` fires at the third.

#[cfg(all(feature = "failpoints", not(debug_assertions)))]
compile_error!("failpoints are for tests; nothing with them may be released");

/// Aborts the process, as kill -9 would, if a test asks for it here.
#[cfg(feature = "failpoints")]
pub(crate) fn reach(place: &str) {
    fail::fail_point!(place, |_| std::process::abort());
}

/// Does nothing in released builds.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn reach(_place: &str) {}
