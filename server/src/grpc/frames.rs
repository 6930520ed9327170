//! The replies of a stream of frames: they wait for the client, which reads them in as few messages as possible.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt as _, stream};
use http::Response;
use http_body::{Body as _, Frame};
use parking_lot::Mutex;
use teamwire_proto::v1;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::sleep,
};
use tokio_stream::Stream;
use tonic::{Status, body::Body};

use super::request_body::PREFIX;
use crate::budget::ByteLease;

/// How many bytes a message with frames may have.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// A message gets no further reply once it has this many bytes of replies.
const REPLY_BYTES: usize = 16 * 1024;

/// How many frames a message has at most.
pub(super) const FRAMES_MAX: usize = 64;

/// What the task hands to the stream.
pub(super) enum Outcome {
    Reply(Box<Reply>),
    /// All frames that were taken are answered, or the stream has failed.
    Ended(Result<(), Status>),
}

/// How far a client has read.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// How many outcomes there were so far.
    pub(super) put: AtomicU64,
    /// How many of them the client has taken.
    taken: AtomicU64,
    /// How many frames it has taken.
    frames: AtomicU64,
}

impl Progress {
    /// Returns once outcomes have waited for this long, and the client has taken no frame.
    pub(super) async fn stalled(&self, write_timeout: Duration) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut seen = None;
        loop {
            sleep(write_timeout).await;
            let waits = (load(&self.taken) < load(&self.put)).then(|| load(&self.frames));
            if waits.is_some() && seen == waits {
                return;
            }
            seen = waits;
        }
    }
}

/// The replies of a stream.
pub(super) struct Replies {
    waiting: Mutex<mpsc::Receiver<Outcome>>,
    progress: Arc<Progress>,
}

impl Replies {
    /// Makes the replies that come out of a queue.
    pub(super) fn new(waiting: mpsc::Receiver<Outcome>, progress: Arc<Progress>) -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::new(waiting), progress })
    }

    /// Takes the next outcome. `None` if the task has ended without any.
    async fn take(&self) -> Option<Outcome> {
        let outcome = poll_fn(|context| self.waiting.lock().poll_recv(context)).await;
        self.progress.taken.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    /// Frees those that wait.
    pub(super) fn clear(&self) {
        let next = || self.waiting.lock().try_recv();
        while next().is_ok() {}
    }

    /// Returns what the client reads.
    pub(super) fn messages(self: Arc<Self>) -> impl Stream<Item = Result<v1::CarryResponse, Status>> {
        stream::unfold(Reading { replies: self, current: None, ended: None }, |mut reading| async move {
            Some((reading.next().await?, reading))
        })
    }
}

/// What the client reads of the replies of a stream.
struct Reading {
    replies: Arc<Replies>,
    /// The reply of which it has read a part.
    current: Option<Box<Reply>>,
    /// How the stream ends, after what is left of the current message.
    ended: Option<Result<(), Status>>,
}

impl Reading {
    /// Waits for the next frames, and returns those that are ready in one message. `None` after the last one.
    async fn next(&mut self) -> Option<Result<v1::CarryResponse, Status>> {
        let (mut replies, mut bytes) = (Vec::new(), 0);
        while bytes < REPLY_BYTES && replies.len() < FRAMES_MAX && self.ended.is_none() {
            let current = match self.current.take() {
                Some(current) => Some(Outcome::Reply(current)),
                None if replies.is_empty() => self.replies.take().await,
                None => match self.replies.take().now_or_never() {
                    Some(outcome) => outcome,
                    None => break,
                },
            };
            match current {
                Some(Outcome::Reply(mut reply)) => {
                    let frame = reply.next().await;
                    self.replies.progress.frames.fetch_add(1, Ordering::Relaxed);
                    bytes += frame.reply.len();
                    self.current = frame.status.is_none().then_some(reply);
                    replies.push(frame);
                }
                Some(Outcome::Ended(ended)) => self.ended = Some(ended),
                None => self.ended = Some(Err(Status::unavailable("The coordinator gave up the stream."))),
            }
        }
        if !replies.is_empty() {
            return Some(Ok(v1::CarryResponse { replies }));
        }
        // After an error, the stream is not read again.
        self.ended.clone().and_then(Result::err).map(Err)
    }
}

/// A reply that waits for the client, or of which it has read a part.
pub(super) struct Reply {
    sequence: u64,
    response: Response<Body>,
    /// What comes next, if it is not the last part.
    part: Option<Bytes>,
    /// Memory for a long reply.
    pub(super) lease: Option<ByteLease>,
    _room: OwnedSemaphorePermit,
}

impl Reply {
    /// Makes a reply of the response to a call, which takes room until it is read.
    pub(super) fn new(sequence: u64, response: Response<Body>, room: OwnedSemaphorePermit) -> Self {
        Self { sequence, response, part: None, lease: None, _room: room }
    }

    /// Encodes the reply, and returns how many bytes the first part has.
    pub(super) fn begin(&mut self) -> usize {
        if let Some(Some(Ok(frame))) = self.poll().now_or_never()
            && let Ok(data) = frame.into_data()
        {
            self.put(data);
        }
        self.part.as_ref().map_or(0, Bytes::len)
    }

    async fn poll(&mut self) -> Option<Result<Frame<Bytes>, Status>> {
        poll_fn(|context| Pin::new(self.response.body_mut()).poll_frame(context)).await
    }

    /// Takes the next part, and returns the one before.
    fn put(&mut self, mut data: Bytes) -> Option<Bytes> {
        let before = self.part.take();
        // The first part comes after the prefix of the message.
        self.part = Some(if before.is_none() { data.split_off(PREFIX.min(data.len())) } else { data });
        before
    }

    /// Returns the next frame. The last one has a status.
    pub(super) async fn next(&mut self) -> v1::ReplyFrame {
        let sequence = self.sequence;
        let mut status = Status::from_header_map(self.response.headers());
        while status.is_none() {
            status = match self.poll().await.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => match self.put(data) {
                    Some(part) => return v1::ReplyFrame { sequence, reply: part, status: None },
                    None => None,
                },
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
        v1::ReplyFrame { sequence, reply: self.part.take().unwrap_or_default(), status }
    }
}
