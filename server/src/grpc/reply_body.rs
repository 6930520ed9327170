//! The body of a reply: hands out few bytes at once, and frees what its client does not take.
//!
//! What is handed out is copied, so that no piece that waits in the connection keeps the whole reply in memory.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use teamwire_proto::{Reason, Refusal};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, body::Body};

use super::{call::Call, cost::Spent};
use crate::{
    budget::{ByteLease, OpenCall},
    edge::auth_gate::GatedCall,
};

/// How many bytes a connection gets at once, and so how many of each reply wait in it at most.
pub(super) const PIECE_BYTES: usize = 8 * 1024;

/// What a body hands out.
type Piece = Result<Frame<Bytes>, Status>;

/// A body; see the [module](self).
struct ReplyBody {
    waiting: Arc<Mutex<UnreadReply>>,
    /// What the call has used up until its reply has ended.
    spent: Option<Spent>,
    /// Keeps the connection from being idle.
    open: Option<OpenCall>,
    write_timeout: Duration,
    reaper: Option<AbortOnDropHandle<()>>,
}

/// Charges what a reply costs, and bounds what of it waits for the client.
pub(super) async fn charge(call: &Call, reply: Response<Body>, write_timeout: Duration) -> Response<Body> {
    let Some(mut spent) = call.cost.take() else { return reply };
    if spent.is_of_stream() {
        return reply.map(|body| Body::new(ReplyBody::of_stream(body, spent, write_timeout).of(call)));
    }
    if !spent.is_of_read() {
        return reply;
    }
    let (parts, mut body) = reply.into_parts();
    let (first, next) = if body.is_end_stream() { Default::default() } else { first_bytes(&mut body).await };
    let lease = spent.read(first.len(), call.examined(), PIECE_BYTES).await;
    Response::from_parts(parts, Body::new(ReplyBody::of_reply(first, lease, (next, body), write_timeout).of(call)))
}

/// Encodes a reply: its only message is the first frame of its body. Otherwise returns what comes instead.
async fn first_bytes(body: &mut Body) -> (Bytes, Option<Piece>) {
    match std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
        Some(Ok(frame)) => match frame.into_data() {
            Ok(bytes) => (bytes, None),
            Err(frame) => (Bytes::new(), Some(Ok(frame))),
        },
        other => (Bytes::new(), other),
    }
}

/// What was not handed out.
struct UnreadReply {
    bytes: Bytes,
    /// ByteLease for them, and for what was handed out last.
    lease: Option<ByteLease>,
    /// How many pieces were handed out.
    pieces: u64,
    /// What comes after them, and before `rest`.
    next: Option<Piece>,
    /// `None` if all of it was dropped, since the client took nothing.
    rest: Option<Body>,
    /// Whether [`reap`] runs.
    is_watched: bool,
}

impl ReplyBody {
    /// Makes the body of a stream.
    fn of_stream(rest: Body, spent: Spent, write_timeout: Duration) -> Self {
        Self::new(Bytes::new(), None, (None, rest), Some(spent), write_timeout)
    }

    /// Makes the body of a reply that begins with these bytes, for which there is memory. If the client takes none of
    /// them for `write_timeout`, they are freed and the call fails.
    fn of_reply(bytes: Bytes, lease: Option<ByteLease>, rest: (Option<Piece>, Body), write_timeout: Duration) -> Self {
        Self::new(bytes, lease, rest, None, write_timeout)
    }

    fn new(
        bytes: Bytes,
        lease: Option<ByteLease>,
        (next, rest): (Option<Piece>, Body),
        spent: Option<Spent>,
        write_timeout: Duration,
    ) -> Self {
        let waiting = UnreadReply { bytes, lease, pieces: 0, next, rest: Some(rest), is_watched: false };
        Self { waiting: Arc::new(Mutex::new(waiting)), spent, open: None, write_timeout, reaper: None }
    }

    /// Makes it a part of a call.
    fn of(mut self, call: &Call) -> Self {
        self.open = call.gated.as_ref().and_then(GatedCall::reply);
        self
    }
}

impl UnreadReply {
    fn next_piece(&mut self) -> Option<Bytes> {
        if let Some(lease) = &mut self.lease {
            lease.shrink_to(self.bytes.len());
        }
        if self.bytes.is_empty() {
            self.lease = None;
            return None;
        }
        self.pieces += 1;
        if self.bytes.len() <= PIECE_BYTES && self.lease.is_none() {
            return Some(std::mem::take(&mut self.bytes));
        }
        let piece = Bytes::copy_from_slice(&self.bytes[..PIECE_BYTES.min(self.bytes.len())]);
        self.bytes.advance(piece.len());
        if self.bytes.is_empty() {
            self.bytes = Bytes::new();
        }
        Some(piece)
    }

