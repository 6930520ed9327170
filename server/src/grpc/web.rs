//! gRPC-web, for programs in browsers: translates it to gRPC before anything else sees a call, and says to browsers which
//! pages may call (CORS).

use std::time::Duration;

use http::{
    HeaderName, HeaderValue, Method,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use teamwire_proto::{SESSION_METADATA_KEY, trace_parent};
use tonic_web::GrpcWebLayer;
use tower::{
    layer::util::Stack,
    util::{Either, option_layer},
};
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_layer::Identity;

/// How long a browser may remember what it was told. More than two hours is read as two by most.
const REMEMBERED_FOR: Duration = Duration::from_secs(2 * 60 * 60);

/// The origin that stands for every one.
pub const ANY_ORIGIN: &str = "*";

/// Returns whether a text is an origin as a browser says it, such as `https://console.example:8443`, or [`ANY_ORIGIN`].
pub fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return text == ANY_ORIGIN };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_:[]".contains(c);
    matches!(scheme, "http" | "https") && !authority.is_empty() && authority.chars().all(is_plain)
}

/// Translates for pages of these origins. None given: nothing is translated.
pub fn layer(origins: &[String]) -> Either<Stack<GrpcWebLayer, CorsLayer>, Identity> {
    option_layer((!origins.is_empty()).then(|| Stack::new(GrpcWebLayer::new(), cors(origins))))
}

fn cors(origins: &[String]) -> CorsLayer {
    let allowed = match origins.iter().any(|origin| origin == ANY_ORIGIN) {
        true => AllowOrigin::any(),
        false => AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok())),
    };
    let asked = ["grpc-timeout", "x-grpc-web", "x-user-agent", SESSION_METADATA_KEY, trace_parent::METADATA_KEY];
    let told = ["grpc-status", "grpc-message", "grpc-status-details-bin"];
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::POST])
        .allow_headers(
            [AUTHORIZATION, CONTENT_TYPE].into_iter().chain(asked.map(HeaderName::from_static)).collect::<Vec<_>>(),
        )
        .expose_headers(told.map(HeaderName::from_static))
        .max_age(REMEMBERED_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_a_browser_says() {
        for text in ["*", "https://console.example", "http://localhost:5173", "http://[::1]:80"] {
            assert!(is_origin(text), "{text}");
        }
        for text in
            ["", "console.example", "https://", "https://a/", "https://A", "ftp://a", "https://a b", "https://*"]
        {
            assert!(!is_origin(text), "{text}");
        }
    }
}
