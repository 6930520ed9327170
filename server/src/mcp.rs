//! MCP over HTTP at `/mcp`: who may reach it, and how its requests become calls.
//!
//! This crate knows no tools. It checks the host and the origin of a request as the console does, bounds it, and hands it
//! to a [`Tools`], whose calls come back over a connection within this process. They take the same way as all others, in
//! the name of the connection that the request came over: through admission, budgets and the audit log.

use std::{
    convert::Infallible,
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Either},
};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Limited, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{io::DuplexStream, time::timeout};
use tonic::body::Body;
use tower::{Layer, Service};

use crate::{
    console::Origins,
    edge::auth_gate::{AuthGate, GatedCall},
};

/// Where it is.
const PATH: &str = "/mcp";

/// How many bytes of JSON a byte of a request to the coordinator may take: most texts take little more than one.
const JSON_FACTOR: usize = 2;

/// The tools of all members.
pub trait Tools: fmt::Debug + Send + Sync + 'static {
    /// Checks who sent a request, given its head. Returns what answers it once its body has arrived, or the answer.
    fn admit(&self, head: Request<()>, calls: InProcess) -> BoxFuture<'static, Result<Answering, Box<Answer>>>;
}

/// Answers a request, given its body.
pub type Answering = Box<dyn FnOnce(Bytes) -> BoxFuture<'static, Answer> + Send>;

/// An answer.
pub type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves the calls of a connection within this process.
#[derive(Clone)]
pub struct InProcess(Arc<dyn Fn(DuplexStream) + Send + Sync>);

impl InProcess {
    /// Serves a connection until it ends.
    pub fn serve(&self, connection: DuplexStream) {
        (self.0)(connection);
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

/// What of it is configured.
#[derive(Clone, Debug)]
pub struct Mcp {
    /// The tools.
    pub tools: Arc<dyn Tools>,
    /// See [`Console::hosts`](crate::console::Console::hosts).
    pub hosts: Vec<String>,
    /// Whether programs speak TLS with this coordinator.
    pub is_tls: bool,
    /// The address at which programs on this machine reach it.
    pub address: String,
}

/// The bounds of requests.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many bytes a call may have.
    pub request_bytes_max: usize,
    /// How long a request may take to arrive.
    pub request_timeout: Duration,
}

/// Serves MCP. See the [module](self).
#[derive(Clone, Debug)]
pub struct McpLayer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tools: Arc<dyn Tools>,
    origins: Origins,
    bounds: Bounds,
    has_console: bool,
}

impl McpLayer {
    /// Makes the layer. `has_console`: a layer within answers requests for pages.
    pub fn new(mcp: &Mcp, bounds: Bounds, has_console: bool) -> Self {
        let Mcp { tools, hosts, is_tls, address: _ } = mcp;
        // No page of another origin: none could read an answer.
        let origins = Origins::new(hosts, &[], *is_tls);
        Self { shared: Arc::new(Shared { tools: Arc::clone(tools), origins, bounds, has_console }) }
    }
}

impl<S> Layer<S> for McpLayer {
    type Service = McpService<S>;

    fn layer(&self, inner: S) -> McpService<S> {
        McpService { inner, shared: Arc::clone(&self.shared) }
    }
}

/// A service beside which MCP is served.
#[derive(Clone, Debug)]
pub struct McpService<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Service<Request<Body>> for McpService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() == PATH {
            let (shared, calls) = (Arc::clone(&self.shared), in_process(self.inner.clone(), gate(&request)));
            return Either::Right(async move { Ok(shared.answer(request, calls).await) }.boxed());
        }
        if self.shared.is_for_no_one(&request) {
            return Either::Right(std::future::ready(Ok(not_found())).boxed());
        }
        Either::Left(self.inner.call(request))
    }
}

fn gate<B>(request: &Request<B>) -> Option<Arc<AuthGate>> {
    request.extensions().get::<Arc<AuthGate>>().cloned()
}

/// Serves connections within this process with a service. `gate`: that of the connection whose requests cause the calls.
fn in_process<S>(service: S, gate: Option<Arc<AuthGate>>) -> InProcess
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    InProcess(Arc::new(move |connection| {
        let (service, gate) = (service.clone(), gate.clone());
        let calls = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            if let Some(gate) = &gate {
                request.extensions_mut().insert(Arc::clone(gate));
            }
            tower::ServiceExt::oneshot(service.clone(), request)
        });
        let serving = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(connection), calls);
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::debug!(%error, "a connection within this process has failed");
            }
        });
    }))
}

impl Shared {
    async fn answer(&self, request: Request<Body>, calls: InProcess) -> Response<Body> {
        if let Err(why) = self.origins.check(&request) {
            tracing::debug!(%why, "a request for tools was refused");
            return text(StatusCode::FORBIDDEN, why);
        }
        // The connection is in use until the answer has been made.
        let open = gate(&request).map(GatedCall::new);
        let (head, body) = request.into_parts();
        let mut bare = Request::new(());
        (*bare.method_mut(), *bare.uri_mut(), *bare.headers_mut()) = (head.method, head.uri, head.headers);
        let answering = match self.tools.admit(bare, calls).await {
            Ok(answering) => answering,
            Err(answer) => return answer.map(Body::new),
        };
        let Bounds { request_bytes_max, request_timeout } = self.bounds;
        let bytes_max = request_bytes_max.saturating_mul(JSON_FACTOR);
        // As for calls, the caller's account pays for the memory.
        let length = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(bytes_max);
        let lease = match open.as_ref().and_then(GatedCall::payer) {
            Some(payer) => Some(payer.lease_for_request(length.min(bytes_max)).await),
            None => None,
        };
        if let Some(Err(refusal)) = &lease {
            return text(StatusCode::TOO_MANY_REQUESTS, &refusal.message);
        }
        let body = Limited::new(body, bytes_max).collect();
        match timeout(request_timeout, body).await {
            Ok(Ok(body)) => answering(body.to_bytes()).await.map(Body::new),
            Ok(Err(_)) => text(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large, or was cut off."),
            Err(_) => text(StatusCode::REQUEST_TIMEOUT, "The request took too long to arrive."),
        }
    }

    /// Returns whether nothing here answers a request but gRPC's own error, which is a success for HTTP: a program that
    /// looks for a place to sign in would take it for one.
    fn is_for_no_one<B>(&self, request: &Request<B>) -> bool {
        match *request.method() {
            Method::OPTIONS => false,
            Method::GET | Method::HEAD => !self.has_console,
            _ => !is_call(request.headers()),
        }
    }
}

fn is_call(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|content| content.as_bytes().starts_with(b"application/grpc"))
}

fn not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "There is nothing here. MCP is at /mcp.")
}

fn text(status: StatusCode, line: &str) -> Response<Body> {
    let mut answer = Response::new(Body::new(axum::body::Body::from(format!("{line}\n"))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
