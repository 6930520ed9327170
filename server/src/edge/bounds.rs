//! How much a client may demand of the transport.

use std::time::Duration;

use tonic::transport::Server;

/// The smallest and the largest window of HTTP/2 that is of use.
const WINDOW_MIN: u32 = 64 * 1024;
const WINDOW_MAX: u32 = 16 * 1024 * 1024;

/// The bounds of connections and of calls over them, per coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many connections may be open. 2,000. Further ones take the slot of one without a valid credential, or are
    /// closed at once.
    pub connections_max: usize,
    /// How many of 100 connections only leads and the operator may keep. 5.
    pub reserved_percent: usize,
    /// How many connections without a valid credential an address may have. 1,000. The oldest one makes way for a
    /// further one.
    pub strangers_per_address_max: usize,
    /// How long the TLS handshake may take, from the start of the connection. 5 s.
    pub handshake_timeout: Duration,
    /// How long a connection may be open before a call over it has presented a valid credential. 5 s. Then it is
    /// closed.
    pub authentication_timeout: Duration,
    /// How long a client may be silent before it gets an HTTP/2 ping. 20 s.
    pub keepalive_interval: Duration,
    /// How long a client may take to answer that ping before its connection is closed. 10 s.
    pub keepalive_timeout: Duration,
    /// How many calls may be open on one connection. 64. The client holds further ones back.
    pub streams_max: u32,
    /// How many bytes the headers of a call may have, counted as HTTP/2 does: names, values, and 32 for each header. 16
    /// KiB. Larger headers are answered with HTTP status 431, and the connection stays open.
    pub header_bytes_max: u32,
    /// How many bytes a request may have. 256 KiB. Larger requests are refused with `CONTENT_TOO_LARGE`.
    pub request_bytes_max: usize,
    /// How long a request may take to arrive. 10 s. Then its call ends with DEADLINE_EXCEEDED.
    pub request_timeout: Duration,
    /// How many calls that the client has cancelled may wait to be accepted before its connection is closed. 20.
    pub pending_resets_max: usize,
    /// How many calls on a connection may violate HTTP/2 before it is closed. 1,024.
    pub error_resets_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: 2_000,
            reserved_percent: 5,
            strangers_per_address_max: 1_000,
            handshake_timeout: Duration::from_secs(5),
            authentication_timeout: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            streams_max: 64,
            header_bytes_max: 16 * 1024,
            request_bytes_max: 256 * 1024,
            request_timeout: Duration::from_secs(10),
            pending_resets_max: 20,
            error_resets_max: 1_024,
        }
    }
}

impl Bounds {
    /// Returns a server with the bounds that HTTP/2 can enforce.
    ///
    /// Both bounds on resets are set although hyper has defaults: tonic passes `None` by default, which disables
    /// hyper's guards against floods of cancelled calls.
    pub fn server(&self) -> Server {
        let window = u32::try_from(self.request_bytes_max).unwrap_or(u32::MAX).clamp(WINDOW_MIN, WINDOW_MAX);
        Server::builder()
            .http2_keepalive_interval(Some(self.keepalive_interval))
            .http2_keepalive_timeout(Some(self.keepalive_timeout))
            .max_concurrent_streams(Some(self.streams_max))
            // What has arrived on a connection and was not read: one request of the maximum size.
            .initial_connection_window_size(Some(window))
            .initial_stream_window_size(Some(window))
            .http2_max_header_list_size(Some(self.header_bytes_max))
            .http2_max_pending_accept_reset_streams(Some(self.pending_resets_max))
            .http2_max_local_error_reset_streams(Some(self.error_resets_max))
    }
}
