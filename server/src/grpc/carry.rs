//! `CallService`: calls that travel as frames of one stream.
//!
//! Each frame becomes a request of the stream's connection, and passes through the [layer](super::call_layer) like any
//! other call. A task carries them out, whether or not the client reads their replies, as it is with calls: what one of
//! them holds must never wait for a client.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{StreamExt as _, stream::FuturesUnordered};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE},
    uri::PathAndQuery,
};
use http_body_util::Full;
use prost::Message as _;
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
    time::timeout,
};
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming, body::Body};

use super::{
    credentials,
    frames::{FRAMES_MAX, MESSAGE_BYTES_MAX, Outcome, Progress, Replies, Reply},
    reply_body::PIECE_BYTES,
    request_body::PREFIX,
    services::Services,
};
use crate::{
    budget::Account,
    edge::auth_gate::{AuthGate, GatedCall},
};

/// How many bytes the frames of a stream may take that are under way, or whose replies wait.
const ROOM: usize = 256 * 1024;

/// What a frame takes besides its request.
const FRAME_BYTES: usize = 1024;

/// How many outcomes may wait, so that there is always a place: each answer has room, and there is one end.
const OUTCOMES_MAX: usize = ROOM / FRAME_BYTES + 1;

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
    /// Who pays. `None` in tests.
    account: Option<Arc<Account>>,
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
        // Admission leaves it to the rule of each call whether a member's credential is current.
        self.coordinator.get_caller(&admitted.who).await?;
        let account = admitted.account.clone();
        let gated = admitted.call.gated.as_ref();
        let turn = match gated {
            Some(gated) => Some(gated.carry().await),
            None => None,
        };
        let gate = gated.map(GatedCall::gate);
        let shared = Arc::new(Shared { calls, uri: admitted.call.uri().clone(), headers, gate, account });
        let (outcomes, waiting) = mpsc::channel(OUTCOMES_MAX);
        let progress = Arc::new(Progress::default());
        let replies = Replies::new(waiting, Arc::clone(&progress));
        let (kept, write_timeout) = (Arc::downgrade(&replies), self.pace.write_timeout);
        let carrier = Carrier { shared, progress, outcomes, draining: self.draining.clone() };
        let this = self.clone();
        self.sessions.spawn(async move {
            let stalled = carrier.progress.stalled(write_timeout);
            let carried = async {
                let carried = async { Ok(carrier.carry(frames).await) };
                let ended = this.while_signed_in(&admitted.who, carried).await;
                carrier.put(Outcome::Ended(ended.unwrap_or_else(|refusal| Err(refusal.into()))));
                // Until all replies are taken, they take room, and the stream has its turn.
                carrier.outcomes.closed().await;
            };
            tokio::select! {
                () = carried => {}
                // The client is gone, as are its calls.
                () = carrier.outcomes.closed() => {}
                () = stalled => {
                    if let Some(replies) = kept.upgrade() {
                        replies.clear();
                    }
                    let text = "The client read no reply for too long. Read replies as they arrive.";
                    carrier.put(Outcome::Ended(Err(Refusal::new(Reason::SlowConsumer, text).into())));
                }
            }
            drop(turn);
        });
        Ok(tonic::Response::new(Box::pin(replies.messages())))
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
    progress: Arc<Progress>,
    outcomes: mpsc::Sender<Outcome>,
    draining: CancellationToken,
}

impl Carrier {
    /// Hands an outcome to the stream.
    fn put(&self, outcome: Outcome) {
        self.progress.put.fetch_add(1, Ordering::Relaxed);
        // There is a place for each, unless the client is gone.
        let _ = self.outcomes.try_send(outcome);
    }

