//! A connection that hyper reads from and writes to.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};
use tokio_rustls::server::TlsStream;
use tokio_util::{either::Either, sync::WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use super::{auth_gate::AuthGate, slots::ConnectionSlot};

/// How soon a connection is checked again if its time was over while a call was being decided.
const AGAIN: Duration = Duration::from_millis(250);

/// How much longer a connection that loads the console's page may stay without a credential: enough for a slow link.
const PAGE_TIME: Duration = Duration::from_secs(25);

/// With TLS or without.
pub(super) type Stream<S> = Either<S, Box<TlsStream<S>>>;

/// A connection that has a slot among those that may be open, and fails if its gate is not open in time, or if it must
/// make way.
///
/// Every read and write checks both: hyper always has a read under way, unless it waits to write.
#[derive(Debug)]
pub struct Connection<S> {
    stream: Stream<S>,
    peer: SocketAddr,
    gate: Arc<AuthGate>,
    /// `None` if the gate is open.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Whether the connection is closed if no call is being decided at the deadline. Otherwise it is checked once more: the
    /// reply to a call that was just decided may not have been written.
    is_last_check: bool,
    /// Ready when the connection must make way for another one; once its gate is open, when its member has begun two
    /// more lives, or needs its place.
    eviction: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The deadline if the connection loads the console's page.
    page_deadline: Instant,
}

impl<S> Connection<S> {
    pub(super) fn new(stream: Stream<S>, peer: SocketAddr, deadline: Instant, slot: ConnectionSlot) -> Self {
        let page_deadline = deadline + PAGE_TIME;
        let deadline = Some(Box::pin(sleep_until(deadline)));
        let eviction = Box::pin(slot.eviction().cancelled_owned());
        Self {
            stream,
            peer,
            gate: Arc::new(AuthGate::of(peer, slot)),
            deadline,
            is_last_check: false,
            eviction,
            page_deadline,
        }
    }

    fn poll_deadline(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while let Some(deadline) = &mut self.deadline {
            if self.gate.is_open() {
                self.deadline = None;
                self.await_next_eviction()?;
                break;
            }
            if self.eviction.as_mut().poll(context).is_ready() {
                tracing::debug!(peer = %self.peer, "closed: another connection took its slot");
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if deadline.as_mut().poll(context).is_pending() {
                break;
            }
            if self.gate.is_loading() && Instant::now() < self.page_deadline {
                deadline.as_mut().reset(self.page_deadline);
                continue;
            }
            let is_deciding = self.gate.is_deciding();
            if self.is_last_check && !is_deciding {
                tracing::debug!(peer = %self.peer, "closed: no call presented a valid credential in time");
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.is_last_check = !is_deciding;
            deadline.as_mut().reset(Instant::now() + AGAIN);
        }
        while self.deadline.is_none() && self.eviction.as_mut().poll(context).is_ready() {
            self.await_next_eviction()?;
        }
        Ok(())
    }

    /// Has the connection of a member wait until it must be closed, or fails if it must be now.
    fn await_next_eviction(&mut self) -> io::Result<()> {
        let Some(evict) = self.gate.next_eviction() else {
            tracing::debug!(peer = %self.peer, "closed: its member has begun two more lives, or needed the place of an idle connection");
            return Err(io::ErrorKind::ConnectionAborted.into());
        };
        self.eviction = Box::pin(evict.cancelled_owned());
        Ok(())
    }
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = Arc<AuthGate>;

    fn connect_info(&self) -> Self::ConnectInfo {
        Arc::clone(&self.gate)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_deadline(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_deadline(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_deadline(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_deadline(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_deadline(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::{
        budget::{Budgets, Rates, Refusals, Shares},
        edge::{
            auth_gate::GatedCall,
            slots::{Bounds, ConnectionSlots},
        },
    };

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_decided_as_the_time_runs_out_gets_its_reply() {
        let budgets = Arc::new(Budgets::new(Rates::default(), Shares::default(), Refusals::default()));
        let bounds = Bounds { all: 1, reserved: 0, strangers_per_address: 1 };
        let slots = Arc::new(ConnectionSlots::new(budgets, bounds));
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let (near, _far) = duplex(64);
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut connection = Connection::new(Either::Left(near), peer, deadline, slots.admit(peer).unwrap());
        let call = GatedCall::new(connection.connect_info());
        call.has_credential();
        let decision = call.decision();
        sleep_until(deadline).await;
        drop(decision);
        connection.write_all(b"refused").await.unwrap();
        // Nothing else is decided.
        let ended = connection.read_u8().await.unwrap_err();
        assert_eq!((ended.kind(), deadline.elapsed()), (io::ErrorKind::TimedOut, AGAIN));
    }
}
