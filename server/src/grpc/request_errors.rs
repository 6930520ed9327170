//! Requests that tonic refuses, or would wait for, before any handler sees them: gives each such refusal its reason.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use http_body::{Frame, SizeHint};
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

/// Makes the layer that ends a request that is not complete in time, with DEADLINE_EXCEEDED, and frees what was kept of it.
pub fn too_slow(
    request_timeout: Duration,
) -> MapRequestLayer<impl Fn(Request<Body>) -> Request<Body> + Clone + Send + 'static> {
    MapRequestLayer::new(move |request: Request<Body>| {
        if request.uri().path().starts_with(OURS) {
            request.map(|body| Body::new(TimedBody { body, timeout: request_timeout, deadline: None }))
        } else {
            request
        }
    })
}

/// A body that fails when it is not complete in time.
struct TimedBody {
    body: Body,
    timeout: Duration,
    /// `None`: nothing had to be waited for so far.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for TimedBody {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            return frame;
        }
        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        deadline.as_mut().poll(context).map(|()| {
            Some(Err(Status::deadline_exceeded(format!(
                "The request was not complete after {timeout:?}. Send it again, faster."
            ))))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