    /// Carries out frames until the client has sent its last one or the coordinator shuts down, and answers all that it
    /// took.
    async fn carry(&self, mut messages: Streaming<v1::CarryRequest>) -> Result<(), Status> {
        let room = Arc::new(Semaphore::new(ROOM));
        let mut under_way = FuturesUnordered::new();
        // What has arrived in one message, and has no room yet.
        let mut frames = VecDeque::new();
        // How taking messages ended.
        let mut ended = None;
        loop {
            while let Some(frame) = frames.pop_front() {
                let Ok(room) = Arc::clone(&room).try_acquire_many_owned(room_of(&frame)) else {
                    frames.push_front(frame);
                    break;
                };
                under_way.push(Arc::clone(&self.shared).carry_out(frame, room));
            }
            if under_way.is_empty()
                && frames.is_empty()
                && let Some(ended) = ended
            {
                return ended;
            }
            let next_room = frames.front().map_or(0, room_of);
            tokio::select! {
                biased;
                Some(reply) = under_way.next() => self.put(Outcome::Reply(Box::new(reply))),
                () = self.draining.cancelled(), if ended.is_none() => {
                    ended = Some(Ok(()));
                    frames.clear();
                }
                // Replies that wait have room until the client takes them.
                permit = room.acquire_many(next_room), if next_room > 0 => drop(permit),
                message = messages.message(), if ended.is_none() && next_room == 0 => match message {
                    Ok(Some(message)) if message.calls.len() > FRAMES_MAX => {
                        let text = format!("A message has at most {FRAMES_MAX} frames. Send further ones in the next one.");
                        ended = Some(Err(Refusal::new(Reason::InvalidField, text).field("calls").into()));
                    }
                    Ok(Some(message)) => frames = message.calls.into(),
                    Ok(None) => ended = Some(Ok(())),
                    Err(status) => ended = Some(Err(explain(status))),
                },
            }
        }
    }
}

/// Returns whether a call only reads.
fn reads(frame: &v1::CallFrame) -> bool {
    Method::at(&frame.method).is_none_or(|method| method.effect() == Effect::Read)
}

/// Returns how much room a frame takes. As many bytes of a reply to one that reads may wait without a lease.
fn room_of(frame: &v1::CallFrame) -> u32 {
    u32::try_from(frame.encoded_len() + if reads(frame) { PIECE_BYTES } else { FRAME_BYTES }).unwrap_or(u32::MAX)
}

/// Says why a message could not be read.
fn explain(status: Status) -> Status {
    match status.code() {
        Code::OutOfRange => too_large("The message", MESSAGE_BYTES_MAX, "Put fewer frames into one").into(),
        _ => status,
    }
}

fn too_large(what: &str, bytes_max: usize, advice: &str) -> Refusal {
    Refusal::new(Reason::ContentTooLarge, format!("{what} has more than {bytes_max} bytes. {advice}."))
        .with("request_bytes_max", bytes_max.to_string())
}

impl Shared {
    /// Carries out one frame.
    async fn carry_out(self: Arc<Self>, frame: v1::CallFrame, room: OwnedSemaphorePermit) -> Reply {
        let (sequence, reads) = (frame.sequence, reads(&frame));
        let limit = frame.timeout.and_then(duration::from_proto);
        let response = match self.request(frame) {
            Err(status) => status.into_http(),
            Ok(request) => match limit {
                None => (self.calls.0)(request).await,
                Some(limit) => timeout(limit, (self.calls.0)(request)).await.unwrap_or_else(|_| {
                    Status::deadline_exceeded(format!("The call was not over after {limit:?}.")).into_http()
                }),
            },
        };
        let mut reply = Reply::new(sequence, response, room);
        let bytes = reply.begin();
        // The reply to a call that reads has a lease already.
        if bytes > PIECE_BYTES
            && !reads
            && let Some(account) = &self.account
        {
            reply.lease = Some(account.lease(bytes).await);
        }
        reply
    }

    /// Makes a request of a frame.
    fn request(&self, frame: v1::CallFrame) -> Result<Request<Body>, Status> {
        let Some(method) = Method::at(&frame.method).filter(|method| method.travels_in_frames()) else {
            return Err(Status::unimplemented("No such call travels in a frame."));
        };
        if frame.request.len() > FRAME_BYTES_MAX {
            return Err(too_large("The request of the frame", FRAME_BYTES_MAX, "Make the call alone").into());
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
        let shared =
            Arc::new(Shared { calls: Calls(calls), uri, headers: HeaderMap::new(), gate: None, account: None });
        let room = Arc::new(Semaphore::new(1));
        let frame = v1::CallFrame {
            sequence: 7,
            method: Method::Send.path().to_owned(),
            timeout: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
            ..Default::default()
        };
        let mut answer = shared.carry_out(frame, Arc::clone(&room).acquire_owned().await.unwrap()).await;
        let reply = answer.next().await;
        assert_eq!((reply.sequence, reply.status.unwrap().code), (7, Code::DeadlineExceeded.into()));
        assert_eq!(room.available_permits(), 0, "the reply takes room until it is read");
        drop(answer);
        assert_eq!(room.available_permits(), 1);
    }
}
