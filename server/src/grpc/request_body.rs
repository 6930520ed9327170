//! Requests while they arrive: each is handed on once it is complete, if it arrives in time. Their memory is bounded.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures::{FutureExt as _, future::BoxFuture};
use http_body::Frame;
use teamwire_proto::Refusal;
use tokio::time::{Sleep, sleep};
use tonic::{Status, body::Body};

use super::call::Call;
use crate::{budget::RequestLease, edge::auth_gate::GatedCall};

/// How many bytes of a request or a reply come before its message: whether it is compressed, and its length.
pub(super) const PREFIX: usize = 5;

/// A request of up to this many bytes needs room only if not all of it has arrived. It is as much as one frame of
/// HTTP/2 has.
const FREE_BYTES: usize = 16 * 1024;

/// Makes the body of a request that is handed on once it is complete. It ends one that is not complete in time, with
/// DEADLINE_EXCEEDED, and waits until there is room for it.
///
/// tonic reserves memory for a whole request as soon as it knows its length, so a few bytes could otherwise take 256
/// KiB.
pub(super) fn whole(body: Body, call: &Arc<Call>, request_bytes_max: usize, request_timeout: Duration) -> Body {
    let call = Some(Arc::clone(call));
    Body::new(WholeBody { call, ..WholeBody::new(body, request_bytes_max, request_timeout) })
}

/// A body that comes in one piece, and fails when it is not complete in time, or if there is no room for it. Before it
/// has room, it holds no more memory than twice what has arrived at once.
struct WholeBody {
    body: Body,
    bytes_max: usize,
    timeout: Duration,
    /// What has arrived.
    arrived: BytesMut,
    /// `None` if nothing had to be waited for so far.
    deadline: Option<Pin<Box<Sleep>>>,
    memory: Memory,
    /// The call whose connection pays, and which keeps the room after the body has ended. `None` if no one pays.
    call: Option<Arc<Call>>,
}

/// Whether there is room for a request.
enum Memory {
    /// It has needed none so far.
    Free,
    /// It waits for room.
    Waiting(BoxFuture<'static, Result<RequestLease, Refusal>>),
    /// It has room, or no one pays for any.
    Reserved,
}

impl WholeBody {
    fn new(body: Body, bytes_max: usize, timeout: Duration) -> Self {
        Self { body, bytes_max, timeout, arrived: BytesMut::new(), deadline: None, memory: Memory::Free, call: None }
    }

    /// Returns how many bytes the request has, or announces, after its prefix.
    fn length(&self) -> usize {
        let announced = self.arrived.get(1..PREFIX).and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
        let announced = announced.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
        announced.max(self.arrived.len().saturating_sub(PREFIX))
    }

    /// Has the request wait for room, unless it has some or no one pays.
    fn ask_for_room(&mut self) {
        if let Memory::Free = self.memory {
            let gated = self.call.as_ref().and_then(|call| call.gated.as_ref());
            self.memory = match gated.and_then(GatedCall::payer) {
                Some(payer) => Memory::Waiting(payer.lease_for_request(PREFIX + self.length()).boxed()),
                None => Memory::Reserved,
            };
        }
    }

    /// Waits for room, if the request has asked for it.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        if let Memory::Waiting(room) = &mut self.memory {
            let room = ready!(room.poll_unpin(context))?;
            if let Some(call) = &self.call {
                call.cost.keep(room);
            }
            self.memory = Memory::Reserved;
            self.arrived.reserve(PREFIX + self.length() - self.arrived.len());
            // The client was held back meanwhile.
            self.deadline = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl http_body::Body for WholeBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Err(refused) = ready!(self.poll_room(context)) {
                return Poll::Ready(Some(Err(refused)));
            }
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if self.arrived.is_empty() && self.body.is_end_stream() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    self.arrived.extend_from_slice(&data);
                    let length = self.length();
                    if length > self.bytes_max {
                        // It can be refused at once.
                        return Poll::Ready(Some(Ok(Frame::data(self.arrived.split().freeze()))));
                    }
                    if length > FREE_BYTES {
                        self.ask_for_room();
                    }
                }
                Poll::Ready(None) if !self.arrived.is_empty() => {
                    return Poll::Ready(Some(Ok(Frame::data(self.arrived.split().freeze()))));
                }
                Poll::Ready(ended) => return Poll::Ready(ended),
                Poll::Pending if matches!(self.memory, Memory::Free) && self.arrived.len() >= PREFIX => {
                    self.ask_for_room();
                }
                Poll::Pending => {
                    let timeout = self.timeout;
                    let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
                    return deadline.as_mut().poll(context).map(|()| {
                        Some(Err(Status::deadline_exceeded(format!(
                            "The request was not complete after {timeout:?}. Send it again, faster."
                        ))))
                    });
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.arrived.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;
    use tonic::Code;

    use super::*;

    const MAX: usize = 1_000;

    /// Returns a body that consists of what is sent to it, as the layer hands it on.
    fn body() -> (mpsc::Sender<Vec<u8>>, WholeBody) {
        let (to, from) = mpsc::channel::<Vec<u8>>(8);
        let frames = tokio_stream::StreamExt::map(ReceiverStream::new(from), |data| {
            Ok::<_, Status>(Frame::data(Bytes::from(data)))
        });
        (to, WholeBody::new(Body::new(StreamBody::new(frames)), MAX, Duration::from_secs(10)))
    }

    fn prefix(length: u32) -> Vec<u8> {
        [&[0][..], &length.to_be_bytes()].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_comes_in_one_piece_once_it_is_complete() {
        let (to, mut whole) = body();
        to.try_send(prefix(6)).unwrap();
        to.try_send(b"abc".to_vec()).unwrap();
        assert!(futures::poll!(whole.frame()).is_pending());
        to.try_send(b"def".to_vec()).unwrap();
        assert!(futures::poll!(whole.frame()).is_pending());
        drop(to);
        assert_eq!(whole.frame().await.unwrap().unwrap().into_data().unwrap(), [&prefix(6)[..], b"abcdef"].concat());
        assert!(whole.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_oversized_request_is_passed_on_at_once() {
        let (to, mut whole) = body();
        to.try_send(prefix(1_001)).unwrap();
        assert_eq!(whole.frame().await.unwrap().unwrap().into_data().unwrap(), prefix(1_001));
        let (to_another, mut another) = body();
        to_another.try_send([&prefix(10)[..], &[0; MAX + 1]].concat()).unwrap();
        assert_eq!(another.frame().await.unwrap().unwrap().into_data().unwrap().len(), MAX + 1 + PREFIX);
    }

    #[tokio::test(start_paused = true)]
    async fn an_incomplete_request_times_out() {
        let (to, mut whole) = body();
        to.try_send(prefix(6)).unwrap();
        let failed = whole.frame().await.unwrap().unwrap_err();
        assert_eq!(failed.code(), Code::DeadlineExceeded);
        drop(to);
    }
}
