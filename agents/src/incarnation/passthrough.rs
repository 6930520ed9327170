//! Passes a program's output on to the runner's own.

use std::future::pending;

use bytes::BytesMut;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// The runner's output, and the bytes that are still to be written to it.
///
/// A program's output is read on only when this is empty, so that at most one piece waits.
pub(crate) struct Passthrough {
    output: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    unwritten: BytesMut,
    is_flushed: bool,
}

impl Passthrough {
    /// Creates a passthrough to `output`.
    pub(crate) fn new(output: Box<dyn AsyncWrite + Send + Sync + Unpin>) -> Self {
        Self { output, unwritten: BytesMut::new(), is_flushed: true }
    }

    /// Adds bytes. They are written by [`Passthrough::write`].
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.unwritten.extend_from_slice(bytes);
        self.is_flushed &= bytes.is_empty();
    }

    /// Returns whether everything is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_flushed
    }

    /// Writes everything out, and waits forever if there is nothing to write. Cancel-safe.
    pub(crate) async fn write(&mut self) {
        if self.is_flushed {
            return pending().await;
        }
        while !self.unwritten.is_empty() {
            // The member continues even if the runner's output is closed.
            if !matches!(self.output.write_buf(&mut self.unwritten).await, Ok(written) if written > 0) {
                self.unwritten.clear();
            }
        }
        let _ = self.output.flush().await;
        self.is_flushed = true;
    }
}
