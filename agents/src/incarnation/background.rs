//! Calls that run beside their owner.

use std::{future::pending, panic::resume_unwind};

use tokio_util::task::AbortOnDropHandle;

/// A call on a separate task. Its owner may stop waiting and wait again; dropping it abandons the call.
pub(crate) type Background<T> = AbortOnDropHandle<T>;

/// Starts a call.
pub(crate) fn start<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> Background<T> {
    AbortOnDropHandle::new(tokio::spawn(call))
}

/// Waits for a call, and panics if the call did. Cancel-safe; must not be called again after it has returned.
pub(crate) async fn finished<T>(call: &mut Background<T>) -> T {
    match call.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => pending().await,
        },
    }
}
