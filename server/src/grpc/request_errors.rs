//! Requests that tonic refuses before any handler sees them: gives each such refusal its reason.

use http::Response;
use teamwire_proto::{Reason, Refusal};
use tonic::{Code, Status, body::Body};

/// Replaces the answer to a request that has too many bytes, or cannot be decoded.
///
/// tonic says OUT_OF_RANGE or INTERNAL, and no reason. No reason of teamwire has the first code, and every refusal with
/// the second one has a reason, so nothing else can be meant.
pub(super) fn explain(response: Response<Body>, request_bytes_max: usize) -> Response<Body> {
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    let refusal = match status.code() {
        Code::OutOfRange => Refusal::new(
            Reason::ContentTooLarge,
            format!(
                "The request has more than {request_bytes_max} bytes. Send less at once; put larger content elsewhere, and \
                 attach a reference to it."
            ),
        )
        .with("request_bytes_max", request_bytes_max.to_string()),
        Code::Internal if Refusal::from_status(&status).is_none() => Refusal::new(
            Reason::InvalidField,
            format!("The request cannot be read: {}. Encode it as the .proto files define it.", status.message()),
        ),
        _ => return response,
    };
    Status::from(refusal).into_http()
}
