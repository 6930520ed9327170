//! Calls that travel as frames of one stream, which costs both sides a fraction.
//!
//! A connection opens the stream once it has carried a few calls, so that a command never does. The stream has one
//! credential; calls with another one, and those that are too large, are made alone. When the stream has carried
//! nothing for a while, it is closed, and the next calls are counted again.

use std::{
    collections::HashMap,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::stream;
use parking_lot::Mutex;
use prost::bytes::{Bytes, BytesMut};
use teamwire_proto::{
    Reason, Refusal,
    v1::{self, call_service_client::CallServiceClient},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval, timeout},
};
use tonic::{
    Code, Request, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

/// How many calls a connection makes alone after it could not open a stream.
const CALLS_AFTER_FAILURE: u32 = 1_000;

/// How many frames wait for the connection at most.
const QUEUE: usize = 64;

/// A message gets no further frame once it has this many bytes of requests, so that it has fewer than 64 KiB.
const MESSAGE_BYTES: usize = 16 * 1024;

/// How long a coordinator may take to open a stream.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);

/// How often a stream is checked: it is closed if nothing has happened since the last time.
const CHECK: Duration = Duration::from_secs(15);

/// What a client presents: its credential.
pub(crate) type Authorization = MetadataValue<Ascii>;

/// The stream of a connection, if it has one.
#[derive(Debug)]
pub(crate) struct Frames {
    state: Mutex<State>,
    /// How many calls the connection makes alone at first.
    calls_before: u32,
}

#[derive(Debug)]
enum State {
    /// There is none until this many calls were made.
    None(u32),
    Opening,
    Open(Arc<FrameStream>),
    /// The coordinator has no such streams.
    Unknown,
}

/// An open stream.
#[derive(Debug)]
pub(crate) struct FrameStream {
    authorization: Authorization,
    frames: mpsc::Sender<v1::CallFrame>,
    calls: Arc<Mutex<Calls>>,
}

/// The calls of a stream that wait for their replies.
#[derive(Debug, Default)]
struct Calls {
    waiting: HashMap<u64, Waiting>,
    /// The sequence of the last one.
    sequence: u64,
    /// The stream has ended.
    has_ended: bool,
}

#[derive(Debug)]
struct Waiting {
    /// What has arrived of a reply that comes in several parts.
    parts: BytesMut,
    reply: oneshot::Sender<Result<Bytes, Status>>,
}

impl Frames {
    pub(super) fn new(calls_before: u32) -> Self {
        Self { state: Mutex::new(State::None(calls_before)), calls_before }
    }

    /// Returns the stream that carries a call with a credential. `None` if the call must be made alone; it is counted.
    pub(super) fn stream(
        self: &Arc<Self>,
        channel: &Channel,
        authorization: &Authorization,
    ) -> Option<Arc<FrameStream>> {
        let mut state = self.state.lock();
        match &mut *state {
            State::Open(stream) if stream.authorization == *authorization => return Some(Arc::clone(stream)),
            State::None(0) => {
                *state = State::Opening;
                tokio::spawn(Arc::clone(self).open(channel.clone(), authorization.clone()));
            }
            State::None(left) if *left < u32::MAX => *left -= 1,
            State::None(_) | State::Opening | State::Open(_) | State::Unknown => {}
        }
        None
    }

    /// Opens the stream, and reads from it until it ends.
    async fn open(self: Arc<Self>, channel: Channel, authorization: Authorization) {
        let (frames, mut queue) = mpsc::channel(QUEUE);
        let mut request = Request::new(stream::poll_fn(move |context| poll_message(&mut queue, context)));
        request.metadata_mut().insert("authorization", authorization.clone());
        let mut client = CallServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let replies = match timeout(OPEN_DEADLINE, client.carry(request)).await {
            Ok(Ok(response)) => response.into_inner(),
            failed => {
                let is_unknown = matches!(failed, Ok(Err(status)) if status.code() == Code::Unimplemented);
                self.becomes(if is_unknown { State::Unknown } else { State::None(CALLS_AFTER_FAILURE) });
                return;
            }
        };
        drop(client);
        let calls = Arc::default();
        self.becomes(State::Open(Arc::new(FrameStream { authorization, frames, calls: Arc::clone(&calls) })));
        // The stream ends when its connection is dropped, so this task must not keep it.
        let this = Arc::downgrade(&self);
        drop(self);
        let close = || {
            if let Some(this) = this.upgrade() {
                this.close(&calls);
            }
        };
        let status = read(replies, &calls, close).await;
        calls.lock().end(&status);
        close();
    }

    fn becomes(&self, state: State) {
        *self.state.lock() = state;
    }

    /// Has no further call use the stream with these calls. The connection may have opened another one since.
    fn close(&self, calls: &Arc<Mutex<Calls>>) {
        let mut state = self.state.lock();
        if matches!(&*state, State::Open(stream) if Arc::ptr_eq(&stream.calls, calls)) {
            *state = State::None(self.calls_before);
        }
    }
}

/// The outcome of a call whose frame was not taken.
fn not_taken() -> Status {
    Refusal::new(Reason::Draining, "The coordinator has closed the stream of calls.").into()
}

/// The outcome of a call without a reply on a stream that failed. Why the stream failed says nothing about the call.
fn unknown(status: Status) -> Status {
    match Refusal::from_status(&status) {
        Some(refusal) => Status::unavailable(refusal.message),
        None => status,
    }
}

/// Takes the frames that wait, as one message. `None` once the stream is closed.
fn poll_message(
    queue: &mut mpsc::Receiver<v1::CallFrame>,
    context: &mut Context<'_>,
) -> Poll<Option<v1::CarryRequest>> {
    let Some(first) = ready!(queue.poll_recv(context)) else { return Poll::Ready(None) };
    let (mut bytes, mut calls) = (first.request.len(), vec![first]);
    while bytes < MESSAGE_BYTES
        && calls.len() < QUEUE
        && let Ok(frame) = queue.try_recv()
    {
        bytes += frame.request.len();
        calls.push(frame);
    }
    Poll::Ready(Some(v1::CarryRequest { calls }))
}

/// Reads replies until the stream ends. Has it closed once it is no longer used. Returns what that means for calls
/// without a reply.
async fn read(mut replies: Streaming<v1::CarryResponse>, calls: &Mutex<Calls>, close: impl Fn()) -> Status {
    let mut checks = interval(CHECK);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The sequence of the last call at the last check.
    let mut seen = None;
    loop {
        tokio::select! {
            biased;
            reply = replies.message() => match reply {
                Ok(Some(message)) => {
                    let mut calls = calls.lock();
                    message.replies.into_iter().for_each(|frame| calls.reply(frame));
                }
                // It has answered every frame that it took.
                Ok(None) => return not_taken(),
                Err(status) => return unknown(status),
            },
            _ = checks.tick() => {
                let now = { let calls = calls.lock(); calls.waiting.is_empty().then_some(calls.sequence) };
                if now.is_some() && seen == now {
                    close();
                }
                seen = now;
            }
        }
    }
}

impl Calls {
    fn reply(&mut self, frame: v1::ReplyFrame) {
        let Some(status) = frame.status else {
            if let Some(waiting) = self.waiting.get_mut(&frame.sequence) {
                waiting.parts.extend_from_slice(&frame.reply);
            }
            return;
        };
        // A call that no one waits for has been given up.
        let Some(Waiting { mut parts, reply }) = self.waiting.remove(&frame.sequence) else { return };
        let result = match Code::from(status.code) {
            Code::Ok if parts.is_empty() => Ok(frame.reply),
            Code::Ok => {
                parts.extend_from_slice(&frame.reply);
                Ok(parts.freeze())
            }
            code => Err(Status::with_details(code, status.message, status.details)),
        };
        let _ = reply.send(result);
    }

    fn end(&mut self, status: &Status) {
        for (_, waiting) in self.waiting.drain() {
            let _ = waiting.reply.send(Err(status.clone()));
        }
        self.has_ended = true;
    }
}

/// Forgets a call that was given up.
struct Given<'a> {
    calls: &'a Mutex<Calls>,
    sequence: u64,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        self.calls.lock().waiting.remove(&self.sequence);
    }
}

impl FrameStream {
    /// Makes a call. Its frame gets a sequence.
    pub(crate) async fn call(&self, mut frame: v1::CallFrame) -> Result<Bytes, Status> {
        let (reply, replied) = oneshot::channel();
        let given = {
            let mut calls = self.calls.lock();
            if calls.has_ended {
                return Err(not_taken());
            }
            calls.sequence += 1;
            frame.sequence = calls.sequence;
            calls.waiting.insert(frame.sequence, Waiting { parts: BytesMut::new(), reply });
            Given { calls: &self.calls, sequence: frame.sequence }
        };
        if self.frames.send(frame).await.is_err() {
            return Err(not_taken());
        }
        let replied = replied.await;
        drop(given);
        replied.unwrap_or_else(|_| Err(Status::unavailable("the stream of calls has ended")))
    }
}
