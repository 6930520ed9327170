//! The frames of a session's stream, and whether the client takes them.

use std::{
    future::poll_fn,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use teamwire_proto::{
    Refusal,
    v1::{self, stream_response},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use super::end::End;

/// How many frames wait for the client at most.
const FRAMES_MAX: usize = 32;

/// A frame, or why there are no more. Boxed, since a channel reserves room for many frames while it is empty.
pub type Frame = Box<Result<v1::StreamResponse, Refusal>>;

/// Packs a frame.
pub(super) fn frame(frame: stream_response::Frame) -> Frame {
    Box::new(Ok(v1::StreamResponse { frame: Some(frame) }))
}

/// Makes the channel between a session and its stream. It has one more place, reserved for the last frame, which must
/// get through however full the channel is.
pub(super) fn channel() -> (mpsc::Sender<Frame>, FrameQueue) {
    let (frames, queue) = mpsc::channel(FRAMES_MAX + 1);
    (frames, FrameQueue(Arc::new(Mutex::new(queue))))
}

/// The frames that wait for the client of a session.
#[derive(Debug)]
pub struct FrameQueue(Arc<Mutex<mpsc::Receiver<Frame>>>);

impl FrameQueue {
    /// Waits for the next frame. `None` if there are no more.
    pub async fn recv(&mut self) -> Option<Frame> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Polls for the next frame.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        self.0.lock().poll_recv(context)
    }

    /// Returns a way to empty the queue that does not keep it open.
    pub(super) fn emptier(&self) -> Emptier {
        Emptier(Arc::downgrade(&self.0))
    }
}

/// Empties a queue.
#[derive(Debug)]
pub(super) struct Emptier(Weak<Mutex<mpsc::Receiver<Frame>>>);

impl Emptier {
    /// Drops the frames that wait. A client that does not read would keep them in memory.
    pub(super) fn empty(&self) {
        if let Some(queue) = self.0.upgrade() {
            let mut queue = queue.lock();
            while queue.try_recv().is_ok() {}
        }
    }
}

/// Writes frames to a stream.
pub(super) struct FrameWriter {
    frames: mpsc::Sender<Frame>,
    write_timeout: Duration,
    progress: ClientProgress,
}

/// How many frames the client has taken, as seen at the latest heartbeat.
struct ClientProgress {
    /// How many frames were written.
    written: usize,
    /// How many of them the client had taken.
    taken: usize,
    /// When the client last took one, or none was waiting.
    at: Instant,
}

impl FrameWriter {
    /// Writes into a channel in which the place of the last frame is reserved.
    pub(super) fn new(frames: mpsc::Sender<Frame>, write_timeout: Duration) -> Self {
        Self { frames, write_timeout, progress: ClientProgress { written: 0, taken: 0, at: Instant::now() } }
    }

    /// Writes a frame, as soon as there is room for it.
    pub(super) fn write(&mut self, content: stream_response::Frame) -> impl Future<Output = Result<(), End>> {
        // Packed at once: the future moves several times, and so would the content in it.
        self.write_packed(frame(content))
    }

    /// Writes a packed frame, as soon as there is room for it.
    pub(super) async fn write_packed(&mut self, frame: Frame) -> Result<(), End> {
        match timeout(self.write_timeout, self.frames.send(frame)).await {
            Ok(Ok(())) => {
                self.progress.written += 1;
                Ok(())
            }
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Slow),
        }
    }

    /// Returns whether the client has taken no frame for too long while some were waiting, however few: credit may end
    /// long before the channel is full.
    pub(super) fn is_stalled(&mut self) -> bool {
        // One place is reserved for the last frame.
        let waiting = FRAMES_MAX - self.frames.capacity();
        let taken = self.progress.written - waiting;
        if waiting == 0 || taken != self.progress.taken {
            self.progress = ClientProgress { taken, at: Instant::now(), ..self.progress };
        }
        self.progress.at.elapsed() >= self.write_timeout
    }

    /// Waits until the client is gone.
    pub(super) async fn closed(&self) {
        self.frames.closed().await;
    }
}
