//! Lets a program say what it waits for, and stop waiting early.

use std::{fmt, ops::ControlFlow, sync::Arc, time::Duration};

/// An attempt has failed, and the client is about to wait and try again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Waiting<'a> {
    /// The coordinator's address, or all addresses separated by commas.
    pub address: &'a str,
    /// Why the attempt failed.
    pub detail: &'a str,
    /// Nothing listens at any of the addresses, and no coordinator has answered this client before.
    pub is_absent: bool,
    /// How long the call has taken so far.
    pub waited: Duration,
    /// When the next attempt starts.
    pub delay: Duration,
    /// How long the client keeps trying. `None` means it never stops, because a stream reopens until it ends.
    pub left: Option<Duration>,
}

type Observe = dyn Fn(&Waiting<'_>) -> ControlFlow<()> + Send + Sync;

/// A function that learns of every [`Waiting`]. [`ControlFlow::Break`] makes the call fail at once.
#[derive(Clone)]
pub(crate) struct WaitObserver(pub(crate) Arc<Observe>);

impl fmt::Debug for WaitObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitObserver")
    }
}
