//! Makes a call, and retries it until its outcome is known or the client's patience runs out.

use std::{sync::Arc, time::Duration};

use prost::{Message, bytes::Bytes};
use teamwire_proto::{
    FRAME_BYTES_MAX, Method, Reason, SESSION_METADATA_KEY, method::Effect, reason::Retry, trace_parent, v1,
};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Request, Response, Status, Streaming, transport::Channel};
use tracing::{Instrument as _, Span};

use super::{Client, Session};
use crate::{
    Error,
    retry::{self, Failure, is_refused},
    transport::{FrameStream, Link},
};

/// How long one attempt of a call may take, besides the time that the coordinator is asked to wait.
const ATTEMPT_DEADLINE: Duration = Duration::from_secs(10);

/// An attempt that breaks after this time has waited at a coordinator, if the call is one that waits.
const WAITED_MIN: Duration = Duration::from_secs(1);

/// A call: its name and how it may be repeated.
pub(crate) struct Call {
    name: &'static str,
    /// `None` if it is not one of the protocol's own.
    method: Option<Method>,
    effect: Effect,
    idempotency_key: String,
    attempt_deadline: Duration,
    /// Whether the coordinator is asked to wait before it answers.
    waits: bool,
    /// When the caller stops waiting. `None` means never.
    until: Option<Instant>,
}

impl Call {
    /// Describes a call that is not one of the protocol's own.
    pub(crate) fn new(name: &'static str, effect: Effect) -> Self {
        let idempotency_key = String::new();
        Self {
            name,
            method: None,
            effect,
            idempotency_key,
            attempt_deadline: ATTEMPT_DEADLINE,
            waits: false,
            until: None,
        }
    }

    /// Describes a call by the protocol's options for its RPC.
    pub(crate) fn of(method: Method) -> Self {
        Self { method: Some(method), ..Self::new(method.name(), method.effect()) }
    }

    /// Sets the idempotency key that the request carries.
    pub(crate) fn with_key(self, key: &str) -> Self {
        Self { idempotency_key: key.to_owned(), ..self }
    }

    /// Sets how long the coordinator may wait before it answers.
    pub(crate) fn waiting(self, wait: Duration) -> Self {
        Self { attempt_deadline: wait + ATTEMPT_DEADLINE, waits: !wait.is_zero(), ..self }
    }

    /// Sets when the caller stops waiting: no attempt begins later. Each attempt should ask the coordinator to wait for
    /// no longer than what is left.
    pub(crate) fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    /// Returns how long an attempt that begins now may take.
    fn attempt_deadline(&self) -> Duration {
        self.attempt_deadline.min(time_left(self.until).saturating_add(ATTEMPT_DEADLINE))
    }
}

/// Decodes the reply to a frame.
type Decode<A> = fn(Bytes) -> Result<A, Status>;

fn decode<A: Message + Default>(reply: Bytes) -> Result<A, Status> {
    A::decode(reply).map_err(|error| Status::internal(format!("the reply cannot be decoded: {error}")))
}

/// Returns how much time is left. `until`: `None` means never.
pub(crate) fn time_left(until: Option<Instant>) -> Duration {
    until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()))
}

impl Client {
    /// Makes one call, with the attempts that its effect and the client's patience allow.
    pub(crate) async fn call<Q, A, F>(
        &self,
        call: Call,
        message: Q,
        attempt: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Error>
    where
        Q: Message + Clone,
        A: Message + Default,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.traced(call, message, attempt, Some(decode)).await
    }

