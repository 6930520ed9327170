//! `CallService`: calls that travel as frames of one stream.
//!
//! Each frame becomes a request of the stream's connection, and passes through the [layer](super::call_layer) like any
//! other call. A task carries them out, whether or not the client reads their replies, as it is with calls: what one of
//! them holds must never wait for a client.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{StreamExt as _, stream, stream::FuturesUnordered};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE},
    uri::PathAndQuery,
};
use http_body::{Body as _, Frame};
use http_body_util::Full;
use parking_lot::Mutex;
use teamwire_proto::{
    FRAME_BYTES_MAX, Method, Reason, Refusal, SESSION_METADATA_KEY,
    credential::Credential,
    duration,
    method::Effect,
    trace_parent,
    v1::{self, call_service_server::CallService},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep, timeout},
};
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming, body::Body};

use super::{credentials, services::Services};
use crate::edge::auth_gate::{AuthGate, GatedCall};

/// How many bytes the frames of a stream may take that are under way, or whose replies wait.
const ROOM: usize = 256 * 1024;

/// What a frame takes besides its request.
const FRAME_BYTES: usize = 1024;

/// What a frame that reads takes besides its request: as many bytes of a reply may wait without a lease.
const READ_BYTES: usize = 8 * 1024;

/// How many outcomes may wait, so that there is always a place: each answer has room, and there is one end.
const OUTCOMES_MAX: usize = ROOM / FRAME_BYTES + 1;

/// The most that a frame takes.
const RESERVE: u32 = (FRAME_BYTES_MAX + READ_BYTES) as u32;

/// How many bytes of a request or a reply come before its message.
const PREFIX: usize = 5;

/// Makes a call.
type MakeCall = dyn Fn(Request<Body>) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> + Send + Sync;

/// The coordinator's services within their layer. The layer puts it into the extensions of each request that has frames.
#[derive(Clone)]
pub(super) struct Calls(pub(super) Arc<MakeCall>);

/// What the calls of a stream have in common.
struct Shared {
    calls: Calls,
    uri: Uri,
    headers: HeaderMap,
    gate: Option<Arc<AuthGate>>,
}

/// A reply that waits for the client, and its room.
struct Answer {
    sequence: u64,
    reply: Response<Body>,
    room: OwnedSemaphorePermit,
}

/// What the task hands to the stream.
enum Outcome {
    Answer(Answer),
    /// All frames that were taken are answered, or the stream has failed.
    Ended(Result<(), Status>),
}

#[tonic::async_trait]
impl CallService for Services {
    type CarryStream = Pin<Box<dyn Stream<Item = Result<v1::CarryResponse, Status>> + Send>>;

    async fn carry(
        &self,
        mut request: tonic::Request<Streaming<v1::CarryRequest>>,
    ) -> Result<tonic::Response<Self::CarryStream>, Status> {
        let calls = request.extensions_mut().remove::<Calls>().ok_or_else(credentials::missing)?;
        let headers = common_headers(request.metadata().as_ref());
        let (admitted, frames) = self.admit(request).await?;
        if matches!(admitted.who.credential, Credential::Join { .. } | Credential::SignInCode { .. }) {
            return Err(Refusal::new(
                Reason::NotPermitted,
                "A join token or a sign-in code is exchanged with one call. Make that call without a stream.",
            )
            .into());
        }
        let gated = admitted.call.gated.as_ref();
        let turn = match gated {
            Some(gated) => Some(gated.carry().await),
            None => None,
        };
        let shared = Shared { calls, uri: admitted.call.uri().clone(), headers, gate: gated.map(GatedCall::gate) };
        let (outcomes, waiting) = mpsc::channel(OUTCOMES_MAX);
        let replies = Arc::new(Replies { waiting: Mutex::new(waiting), taken: AtomicU64::new(0) });
        let carrier = Carrier {
            shared: Arc::new(shared),
            replies: Arc::clone(&replies),
            outcomes,
            write_timeout: self.pace.write_timeout,
            draining: self.draining.clone(),
        };
        let this = self.clone();
        self.sessions.spawn(async move {
            let carried = async { Ok(carrier.carry(frames).await) };
            let ended = this.while_signed_in(&admitted.who, carried).await;
            let _ = carrier.outcomes.try_send(Outcome::Ended(ended.unwrap_or_else(|refusal| Err(refusal.into()))));
            drop(turn);
        });
        Ok(tonic::Response::new(Box::pin(replies.frames())))
    }
}

/// Returns the headers that every call of a stream has.
fn common_headers(headers: &HeaderMap) -> HeaderMap {
    let mut common = HeaderMap::new();
    for name in [AUTHORIZATION, HeaderName::from_static("x-forwarded-proto")] {
        for value in headers.get_all(&name) {
            common.append(name.clone(), value.clone());
        }
    }
    common.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    common
}

