//! Resolves names to IP addresses.

use std::{fmt, io, net::SocketAddr};

use futures::{FutureExt as _, future::BoxFuture};

/// Finds the IP addresses of a host, for names that the system cannot resolve or resolves incompletely.
///
/// Called before every connection, for names only. Taking longer than 5 s counts as a failure.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Returns all addresses of a host, with this port. Their order means nothing.
    fn resolve(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// Asks the system: the `hosts` file, then DNS.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }.boxed()
    }
}