    /// Makes one call like [`Self::call`] whose reply is a stream.
    pub(crate) async fn open<Q, A, F>(
        &self,
        call: Call,
        message: Q,
        attempt: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<Streaming<A>, Error>
    where
        Q: Message + Clone,
        F: Future<Output = Result<Response<Streaming<A>>, Status>>,
    {
        self.traced(call, message, attempt, None).await
    }

    async fn traced<Q, A, F>(
        &self,
        call: Call,
        message: Q,
        attempt: impl Fn(Channel, Request<Q>) -> F,
        decode: Option<Decode<A>>,
    ) -> Result<A, Error>
    where
        Q: Message + Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let span = match Span::current().is_none() {
            // The caller is not traced, so its calls are not either.
            true => Span::none(),
            false => tracing::debug_span!("call", otel.name = call.name, otel.kind = "client", rpc.system = "grpc"),
        };
        self.call_with_retries(call, message, attempt, decode).instrument(span).await
    }

    async fn call_with_retries<Q, A, F>(
        &self,
        call: Call,
        message: Q,
        attempt: impl Fn(Channel, Request<Q>) -> F,
        decode: Option<Decode<A>>,
    ) -> Result<A, Error>
    where
        Q: Message + Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        // When the outage began.
        let mut began = Instant::now();
        let mut is_first = true;
        let mut delays = self.retry.delays();
        let (mut may_have_changed, mut has_redialed) = (false, false);
        loop {
            let session = self.session.borrow().clone();
            let tried = Instant::now();
            let (failure, status) = match self.attempt(&call, &message, &session, &attempt, decode).await {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            if failure == Failure::Stale && !has_redialed {
                has_redialed = true;
                continue;
            }
            if call.waits && (is_first || has_waited(&failure, &status, tried.elapsed())) {
                // The time that the coordinator was asked to wait is no failure. Another outage begins.
                began = Instant::now();
                delays.reset();
            }
            is_first = false;
            may_have_changed |= failure.may_have_changed(call.effect);
            if is_superseded(&failure) {
                if self.has_new_session(&session, call.attempt_deadline).await {
                    continue;
                }
                self.end_session(&session);
            }
            let delay = delays.next().max(failure.asks_to_wait());
            let left = self.retry.total.saturating_sub(began.elapsed()).min(time_left(call.until));
            if delay >= left || !failure.is_retried(call.effect, &self.retry) {
                return Err(self.error(call, failure, may_have_changed, status));
            }
            let left = (self.retry.total < Duration::MAX || call.until.is_some()).then_some(left);
            if self.stops_waiting(&status, began.elapsed(), delay, left) {
                return Err(self.error(call, failure, may_have_changed, status));
            }
            tracing::debug!(call = call.name, code = ?status.code(), message = status.message(), ?delay, "retrying");
            sleep(delay).await;
        }
    }