/// Carries out the frames of a stream.
struct Carrier {
    shared: Arc<Shared>,
    replies: Arc<Replies>,
    outcomes: mpsc::Sender<Outcome>,
    write_timeout: Duration,
    draining: CancellationToken,
}

impl Carrier {
    /// Carries out frames until the client has sent its last one or the coordinator shuts down, and answers all that it
    /// took. Fails if the client takes no replies.
    async fn carry(&self, mut frames: Streaming<v1::CarryRequest>) -> Result<(), Status> {
        let room = Arc::new(Semaphore::new(ROOM));
        let mut under_way = FuturesUnordered::new();
        // Room for any frame.
        let mut reserved: Option<OwnedSemaphorePermit> = None;
        // How taking frames ended.
        let mut ended = None;
        let mut answered = 0;
        let mut check = pin!(sleep(self.write_timeout));
        // How many replies the client had taken at the last check. `None` if none waited then.
        let mut seen = None;
        loop {
            if under_way.is_empty()
                && let Some(ended) = ended
            {
                return ended;
            }
            tokio::select! {
                biased;
                Some(answer) = under_way.next() => {
                    answered += 1;
                    let _ = self.outcomes.try_send(Outcome::Answer(answer));
                }
                () = self.draining.cancelled(), if ended.is_none() => ended = Some(Ok(())),
                Ok(permit) = Arc::clone(&room).acquire_many_owned(RESERVE), if ended.is_none() && reserved.is_none() => {
                    reserved = Some(permit);
                }
                next = frames.message(), if ended.is_none() && reserved.is_some() => match (next, reserved.take()) {
                    (Ok(Some(frame)), Some(mut room)) => {
                        drop(room.split(room.num_permits().saturating_sub(room_of(&frame))));
                        under_way.push(Arc::clone(&self.shared).carry_out(frame, room));
                    }
                    (Err(status), _) => ended = Some(Err(explain(status))),
                    _ => ended = Some(Ok(())),
                },
                () = &mut check => {
                    let taken = self.replies.taken.load(Ordering::Relaxed);
                    let waits = (taken < answered).then_some(taken);
                    if waits.is_some() && seen == waits {
                        self.replies.clear();
                        let text = "The client read no reply for too long. Read replies as they arrive.";
                        return Err(Refusal::new(Reason::SlowConsumer, text).into());
                    }
                    seen = waits;
                    check.as_mut().reset(Instant::now() + self.write_timeout);
                }
            }
        }
    }
}

/// Returns how much room a frame takes.
fn room_of(frame: &v1::CarryRequest) -> usize {
    let reads = Method::at(&frame.method).is_none_or(|method| method.effect() == Effect::Read);
    frame.request.len() + if reads { READ_BYTES } else { FRAME_BYTES }
}

/// Says why a frame could not be read.
fn explain(status: Status) -> Status {
    match status.code() {
        Code::OutOfRange => too_large().into(),
        _ => status,
    }
}

fn too_large() -> Refusal {
    let text = format!("The request has more than {FRAME_BYTES_MAX} bytes, too many for a frame. Make the call alone.");
    Refusal::new(Reason::ContentTooLarge, text).with("request_bytes_max", FRAME_BYTES_MAX.to_string())
}

impl Shared {
    /// Carries out one frame.
    async fn carry_out(self: Arc<Self>, frame: v1::CarryRequest, room: OwnedSemaphorePermit) -> Answer {
        let sequence = frame.sequence;
        let limit = frame.timeout.and_then(duration::from_proto);
        let reply = match self.request(frame) {
            Err(status) => status.into_http(),
            Ok(request) => match limit {
                None => (self.calls.0)(request).await,
                Some(limit) => timeout(limit, (self.calls.0)(request)).await.unwrap_or_else(|_| {
                    Status::deadline_exceeded(format!("The call was not over after {limit:?}.")).into_http()
                }),
            },
        };
        Answer { sequence, reply, room }
    }

    /// Makes a request of a frame.
    fn request(&self, frame: v1::CarryRequest) -> Result<Request<Body>, Status> {
        let Some(method) = Method::at(&frame.method).filter(|method| method.travels_in_frames()) else {
            return Err(Status::unimplemented("No such call travels in a frame."));
        };
        if frame.request.len() > FRAME_BYTES_MAX {
            return Err(too_large().into());
        }
        let mut message = BytesMut::with_capacity(PREFIX + frame.request.len());
        message.put_u8(0);
        message.put_u32(u32::try_from(frame.request.len()).unwrap_or(u32::MAX));
        message.put(frame.request);

        let mut request = Request::new(Body::new(Full::new(message.freeze())));
        *request.method_mut() = http::Method::POST;
        *request.headers_mut() = self.headers.clone();
        for (name, text) in [(SESSION_METADATA_KEY, frame.session), (trace_parent::METADATA_KEY, frame.trace_parent)] {
            if !text.is_empty() {
                let value = HeaderValue::from_maybe_shared(Bytes::from(text)).map_err(|_| {
                    Refusal::new(Reason::InvalidField, "The session and the trace of a frame are ASCII texts.")
                })?;
                request.headers_mut().insert(name, value);
            }
        }
        let mut uri = self.uri.clone().into_parts();
        uri.path_and_query = Some(PathAndQuery::from_static(method.path()));
        *request.uri_mut() = Uri::from_parts(uri).map_err(|error| Status::internal(error.to_string()))?;
        if let Some(gate) = &self.gate {
            request.extensions_mut().insert(Arc::clone(gate));
        }
        Ok(request)
    }
}

