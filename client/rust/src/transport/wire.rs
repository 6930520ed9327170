//! The bytes of one connection, and what its first ones reveal about the peer.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use teamwire_proto::address::Address;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use super::{Fault, connect::Stream};

/// The first byte of a TLS alert. HTTP/2 starts with the length of a frame, which is never that large.
const TLS_ALERT: u8 = 0x15;

/// The first byte of an HTTP/1 reply.
const HTTP_1: u8 = b'H';

/// The first byte of HTTP/2: the settings, the first frame, are never 64 KiB long.
const LENGTH: u8 = 0;

/// What is known about the peer until it has sent its first frame of HTTP/2.
#[derive(Debug)]
pub(crate) struct Handshake {
    address: Address,
    /// The peer has sent HTTP/2: it is a coordinator, or a proxy, and accepts the connection.
    has_answered: AtomicBool,
    /// The same for any connection of this transport.
    has_connected: Arc<AtomicBool>,
    /// The peer has asked for a client certificate.
    is_certificate_asked: AtomicBool,
    /// The client presented one.
    is_certificate_shown: AtomicBool,
    /// The connection ended before anything was read.
    is_cut: AtomicBool,
    fault: OnceLock<Fault>,
    /// Notified when something was read or the connection has ended. Only the dialer waits.
    changed: Notify,
}

impl Handshake {
    pub(super) fn new(address: &Address, has_connected: Arc<AtomicBool>) -> Self {
        Self {
            address: address.clone(),
            has_answered: AtomicBool::new(false),
            has_connected,
            is_certificate_asked: AtomicBool::new(false),
            is_certificate_shown: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            fault: OnceLock::new(),
            changed: Notify::new(),
        }
    }

    /// Records that the peer asked for a client certificate, and whether there was one to present.
    pub(super) fn certificate_asked(&self, is_shown: bool) {
        self.is_certificate_asked.store(true, Ordering::SeqCst);
        self.is_certificate_shown.store(is_shown, Ordering::SeqCst);
    }

    /// Waits for the peer's first frame of HTTP/2, which proves that it speaks the protocol and accepts the connection.
    ///
    /// Every server sends one unasked. No call is sent before, so that its outcome is known if this fails.
    pub(super) async fn completed(&self) -> Result<(), Fault> {
        loop {
            if let Some(fault) = self.fault.get() {
                return Err(fault.clone());
            }
            if self.has_answered.load(Ordering::SeqCst) {
                return Ok(());
            }
            if self.is_cut.load(Ordering::SeqCst) {
                return Err(self.cut());
            }
            self.changed.notified().await;
        }
    }

    /// Guesses why the connection was cut before the first frame. The TLS alert that would say so is lost if the peer
    /// closes before it has read everything.
    fn cut(&self) -> Fault {
        let load = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        match (load(&self.is_certificate_asked), load(&self.is_certificate_shown)) {
            (true, true) => Fault::certificate_refused(""),
            (true, false) => Fault::certificate_required(),
            (false, _) if self.address.is_tls() => {
                Fault::passing("it closed the connection right after the TLS handshake")
            }
            (false, _) => Fault::passing("it closed the connection without a reply; if it speaks TLS, write https://"),
        }
    }

    fn heard(&self, first: u8) -> Option<Fault> {
        let fault = match (self.address.is_tls(), first) {
            (false, TLS_ALERT) => Fault::lasting("it speaks TLS. Write https:// in front of its address"),
            (_, HTTP_1) => {
                Fault::lasting("it speaks HTTP/1, so it is not a coordinator, or it is a proxy without HTTP/2")
            }
            (_, not_h2) if not_h2 != LENGTH => {
                Fault::lasting("it does not speak HTTP/2, so it is not a coordinator. Another program listens there")
            }
            _ => {
                self.has_answered.store(true, Ordering::SeqCst);
                self.has_connected.store(true, Ordering::SeqCst);
                self.changed.notify_one();
                return None;
            }
        };
        let fault = self.fault.get_or_init(|| fault).clone();
        self.changed.notify_one();
        Some(fault)
    }

    fn ended(&self, error: Option<&io::Error>) {
        if self.has_answered.load(Ordering::SeqCst) {
            return;
        }
        if let Some(fault) = error.map(|error| Fault::of(error, &self.address)).filter(|fault| fault.is_final) {
            self.fault.get_or_init(|| fault);
        }
        self.is_cut.store(true, Ordering::SeqCst);
        self.changed.notify_one();
    }
}

/// One connection, with or without TLS.
pub(super) struct Wire {
    stream: Either<TlsStream<Stream>, Stream>,
    handshake: Arc<Handshake>,
    is_begun: bool,
}

impl Wire {
    pub(super) fn new(stream: Either<TlsStream<Stream>, Stream>, handshake: Arc<Handshake>) -> Self {
        Self { stream, handshake, is_begun: false }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        match (&read, buf.filled().get(before)) {
            (Err(error), _) => self.handshake.ended(Some(error)),
            (Ok(()), None) => self.handshake.ended(None),
            (Ok(()), Some(first)) if !self.is_begun => {
                if let Some(fault) = self.handshake.heard(*first) {
                    return Poll::Ready(Err(io::Error::other(fault.text)));
                }
                self.is_begun = true;
            }
            (Ok(()), Some(_)) => {}
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        if let Err(error) = &written {
            self.handshake.ended(Some(error));
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs));
        if let Err(error) = &written {
            self.handshake.ended(Some(error));
        }
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