    /// Makes one attempt. An error contains the failure and what it means.
    async fn attempt<Q, A, F>(
        &self,
        call: &Call,
        message: &Q,
        session: &Session,
        attempt: impl Fn(Channel, Request<Q>) -> F,
        decode: Option<Decode<A>>,
    ) -> Result<A, (Failure, Status)>
    where
        Q: Message + Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let link = self.transport.link().await.map_err(|status| (Failure::of(&status), status))?;
        let deadline = call.attempt_deadline();
        let framed = decode.and_then(|decode| Some((decode, self.frame(call, &link, message, session, deadline)?)));
        let answer = match framed {
            Some((decode, (frames, frame))) => timeout(deadline, frames.call(frame)).await.map(|reply| decode(reply?)),
            None => {
                let mut request = self.request(message.clone(), session);
                request.set_timeout(deadline);
                // The request's own deadline bounds only the headers of the reply.
                timeout(deadline, attempt(link.channel(), request)).await.map(|reply| Ok(reply?.into_inner()))
            }
        };
        match answer {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(status)) => Err((self.judge(&link, &status), status)),
            Err(_) => {
                self.transport.leave(&link);
                let detail = format!("no answer within {deadline:?}");
                Err((Failure::Broken, Status::deadline_exceeded(detail)))
            }
        }
    }

    /// Makes a frame of a call, and returns the stream that carries it. `None` if the call must be made alone.
    fn frame(
        &self,
        call: &Call,
        link: &Link,
        message: &impl Message,
        session: &Session,
        deadline: Duration,
    ) -> Option<(Arc<FrameStream>, v1::CallFrame)> {
        let method = call.method.filter(|method| method.travels_in_frames())?;
        if message.encoded_len() > FRAME_BYTES_MAX {
            return None;
        }
        let frames = link.frames(self.authorization.as_ref()?)?;
        let frame = v1::CallFrame {
            sequence: 0,
            method: method.path().to_owned(),
            request: message.encode_to_vec().into(),
            session: session.id.clone(),
            timeout: deadline.try_into().ok(),
            trace_parent: trace_parent::of(&Span::current()).unwrap_or_default(),
        };
        Some((frames, frame))
    }

    /// Adds the credential, the session and the trace to a request.
    pub(crate) fn request<Q>(&self, message: Q, session: &Session) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        if let Ok(id) = session.id.parse()
            && !session.id.is_empty()
        {
            request.metadata_mut().insert(SESSION_METADATA_KEY, id);
        }
        if let Some(trace_parent) = trace_parent::of(&Span::current()).and_then(|text| text.parse().ok()) {
            request.metadata_mut().insert(trace_parent::METADATA_KEY, trace_parent);
        }
        request
    }

    /// Returns whether this client has replaced the session of a refused call with a newer one.
    ///
    /// A subscription that reconnects ends its own earlier session. The coordinator then refuses the calls in flight,
    /// although no other process has taken over.
    async fn has_new_session(&self, refused: &Session, patience: Duration) -> bool {
        let mut sessions = self.session.subscribe();
        let settled = timeout(patience, sessions.wait_for(|now| now.id != refused.id || !now.is_reopening)).await;
        matches!(settled, Ok(Ok(now)) if now.id != refused.id)
    }

    /// Ends the subscription of this session: another process holds the inbox. Its stream may be silent for longer, because
    /// the connection is broken, and must not take the inbox back then.
    fn end_session(&self, refused: &Session) {
        self.session.send_if_modified(|now| {
            // A session that is being reopened may have been superseded by our own next one, of which no answer has come.
            let is_news = now.id == refused.id && !now.is_reopening && !now.is_superseded;
            now.is_superseded |= is_news;
            is_news
        });
    }

    /// Returns the error of a call that is not retried. `may_have_changed`: an attempt may have been carried out.
    pub(crate) fn error(&self, call: Call, failure: Failure, may_have_changed: bool, status: Status) -> Error {
        let address = self.address.to_string();
        let detail = retry::detail(&status);
        let unknown = |detail, reason| Error::OutcomeUnknown {
            call: call.name,
            is_once: call.effect == Effect::Once,
            idempotency_key: call.idempotency_key.clone(),
            detail,
            reason,
        };
        match failure {
            Failure::Refused(refusal) | Failure::NotNow(refusal) if may_have_changed && leaves_open(refusal.reason) => {
                unknown(refusal.message, Some(refusal.reason))
            }
            Failure::Refused(refusal) | Failure::NotNow(refusal) => Error::Refused(refusal),
            _ if may_have_changed => unknown(detail, None),
            Failure::Unexpected => Error::Unexpected { address, status: Box::new(status) },
            Failure::Insecure(detail) => Error::Insecure { address, detail },
            Failure::NotSent | Failure::Stale | Failure::Broken => {
                Error::Unreachable { address, detail, is_refused: is_refused(&status) }
            }
        }
    }
}

/// Returns whether a refusal says nothing about what earlier attempts did. Any other refusal of the same idempotency
/// key shows that none was carried out.
fn leaves_open(reason: Reason) -> bool {
    !reason.is_outcome_known() || reason.retry() == Retry::Automatic
}

/// Returns whether an attempt that failed after this time had reached a coordinator, which waited until the connection
/// broke.
fn has_waited(failure: &Failure, status: &Status, elapsed: Duration) -> bool {
    matches!(failure, Failure::Broken) && status.code() != Code::DeadlineExceeded && elapsed >= WAITED_MIN
}

fn is_superseded(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(refusal) if refusal.reason == Reason::SessionSuperseded)
}