/// The replies of a stream.
struct Replies {
    waiting: Mutex<mpsc::Receiver<Outcome>>,
    /// How many the client has taken.
    taken: AtomicU64,
}

impl Replies {
    /// Takes the next outcome. `None` if the task has ended without any.
    async fn take(&self) -> Option<Outcome> {
        let outcome = poll_fn(|context| self.waiting.lock().poll_recv(context)).await;
        self.taken.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    /// Frees those that wait.
    fn clear(&self) {
        let next = || self.waiting.lock().try_recv();
        while next().is_ok() {}
    }

    /// Returns their frames.
    fn frames(self: Arc<Self>) -> impl Stream<Item = Result<v1::CarryResponse, Status>> {
        stream::unfold((self, None::<ReplyFrames>), |(replies, mut reading)| async move {
            let mut of = match reading.take() {
                Some(of) => of,
                None => match replies.take().await {
                    Some(Outcome::Answer(answer)) => ReplyFrames::of(answer),
                    Some(Outcome::Ended(Ok(()))) => return None,
                    Some(Outcome::Ended(Err(status))) => return Some((Err(status), (replies, None))),
                    None => {
                        let status = Status::unavailable("The coordinator gave up the stream.");
                        return Some((Err(status), (replies, None)));
                    }
                },
            };
            let frame = of.next().await;
            let rest = frame.status.is_none().then_some(of);
            Some((Ok(frame), (replies, rest)))
        })
    }
}

/// A reply that the client reads.
struct ReplyFrames {
    sequence: u64,
    reply: Response<Body>,
    /// What comes next, if it is not the last part.
    part: Option<Bytes>,
    _room: OwnedSemaphorePermit,
}

impl ReplyFrames {
    fn of(answer: Answer) -> Self {
        Self { sequence: answer.sequence, reply: answer.reply, part: None, _room: answer.room }
    }

    /// Returns the next frame. The last one has a status.
    async fn next(&mut self) -> v1::CarryResponse {
        let sequence = self.sequence;
        let mut status = Status::from_header_map(self.reply.headers());
        while status.is_none() {
            let frame = poll_fn(|context| Pin::new(self.reply.body_mut()).poll_frame(context)).await;
            status = match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(mut data))) => {
                    match self.part.take() {
                        // The first part comes after the prefix of the message.
                        None => self.part = Some(data.split_off(PREFIX.min(data.len()))),
                        Some(part) => {
                            self.part = Some(data);
                            return v1::CarryResponse { sequence, reply: part, status: None };
                        }
                    }
                    None
                }
                Some(Ok(Err(frame))) => frame.trailers_ref().and_then(Status::from_header_map),
                Some(Err(status)) => Some(status),
                None => Some(Status::unknown("The reply has no status.")),
            };
        }
        let status = status.map(|status| v1::CallStatus {
            code: status.code().into(),
            message: status.message().to_owned(),
            details: Bytes::copy_from_slice(status.details()),
        });
        v1::CarryResponse { sequence, reply: self.part.take().unwrap_or_default(), status }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_frame_whose_time_is_over_is_given_up_and_answered() {
        let calls: Arc<MakeCall> = Arc::new(|request: Request<Body>| {
            assert_eq!(request.uri(), "http://coordinator:7420/teamwire.v1.MessageService/Send");
            Box::pin(pending())
        });
        let uri = Uri::from_static("http://coordinator:7420/teamwire.v1.CallService/Carry");
        let shared = Arc::new(Shared { calls: Calls(calls), uri, headers: HeaderMap::new(), gate: None });
        let room = Arc::new(Semaphore::new(1));
        let frame = v1::CarryRequest {
            sequence: 7,
            method: Method::Send.path().to_owned(),
            timeout: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
            ..Default::default()
        };
        let answer = shared.carry_out(frame, Arc::clone(&room).acquire_owned().await.unwrap()).await;
        let mut frames = ReplyFrames::of(answer);
        let reply = frames.next().await;
        assert_eq!((reply.sequence, reply.status.unwrap().code), (7, Code::DeadlineExceeded.into()));
        assert_eq!(room.available_permits(), 0, "the reply takes room until it is read");
        drop(frames);
        assert_eq!(room.available_permits(), 1);
    }
}
