//! A server stream that reopens when it breaks.

use std::fmt;

use futures::future::BoxFuture;
use teamwire_proto::Method;
use tokio::time::{Instant, sleep};
use tonic::{Request, Response, Status, Streaming, transport::Channel};

use crate::{
    Client, Error,
    client::Call,
    retry::{Delays, Failure},
    transport::Link,
};

/// Opens a stream.
pub(crate) type Open<Q, A> = fn(Channel, Request<Q>) -> BoxFuture<'static, Result<Response<Streaming<A>>, Status>>;

/// Reads a stream, and reopens it whenever it breaks.
pub(crate) struct Follower<Q, A> {
    client: Client,
    method: Method,
    /// The request that opens the stream the next time.
    pub(crate) request: Q,
    open: Open<Q, A>,
    stream: Option<(Link, Streaming<A>)>,
    delays: Delays,
    /// When the stream broke. `None` if it is open, or was never tried.
    broken_since: Option<Instant>,
    is_over: bool,
}

impl<Q: Clone, A> Follower<Q, A> {
    /// Creates a follower of a streaming RPC. Sends nothing yet.
    pub(crate) fn new(client: &Client, method: Method, request: Q, open: Open<Q, A>) -> Self {
        let delays = client.retry().delays();
        Self { client: client.clone(), method, request, open, stream: None, delays, broken_since: None, is_over: false }
    }

    /// Waits for the next frame. An error is final: None follows.
    pub(crate) async fn next(&mut self) -> Option<Result<A, Error>> {
        while !self.is_over {
            let (link, status) = match &mut self.stream {
                None => match self.open().await {
                    Ok(opened) => {
                        self.stream = Some(opened);
                        continue;
                    }
                    Err(failed) => failed,
                },
                Some((link, stream)) => match stream.message().await {
                    Ok(Some(frame)) => {
                        self.delays.reset();
                        self.broken_since = None;
                        return Some(Ok(frame));
                    }
                    Ok(None) => (Some(link.clone()), Status::unavailable("the stream ended without a reason")),
                    Err(status) => (Some(link.clone()), status),
                },
            };
            self.stream = None;
            let failure = match link {
                Some(link) => self.client.judge(&link, &status),
                None => Failure::of(&status),
            };
            let delay = self.delays.next().max(failure.asks_to_wait());
            let waited = self.broken_since.get_or_insert_with(Instant::now).elapsed();
            if !failure.is_retried(self.method.effect(), &self.client.retry())
                || self.client.stops_waiting(&status, waited, delay, None)
            {
                self.is_over = true;
                let call = Call::of(self.method);
                return Some(Err(self.client.error(call, failure, false, status)));
            }
            tracing::debug!(call = self.method.name(), message = status.message(), "reopening the stream");
            sleep(delay).await;
        }
        None
    }

    /// Goes on after an error, with a request that was changed accordingly.
    pub(crate) fn go_on(&mut self) {
        self.is_over = false;
    }

    async fn open(&self) -> Result<(Link, Streaming<A>), (Option<Link>, Status)> {
        let link = self.client.transport().link().await.map_err(|status| (None, status))?;
        let session = self.client.session().borrow().clone();
        let request = self.client.request(self.request.clone(), &session);
        match (self.open)(link.channel(), request).await {
            Ok(response) => Ok((link, response.into_inner())),
            Err(status) => Err((Some(link), status)),
        }
    }
}

impl<Q: fmt::Debug, A> fmt::Debug for Follower<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("call", &self.method).field("request", &self.request).finish_non_exhaustive()
    }
}
