//! Counts every successful call of a member as a heartbeat.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures::{TryFutureExt as _, future::InspectOk};
use http::{Request, Response};
use teamwire_proto::Method;
use tower::{Layer, Service};

use super::credentials::CredentialsResult;
use crate::{delivery::Heartbeats, domain::identity::CallerCredentials};

/// The methods that renew the caller's lease in their own transaction, or end it.
const NOT_COUNTED: [Method; 4] = [Method::DeleteTeam, Method::Heartbeat, Method::Join, Method::Leave];

/// Wraps services; see the [module](self). Needs the layer of [`credentials`](super::credentials) around it.
#[derive(Clone, Debug)]
pub struct HeartbeatLayer {
    heartbeats: Arc<Heartbeats>,
}

impl HeartbeatLayer {
    /// Makes a layer that records into `heartbeats`.
    pub fn new(heartbeats: Arc<Heartbeats>) -> Self {
        Self { heartbeats }
    }
}

impl<S> Layer<S> for HeartbeatLayer {
    type Service = HeartbeatService<S>;

    fn layer(&self, inner: S) -> HeartbeatService<S> {
        HeartbeatService { inner, heartbeats: Arc::clone(&self.heartbeats) }
    }
}

/// A service whose successful calls are heartbeats.
#[derive(Clone, Debug)]
pub struct HeartbeatService<S> {
    inner: S,
    heartbeats: Arc<Heartbeats>,
}

impl<S, Q, A> Service<Request<Q>> for HeartbeatService<S>
where
    S: Service<Request<Q>, Response = Response<A>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = InspectOk<S::Future, Box<dyn FnOnce(&S::Response) + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let caller = counted_caller(&request);
        let heartbeats = Arc::clone(&self.heartbeats);
        self.inner.call(request).inspect_ok(Box::new(move |answer| {
            if let Some(caller) = caller
                && has_succeeded(answer)
            {
                heartbeats.record_caller(&caller);
            }
        }))
    }
}

fn counted_caller<Q>(request: &Request<Q>) -> Option<Arc<CallerCredentials>> {
    if NOT_COUNTED.iter().any(|method| method.path() == request.uri().path()) {
        return None;
    }
    request.extensions().get::<CredentialsResult>()?.as_ref().ok().cloned()
}

/// Returns whether a call has succeeded, or at least begun to. A refusal has its status in the headers, since it has no body.
fn has_succeeded<A>(answer: &Response<A>) -> bool {
    answer.headers().get("grpc-status").is_none_or(|status| status == "0")
}
