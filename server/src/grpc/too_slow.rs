//! Requests that do not arrive: ends those that are begun and not finished, and what was kept of them.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Request;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::{Status, body::Body};
use tower::util::MapRequestLayer;

/// What all calls begin with whose request is one message. Others may go on asking for as long as they like.
const OURS: &str = "/teamwire.";

/// Ends a request that is not whole after so long, with DEADLINE_EXCEEDED.
pub fn layer(
    request_timeout: Duration,
) -> MapRequestLayer<impl Fn(Request<Body>) -> Request<Body> + Clone + Send + 'static> {
    MapRequestLayer::new(move |request: Request<Body>| {
        if request.uri().path().starts_with(OURS) {
            request.map(|body| Body::new(Timely { body, timeout: request_timeout, deadline: None }))
        } else {
            request
        }
    })
}

/// A body that fails when it is not whole in time.
struct Timely {
    body: Body,
    timeout: Duration,
    /// None: so far nothing had to be waited for.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for Timely {
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
                "The request was not whole after {timeout:?}. Send it again, faster."
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