    fn poll(&mut self, spent: Option<&Spent>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        loop {
            if let Some(piece) = self.next_piece() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if let Some(next) = self.next.take() {
                return Poll::Ready(Some(next));
            }
            let Some(rest) = &mut self.rest else {
                let text = "The client took nothing of this reply for too long. Read replies as they arrive, and repeat the call.";
                return Poll::Ready(Some(Err(Refusal::new(Reason::SlowConsumer, text).into())));
            };
            let frame = match ready!(Pin::new(rest).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(bytes) => {
                    if let Some(spent) = spent {
                        spent.charge(bytes.len());
                    }
                    self.bytes = bytes;
                }
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
    }
}

/// Frees what waits once the client has taken nothing for some time. Ends when nothing waits.
async fn reap(waiting: Arc<Mutex<UnreadReply>>, write_timeout: Duration) {
    let mut seen = 0;
    loop {
        sleep(write_timeout).await;
        let mut waiting = waiting.lock();
        if waiting.bytes.is_empty() {
            waiting.is_watched = false;
            return;
        }
        if std::mem::replace(&mut seen, waiting.pieces) == waiting.pieces {
            let dropped =
                (std::mem::take(&mut waiting.bytes), waiting.lease.take(), waiting.next.take(), waiting.rest.take());
            // Dropping a stream may wake its task.
            drop(waiting);
            drop(dropped);
            return;
        }
    }
}

impl http_body::Body for ReplyBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let mut waiting = self.waiting.lock();
        let polled = waiting.poll(self.spent.as_ref(), context);
        // Before the first piece is taken, nothing shows that the client takes any.
        let begins = !waiting.bytes.is_empty() && !std::mem::replace(&mut waiting.is_watched, true);
        drop(waiting);
        if begins {
            let reaper = tokio::spawn(reap(Arc::clone(&self.waiting), self.write_timeout));
            self.reaper = Some(AbortOnDropHandle::new(reaper));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let waiting = self.waiting.lock();
        let is_over = waiting.rest.as_ref().is_some_and(http_body::Body::is_end_stream);
        waiting.bytes.is_empty() && waiting.next.is_none() && is_over
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, task::Waker};

    use super::*;
    use crate::{
        budget::{AccountKey, Budgets, Rates, Refusals, Shares},
        domain::secret::SecretHash,
    };

    async fn next(body: &mut ReplyBody) -> Option<Result<Bytes, Status>> {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
        Some(frame.map(|frame| frame.into_data().unwrap()))
    }

    #[tokio::test]
    async fn a_reply_comes_in_pieces_that_free_its_room_as_they_are_taken() {
        let shares = Shares { reply_bytes_per_credential_max: 3 * PIECE_BYTES, ..Shares::default() };
        let budgets = Budgets::new(Rates::default(), shares, Refusals::default());
        let account = budgets.account(AccountKey::Credential(SecretHash::of("ann")), false);
        let bytes = Bytes::from(vec![7; 2 * PIECE_BYTES + 1]);
        let lease = account.lease(bytes.len()).await;
        let mut body = ReplyBody::of_reply(bytes.clone(), Some(lease), (None, Body::empty()), Duration::from_secs(60));
        let mut got = Vec::new();
        let mut left = Vec::new();
        while let Some(piece) = next(&mut body).await {
            let piece = piece.unwrap();
            assert!(piece.len() <= PIECE_BYTES);
            got.extend(piece);
            left.push(body.waiting.lock().lease.as_ref().unwrap().bytes());
        }
        assert_eq!(got, bytes);
        assert_eq!(left, [2 * PIECE_BYTES + 1, PIECE_BYTES + 1, 1]);
        assert!(body.is_end_stream() && body.waiting.lock().lease.is_none());
        drop(account.lease(shares.reply_bytes_per_credential_max).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_reply_is_freed_and_fails() {
        let bytes = Bytes::from(vec![7; 3 * PIECE_BYTES]);
        let mut body = ReplyBody::of_reply(bytes, None, (None, Body::empty()), Duration::from_secs(30));
        next(&mut body).await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_secs(31)).await;
        next(&mut body).await.unwrap().expect("a piece was taken in time");
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert!(body.waiting.lock().bytes.is_empty());
        let status = next(&mut body).await.unwrap().unwrap_err();
        assert_eq!(Refusal::from_status(&status).unwrap().reason, Reason::SlowConsumer);
        assert!(!Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}
