//! Requests that cannot be decoded, which tonic refuses before any handler sees them: gives that refusal its reason.

use http::Response;
use teamwire_proto::{Reason, Refusal};
use tonic::{Code, Status, body::Body};
use tower::util::MapResponseLayer;

/// Replaces what a request that is not of the protocol was answered with.
///
/// tonic says INTERNAL and no reason. Every refusal of teamwire with that code has one.
pub fn layer() -> MapResponseLayer<impl Fn(Response<Body>) -> Response<Body> + Clone + Send + 'static> {
    MapResponseLayer::new(move |response: Response<Body>| {
        let status = Status::from_header_map(response.headers());
        match status.filter(|status| status.code() == Code::Internal && Refusal::from_status(status).is_none()) {
            Some(status) => Status::from(Refusal::new(
                Reason::InvalidField,
                format!("The request cannot be read: {}. Encode it as the protocol's files say.", status.message()),
            ))
            .into_http(),
            None => response,
        }
    })
}
