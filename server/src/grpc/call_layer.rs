//! What happens to a call, from its headers to the end of its reply.
//!
//! One layer around all services. Read [`Steps::carry_out`] from top to bottom: each step names the module that knows
//! more.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt as _, TryFutureExt as _};
use http::{Request, Response};
use teamwire_proto::Method;
use tokio::time::sleep;
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::Instrument as _;

use super::{
    audit_entry::{AuditedCall, Ended},
    call::Call,
    carry::Calls,
    meter::Meter,
    reply_body, request_body, request_errors,
};
use crate::{
    delivery::{AuditWriter, Heartbeats},
    edge::auth_gate::GatedCall,
    telemetry::Metrics,
};

/// The bounds of calls.
#[derive(Clone, Copy, Debug)]
pub struct CallBounds {
    /// How many bytes a request may have.
    pub request_bytes_max: usize,
    /// How long a request may take to arrive.
    pub request_timeout: Duration,
    /// A reply of which the client takes nothing for this long is freed.
    pub write_timeout: Duration,
}

/// Wraps services; see the [module](self).
#[derive(Clone, Debug)]
pub struct CallLayer {
    steps: Arc<Steps>,
}

impl CallLayer {
    /// Makes a layer that counts into `metrics`, records calls in `audit`, and successes as heartbeats.
    pub fn new(
        metrics: Arc<Metrics>,
        audit: Arc<AuditWriter>,
        heartbeats: Arc<Heartbeats>,
        bounds: CallBounds,
    ) -> Self {
        Self { steps: Arc::new(Steps { metrics, audit, heartbeats, bounds }) }
    }
}

impl<S> Layer<S> for CallLayer {
    type Service = CallService<S>;

    fn layer(&self, inner: S) -> CallService<S> {
        CallService { inner, steps: Arc::clone(&self.steps) }
    }
}

/// A service whose calls take the steps.
#[derive(Clone, Debug)]
pub struct CallService<S> {
    inner: S,
    steps: Arc<Steps>,
}

impl<S> Service<Request<Body>> for CallService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if request.uri().path() == Method::Carry.path() {
            let this = self.clone();
            let call = move |request| this.clone().call(request).map(|Ok(reply)| reply).boxed();
            request.extensions_mut().insert(Calls(Arc::new(call)));
        }
        // The clone takes over the readiness of the one that was polled.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let steps = Arc::clone(&self.steps);
        let meter = Meter::begin(&request, Arc::clone(&steps.metrics));
        let span = meter.span();
        let carried_out = async move { steps.carry_out(request, inner).await }.instrument(span);
        // Another async block would have room for this one twice.
        Box::pin(carried_out.map_ok(|reply| meter.follow(reply)))
    }
}

/// What the steps of a call need.
#[derive(Debug)]
struct Steps {
    metrics: Arc<Metrics>,
    audit: Arc<AuditWriter>,
    heartbeats: Arc<Heartbeats>,
    bounds: CallBounds,
}

impl Steps {
    /// Carries out a call. Returns its reply once that has begun.
    async fn carry_out<S>(&self, mut request: Request<Body>, mut service: S) -> Result<Response<Body>, S::Error>
    where
        S: Service<Request<Body>, Response = Response<Body>>,
    {
        let CallBounds { request_bytes_max, request_timeout, write_timeout } = self.bounds;
        // Health and reflection have no callers.
        let Some(method) = Method::at(request.uri().path()) else {
            return Ok(request_errors::explain(service.call(request).await?, request_bytes_max));
        };

        // Who calls, as `credentials` reads it, and over which connection.
        let call = Arc::new(Call::new(method, &mut request));
        let _decision = call.gated.as_ref().map(GatedCall::decision);

        // The request is handed on once all of it has arrived and there is room for it. Frames are handed on one by one.
        let mut request = match method {
            Method::Carry => request,
            _ => request.map(|body| request_body::whole(body, &call, request_bytes_max, request_timeout)),
        };
        request.extensions_mut().insert(Arc::clone(&call));

        // From here on, a privileged call gets an entry in the audit log even if its client goes away.
        let mut audited = AuditedCall::begin(&call, &self.audit).await;

        // The handler. Its first step, in `admission`, checks the credential and has the caller's account pay.
        let reply = request_errors::explain(service.call(request).await?, request_bytes_max);

        let ended = Ended::of(&reply);
        if matches!(ended, Ended::Succeeded)
            && !method.settles_lease()
            && let Some(who) = call.who()
        {
            self.heartbeats.record_caller(who);
        }
        audited.end(ended).await;

        // What the reply costs. The answer to a refused call may wait; its entry in the audit log has not.
        let reply = reply_body::charge(&call, reply, write_timeout).await;
        let delay = call.cost.delay_of(&reply);
        if !delay.is_zero() {
            sleep(delay).await;
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use http::header::AUTHORIZATION;
    use teamwire_proto::{credential::Credential, v1};
    use tokio::sync::Notify;
    use tokio_util::sync::CancellationToken;
    use tower::service_fn;

    use super::*;
    use crate::{
        coordinator::Coordinator,
        domain::{
            Limits,
            identity::CallerCredentials,
            secret::{OperatorSecrets, SecretHash},
        },
        store::embedded::EmbeddedStore,
    };

    const OPERATOR: &str = "0123456789abcdef0123456789abcdef";

    #[tokio::test]
    async fn a_privileged_call_whose_client_goes_away_leaves_an_entry() {
        let store = EmbeddedStore::in_memory().unwrap();
        let operator = tokio::sync::watch::channel(OperatorSecrets::from(SecretHash::of(OPERATOR))).1;
        let coordinator = Coordinator::new(store, Limits::default(), operator).await.unwrap();
        let coordinator = Arc::new(coordinator);
        let writer = Arc::new(AuditWriter::new(Arc::clone(&coordinator)));

        let is_reached = Arc::new(Notify::new());
        let reaches = Arc::clone(&is_reached);
        let never_ends = service_fn(move |_: Request<Body>| {
            reaches.notify_one();
            pending::<Result<Response<Body>, Infallible>>()
        });
        let heartbeats = Arc::new(Heartbeats::for_leases_of(Duration::from_secs(60)));
        let second = Duration::from_secs(1);
        let bounds = CallBounds { request_bytes_max: 1_000, request_timeout: second, write_timeout: second };
        let layer = CallLayer::new(Arc::default(), Arc::clone(&writer), heartbeats, bounds);
        let mut service = layer.layer(never_ends);
        for method in [Method::ForceStop, Method::GetTeam] {
            let request = Request::post(method.path()).header(AUTHORIZATION, format!("Bearer two:{OPERATOR}"));
            let call = tokio::spawn(service.call(request.body(Body::empty()).unwrap()));
            is_reached.notified().await;
            call.abort();
            call.await.unwrap_err();
        }

        let stop = CancellationToken::new();
        stop.cancel();
        writer.run(stop).await;
        let operator = CallerCredentials::new(Credential::Operator { secret: OPERATOR.to_owned() }, None);
        let request = v1::ListAuditEntriesRequest::default();
        let listed = coordinator.list_audit_entries(&operator, &request).await.unwrap().records;
        let told: Vec<_> = listed.into_iter().filter_map(|record| record.entry).collect();
        let [entry] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((entry.method.as_str(), entry.outcome.as_str()), ("TeamService/ForceStop", "CANCELLED"));
        assert_eq!(entry.caller.as_ref().map(v1::AuditCaller::kind), Some(v1::AuditCallerKind::Operator));
    }
}
