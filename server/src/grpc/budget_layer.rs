//! Budgets of calls: what each costs, by its options in the protocol, and what it uses while its reply is under way.
//!
//! A layer around all services makes a [`Spending`] for each call. The services note there whose call it is, as soon as its
//! credential is known to be valid; from then on it is that account's. A call with `idempotency_level` `NO_SIDE_EFFECTS` costs the
//! bytes of its reply, every other one a transaction. Streams and calls that wait also count as open.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use teamwire_proto::Method;
use tokio::time::sleep;
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};

use super::{
    reply_body::{PIECE_BYTES, Piece, ReplyBody},
    spending::{Examined, Spending, Spent},
};

/// The methods that cost something, by path.
static METHODS: LazyLock<HashMap<&'static str, Method>> =
    LazyLock::new(|| Method::ALL.iter().map(|method| (method.path(), *method)).collect());

/// Returns whether the caller may not make the call, or makes too many. A refusal has its status in the headers, since it has no
/// body.
fn is_refused(reply: &Response<Body>) -> bool {
    let code = reply.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()));
    matches!(code, Some(Code::PermissionDenied | Code::Unauthenticated | Code::ResourceExhausted))
}

/// Charges a reply, and bounds it.
async fn bound(mut spent: Spent, reply: Response<Body>, write_timeout: Duration) -> Response<Body> {
    if spent.is_of_stream() {
        return reply.map(|body| Body::new(ReplyBody::of_stream(body, spent, write_timeout)));
    }
    if !spent.is_of_read() {
        return reply;
    }
    let examined = reply.extensions().get::<Examined>().map_or(0, |examined| examined.0);
    let (parts, mut body) = reply.into_parts();
    let (first, next) = if body.is_end_stream() { Default::default() } else { first_bytes(&mut body).await };
    let room = spent.read(first.len(), examined, PIECE_BYTES).await;
    Response::from_parts(parts, Body::new(ReplyBody::of_reply(first, room, (next, body), write_timeout)))
}

/// Encodes a reply: its only message is the first frame of its body. Otherwise returns what comes instead.
async fn first_bytes(body: &mut Body) -> (Bytes, Option<Piece>) {
    match std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
        Some(Ok(frame)) => match frame.into_data() {
            Ok(bytes) => (bytes, None),
            Err(frame) => (Bytes::new(), Some(Ok(frame))),
        },
        other => (Bytes::new(), other),
    }
}

/// Wraps services; see the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct BudgetLayer {
    write_timeout: Duration,
}

impl BudgetLayer {
    /// Makes a layer that frees replies of which a client takes nothing for this long.
    pub fn new(write_timeout: Duration) -> Self {
        Self { write_timeout }
    }
}

impl<S> Layer<S> for BudgetLayer {
    type Service = BudgetService<S>;

    fn layer(&self, inner: S) -> BudgetService<S> {
        BudgetService { inner, write_timeout: self.write_timeout }
    }
}

/// A service whose calls have budgets.
#[derive(Clone, Debug)]
pub struct BudgetService<S> {
    inner: S,
    write_timeout: Duration,
}

impl<S, Q> Service<Request<Q>> for BudgetService<S>
where
    S: Service<Request<Q>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        let Some(method) = METHODS.get(request.uri().path()).copied() else {
            return Box::pin(self.inner.call(request));
        };
        let spending = Arc::new(Spending::of(method));
        request.extensions_mut().insert(Arc::clone(&spending));
        let (answer, write_timeout) = (self.inner.call(request), self.write_timeout);
        Box::pin(async move {
            let mut reply = answer.await?;
            if let Some(spent) = spending.take() {
                reply = bound(spent, reply, write_timeout).await;
            }
            if is_refused(&reply)
                && let Some(account) = spending.account()
            {
                sleep(account.refused()).await;
            }
            Ok(reply)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_found_by_the_path_that_clients_call() {
        assert_eq!(METHODS.len(), Method::ALL.len());
        assert_eq!(METHODS.get("/teamwire.v1.MessageService/Send"), Some(&Method::Send));
    }
}
