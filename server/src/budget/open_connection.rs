//! An open connection: what closes it, and how long it has carried no call.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A connection without a call for this long is idle: another one of its credential may take its place. Longer than
/// any client takes from one call of a sequence to the next.
const IDLE_AFTER: Duration = Duration::from_secs(30);

/// An open connection.
#[derive(Clone, Debug, Default)]
pub struct OpenConnection {
    /// Cancelled when it must be closed.
    pub evict: CancellationToken,
    pub calls: Arc<OpenCalls>,
}

/// The calls that are under way on a connection.
#[derive(Debug)]
pub struct OpenCalls(Mutex<Calls>);

#[derive(Debug)]
struct Calls {
    open: usize,
    last_ended: Instant,
}

impl Default for OpenCalls {
    fn default() -> Self {
        Self(Mutex::new(Calls { open: 0, last_ended: Instant::now() }))
    }
}

/// A call, or the rest of its reply, which is under way until it is dropped.
#[derive(Debug)]
pub struct OpenCall(Arc<OpenCalls>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut calls = self.0.0.lock();
        calls.open -= 1;
        calls.last_ended = Instant::now();
    }
}

impl OpenCalls {
    /// Begins a call.
    pub fn begin(self: &Arc<Self>) -> OpenCall {
        self.0.lock().open += 1;
        OpenCall(Arc::clone(self))
    }

    /// Returns since when the connection is idle. `None` if it is not.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let calls = self.0.lock();
        (calls.open == 0 && calls.last_ended.elapsed() >= IDLE_AFTER).then_some(calls.last_ended)
    }
}
