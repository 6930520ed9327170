//! Requests over the bound, which tonic refuses before any handler sees them: gives that refusal its reason.

use http::Response;
use teamwire_proto::{Reason, Refusal};
use tonic::{Code, Status, body::Body};
use tower::util::MapResponseLayer;

/// Replaces what a request of more bytes was answered with.
///
/// tonic says OUT_OF_RANGE and no reason. No reason of teamwire has that code, so nothing else can be meant.
pub fn layer(
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
                "The request has more than {request_bytes_max} bytes. Send less at once; what is larger belongs elsewhere, \
                 with a reference to it among the attachments."
            ),
        );
        Status::from(refusal.with("request_bytes_max", request_bytes_max.to_string())).into_http()
    })
}
