//! Counts, logs and traces every call, from its headers to the end of its reply.
//!
//! The log line of a call has level DEBUG. It holds the method, code, reason, duration,
//! and the names of the caller and the team; never contents or a credential.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use prost::Message as _;
use teamwire_proto::{Refusal, credential::Credential, trace_parent};
use tonic::{Code, Status, body::Body};
use tracing::Span;

use crate::telemetry::Metrics;

/// The methods that labels distinguish, by path. No other method gets into a label, whatever callers ask for.
static METHODS: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
    let sets = [
        teamwire_proto::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut methods = HashMap::new();
    for set in sets.into_iter().flat_map(prost_types::FileDescriptorSet::decode) {
        for file in set.file {
            for service in &file.service {
                for method in &service.method {
                    let label = format!("{}.{}/{}", file.package(), service.name(), method.name());
                    methods.insert(format!("/{label}"), &*Box::leak(label.into_boxed_str()));
                }
            }
        }
    }
    methods
});

/// The meter of a call. The call ends with its status, or as cancelled if the meter is dropped before.
pub(super) struct Meter {
    metrics: Arc<Metrics>,
    method: &'static str,
    who: Option<String>,
    began: Instant,
    span: Span,
    has_ended: bool,
}

impl Meter {
    /// Begins to meter a call.
    pub(super) fn begin<Q>(request: &Request<Q>, metrics: Arc<Metrics>) -> Self {
        let method = METHODS.get(request.uri().path()).copied().unwrap_or("other");
        let span = tracing::debug_span!(
            "rpc",
            otel.name = method,
            otel.kind = "server",
            rpc.system = "grpc",
            rpc.method = method,
            rpc.code = tracing::field::Empty
        );
        trace_parent::adopt(&span, header(request.headers(), trace_parent::METADATA_KEY));
        let who = tracing::enabled!(tracing::Level::DEBUG).then(|| caller(request.headers()));
        Self { metrics, method, who, began: Instant::now(), span, has_ended: false }
    }

    /// Returns the span of the call.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Meters the call until its reply has ended.
    pub(super) fn follow(mut self, reply: Response<Body>) -> Response<Body> {
        if let Some(status) = Status::from_header_map(reply.headers()) {
            self.end(&status);
        }
        reply.map(|body| Body::new(MeteredBody { body, meter: self }))
    }

    fn end(&mut self, status: &Status) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let (took, code) = (self.began.elapsed(), name_of(status.code()));
        self.metrics.rpc_seconds.get_or_create(&[("method", self.method), ("code", code)]).observe(took.as_secs_f64());
        let refusal = if status.code() == Code::Ok { None } else { Refusal::from_status(status) };
        let reason = refusal.map(|refusal| refusal.reason.as_str());
        if let Some(reason) = reason {
            self.metrics.refusals.get_or_create(&[("reason", reason)]).inc();
        }
        self.span.record("rpc.code", code);
        let (method, who) = (self.method, self.who.as_deref());
        tracing::debug!(method, code, reason, duration_us = u64::try_from(took.as_micros()).ok(), who, "call");
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.end(&Status::cancelled(""));
    }
}

/// The body of a reply; the call ends with it.
struct MeteredBody {
    body: Body,
    meter: Meter,
}

impl http_body::Body for MeteredBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let status = match &frame {
            Some(Ok(frame)) => frame.trailers_ref().and_then(Status::from_header_map),
            Some(Err(_)) => Some(Status::unknown("")),
            None => None,
        };
        if let Some(status) = status {
            self.meter.end(&status);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// Names the caller by its credential, without checking it.
fn caller(headers: &HeaderMap) -> String {
    let token = header(headers, "authorization").split_once(' ').map_or("", |(_, token)| token.trim());
    match Credential::parse(token) {
        Ok(Credential::Member { team, member, .. }) => format!("{member}@{team}"),
        Ok(Credential::Operator { .. }) => "operator".to_owned(),
        Ok(Credential::Console { team: None, .. }) => "operator".to_owned(),
        Ok(other) => other.team().map_or_else(|| "unknown".to_owned(), |team| format!("unknown@{team}")),
        Err(_) => "none".to_owned(),
    }
}

fn name_of(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
