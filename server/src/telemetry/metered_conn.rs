//! Counts open connections.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use super::metrics::Metrics;

/// A connection that counts as open until it is dropped.
#[derive(Debug)]
pub struct MeteredConn<T> {
    connection: T,
    metrics: Arc<Metrics>,
}

impl<T> MeteredConn<T> {
    /// Counts a connection.
    pub fn new(connection: T, metrics: &Arc<Metrics>) -> Self {
        metrics.connections.inc();
        Self { connection, metrics: Arc::clone(metrics) }
    }
}

impl<T> Drop for MeteredConn<T> {
    fn drop(&mut self) {
        self.metrics.connections.dec();
    }
}

impl<T: Connected> Connected for MeteredConn<T> {
    type ConnectInfo = T::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.connection.connect_info()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for MeteredConn<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for MeteredConn<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
