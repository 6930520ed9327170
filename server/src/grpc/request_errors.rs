//! Requests that tonic refuses, or would wait for, before any handler sees them: gives each such refusal its reason.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::Frame;
use teamwire_proto::{Reason, Refusal};
use tokio::time::{Sleep, sleep};
use tonic::{Code, Status, body::Body};
use tower::util::{MapRequestLayer, MapResponseLayer};

/// The paths of all methods whose request is one message begin so. Other methods may take as long as they like.
const OURS: &str = "/teamwire.";

/// Makes the layer that replaces the answer to a request of more bytes.
///
/// tonic says OUT_OF_RANGE and no reason. No reason of teamwire has that code, so nothing else can be meant.
pub fn too_large(
    request_bytes_max: usize,
) -> MapResponseLayer<impl Fn(Response<Body>) -> Response<Body> + Clone + Send + 'static> {
    MapResponseLayer::new(move |response: Response<Body>| {
        let status = Status::from_header_map(response.headers());
        if status.is_none_or(|status| status.code() != Code::OutOfRange) {
            return response;
        }
        let refusal = Refusal::new(
            Reason::ContentTooLarge,
            format!(
                "The request has more than {request_bytes_max} bytes. Send less at once; put larger content elsewhere, and \
                 attach a reference to it."
            ),
        );
        Status::from(refusal.with("request_bytes_max", request_bytes_max.to_string())).into_http()
    })
}

/// Makes the layer that replaces the answer to a request that cannot be decoded.
///
/// tonic says INTERNAL and no reason. Every refusal of teamwire with that code has a reason.
pub fn unreadable() -> MapResponseLayer<impl Fn(Response<Body>) -> Response<Body> + Clone + Send + 'static> {
    MapResponseLayer::new(move |response: Response<Body>| {
        let status = Status::from_header_map(response.headers());
        match status.filter(|status| status.code() == Code::Internal && Refusal::from_status(status).is_none()) {
            Some(status) => Status::from(Refusal::new(
                Reason::InvalidField,
                format!("The request cannot be read: {}. Encode it as the .proto files define it.", status.message()),
            ))
            .into_http(),
            None => response,
        }
    })
}

/// Makes the layer that hands a request on once it is complete, and ends one that is not complete in time, with
/// DEADLINE_EXCEEDED.
///
/// tonic reserves memory for a whole request as soon as it knows its length, so a few bytes could otherwise take 256 KiB.
pub fn incomplete(
    request_bytes_max: usize,
    request_timeout: Duration,
) -> MapRequestLayer<impl Fn(Request<Body>) -> Request<Body> + Clone + Send + 'static> {
    MapRequestLayer::new(move |request: Request<Body>| {
        if request.uri().path().starts_with(OURS) {
            request.map(|body| Body::new(WholeBody::new(body, request_bytes_max, request_timeout)))
        } else {
            request
        }
    })
}

/// How many bytes of a request come before its message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A body that comes in one piece, and fails when it is not complete in time. It holds no more memory than twice what has
/// arrived.
struct WholeBody {
    body: Body,
    bytes_max: usize,
    timeout: Duration,
    /// What has arrived.
    arrived: BytesMut,
    /// `None`: nothing had to be waited for so far.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl WholeBody {
    fn new(body: Body, bytes_max: usize, timeout: Duration) -> Self {
        Self { body, bytes_max, timeout, arrived: BytesMut::new(), deadline: None }
    }

    /// Returns whether the request has, or announces, more than it may have, so that it can be refused at once.
    fn is_too_large(&self) -> bool {
        let announced = self.arrived.get(1..PREFIX).and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
        let announced = announced.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
        announced.max(self.arrived.len().saturating_sub(PREFIX)) > self.bytes_max
    }
}

impl http_body::Body for WholeBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if self.arrived.is_empty() && self.body.is_end_stream() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    self.arrived.extend_from_slice(&data);
                    if self.is_too_large() {
                        return Poll::Ready(Some(Ok(Frame::data(self.arrived.split().freeze()))));
                    }
                }
                Poll::Ready(None) if !self.arrived.is_empty() => {
                    return Poll::Ready(Some(Ok(Frame::data(self.arrived.split().freeze()))));
                }
                Poll::Ready(ended) => return Poll::Ready(ended),
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
    #![allow(clippy::unwrap_used)]

    use http_body_util::{BodyExt as _, StreamBody};
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;

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
    async fn a_request_that_is_too_large_is_handed_on_at_once() {
        let (to, mut whole) = body();
        to.try_send(prefix(1_001)).unwrap();
        assert_eq!(whole.frame().await.unwrap().unwrap().into_data().unwrap(), prefix(1_001));
        let (to_another, mut another) = body();
        to_another.try_send([&prefix(10)[..], &[0; MAX + 1]].concat()).unwrap();
        assert_eq!(another.frame().await.unwrap().unwrap().into_data().unwrap().len(), MAX + 1 + PREFIX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_does_not_become_complete_fails() {
        let (to, mut whole) = body();
        to.try_send(prefix(6)).unwrap();
        let failed = whole.frame().await.unwrap().unwrap_err();
        assert_eq!(failed.code(), Code::DeadlineExceeded);
        drop(to);
    }
}
