//! The files of the page, and the replies that carry them.

use std::collections::HashMap;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
        IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use tonic::body::Body;

/// The file that is the page.
const INDEX: &str = "index.html";

/// The folder of files whose names have a hash of their contents.
const HASHED: &str = "/assets/";

/// What a page may load and do: what comes from its own origin, and no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What else no page gets.
const PERMISSIONS: &str = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()";

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path below the root, such as `assets/index-1a2b.js`.
    pub path: &'static str,
    /// Its contents.
    pub bytes: &'static [u8],
    /// Its contents, compressed by gzip.
    pub gzip: &'static [u8],
}

#[derive(Debug)]
struct Asset {
    file: File,
    etag: HeaderValue,
    content_type: HeaderValue,
    cache_control: HeaderValue,
}

/// The files by their paths in URLs.
#[derive(Debug)]
pub(super) struct Assets(HashMap<String, Asset>);

impl Assets {
    pub(super) fn new(files: &[File]) -> Self {
        let asset = |file: &File| {
            let path = if file.path == INDEX { "/".to_owned() } else { format!("/{}", file.path) };
            let hash = hex::encode(&blake3::hash(file.bytes).as_bytes()[..16]);
            let cache_control = match path.as_str() {
                "/" => "no-store",
                path if path.starts_with(HASHED) => "public, max-age=31536000, immutable",
                _ => "no-cache",
            };
            let asset = Asset {
                file: *file,
                etag: HeaderValue::from_str(&format!("\"{hash}\"")).expect("hexadecimal digits"),
                content_type: HeaderValue::from_static(content_type(file.path)),
                cache_control: HeaderValue::from_static(cache_control),
            };
            (path, asset)
        };
        Self(files.iter().map(asset).collect())
    }

    /// Answers a request for a file. `None` if there is none of this path.
    pub(super) fn answer(&self, path: &str, method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
        let asset = self.0.get(path)?;
        let mut answer = Response::new(Body::empty());
        let answered = answer.headers_mut();
        answered.insert(ETAG, asset.etag.clone());
        answered.insert(CACHE_CONTROL, asset.cache_control.clone());
        answered.insert(VARY, HeaderValue::from_static("accept-encoding"));
        protect(answered);
        if is_known(headers, &asset.etag) {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            return Some(answer);
        }
        let is_compressed = accepts_gzip(headers);
        let bytes = if is_compressed { asset.file.gzip } else { asset.file.bytes };
        if is_compressed {
            answered.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        answered.insert(CONTENT_TYPE, asset.content_type.clone());
        answered.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        if method != Method::HEAD {
            *answer.body_mut() = Body::new(axum::body::Body::from(Bytes::from_static(bytes)));
        }
        Some(answer)
    }
}

/// Adds the headers that restrict what a page may do, and who may embed it.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "json" | "webmanifest" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

/// Returns whether the client has the file already.
fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = known.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|tag| tag == "*" || tag.as_bytes() == etag.as_bytes())
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = weight.trim().strip_prefix("q=").is_some_and(|q| q.trim().parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[File] = &[
        File { path: "index.html", bytes: b"<!doctype html>", gzip: b"gz" },
        File { path: "icon.svg", bytes: b"<svg/>", gzip: b"gzip" },
        File { path: "assets/a-1.js", bytes: b"let x", gzip: b"gzipped" },
    ];

    fn answer(path: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        Assets::new(FILES).answer(path, &Method::GET, &map).unwrap()
    }

    fn header(answer: &Response<Body>, name: &str) -> String {
        answer.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
    }

    #[test]
    fn compressed_files_go_to_clients_that_accept_them() {
        for (accepted, length, coding) in [
            ("gzip, deflate, br", "7", "gzip"),
            ("br;q=1.0, GZIP;q=0.5", "7", "gzip"),
            ("gzip;q=0", "5", ""),
            ("br", "5", ""),
            ("x-gzip", "5", ""),
        ] {
            let found = answer("/assets/a-1.js", &[("accept-encoding", accepted)]);
            assert_eq!(header(&found, "content-length"), length, "{accepted}");
            assert_eq!(header(&found, "content-encoding"), coding, "{accepted}");
            assert_eq!(header(&found, "vary"), "accept-encoding");
        }
    }

    #[test]
    fn a_file_that_the_client_has_is_not_sent_again() {
        let etag = header(&answer("/icon.svg", &[]), "etag");
        for known in [etag.clone(), format!("W/{etag}"), format!("\"x\", {etag}"), "*".to_owned()] {
            let found = answer("/icon.svg", &[("if-none-match", &known)]);
            assert_eq!(found.status(), StatusCode::NOT_MODIFIED, "{known}");
            assert_eq!(header(&found, "etag"), etag);
        }
        assert_eq!(answer("/icon.svg", &[("if-none-match", "\"x\"")]).status(), StatusCode::OK);
        assert_ne!(etag, header(&answer("/assets/a-1.js", &[]), "etag"));
    }

    #[test]
    fn only_files_with_a_hash_in_their_names_are_kept_for_long() {
        assert_eq!(header(&answer("/", &[]), "cache-control"), "no-store");
        assert_eq!(header(&answer("/icon.svg", &[]), "cache-control"), "no-cache");
        assert!(header(&answer("/assets/a-1.js", &[]), "cache-control").contains("immutable"));
    }

    #[test]
    fn every_answer_restricts_the_page() {
        for path in ["/", "/icon.svg", "/assets/a-1.js"] {
            let found = answer(path, &[]);
            let policy = header(&found, "content-security-policy");
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
            assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
            assert_eq!(header(&found, "x-content-type-options"), "nosniff");
            assert_eq!(header(&found, "referrer-policy"), "no-referrer");
            assert_eq!(header(&found, "cross-origin-opener-policy"), "same-origin");
        }
    }
}
