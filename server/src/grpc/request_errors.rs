//! Requests that tonic refuses before any handler sees them: gives each such refusal its reason.

use http::Response;
use teamwire_proto::{Reason, Refusal};
use tonic::{Code, Status, body::Body};
use tower::util::MapResponseLayer;

/// Makes the layer that replaces the answer to a request of more bytes.
///
/// tonic says OUT_OF_RANGE and no reason. No reason of teamwire has that code, so nothing else can be meant.
pub fn refuse_too_large(
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
pub fn refuse_undecodable() -> MapResponseLayer<impl Fn(Response<Body>) -> Response<Body> + Clone + Send + 'static> {
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
