//! The console: a web page that the coordinator serves at its own address, and what browsers may ask for there.
//!
//! [`ConsoleLayer`] wraps all services. It passes native gRPC calls on untouched. Of all other requests, which a
//! browser may have made, it checks `Host` and `Origin` ([`origin`]), answers those for the page's files ([`assets`]),
//! and passes on the others: calls over gRPC-web. Neither a credential nor a cookie is involved, so a page from another
//! origin gains nothing by having a browser send requests.

mod assets;
mod origin;

use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::Either;
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{CONTENT_TYPE, ORIGIN},
};
use tokio::sync::Semaphore;
use tonic::body::Body;
use tower::{Layer, Service};

use self::assets::Assets;
pub(crate) use self::origin::Origins;
pub use self::{assets::File, origin::is_host};
use crate::edge::auth_gate::AuthGate;

/// How many connections may load the page at a time for longer than a connection may stay without a credential.
const LOADING_MAX: usize = 64;

/// What of the console is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    /// The files of the page, `index.html` among them.
    pub files: &'static [File],
    /// The names under which browsers reach this coordinator, besides `localhost` and IP addresses.
    pub hosts: Vec<String>,
    /// The origins of other pages that may call.
    pub origins: Vec<String>,
    /// Whether browsers speak TLS with this coordinator.
    pub is_tls: bool,
    /// The address at which browsers on this machine reach it.
    pub address: String,
}

/// Serves the console. See the [module](self).
#[derive(Clone, Debug)]
pub struct ConsoleLayer {
    shared: Arc<ConsoleFiles>,
}

#[derive(Debug)]
struct ConsoleFiles {
    assets: Assets,
    origins: Origins,
    /// A place for each connection that loads the page.
    loading: Arc<Semaphore>,
}

impl ConsoleLayer {
    /// Makes the layer.
    pub fn new(console: &Console) -> Self {
        let Console { files, hosts, origins, is_tls, address: _ } = console;
        let shared = ConsoleFiles {
            assets: Assets::new(files),
            origins: Origins::new(hosts, origins, *is_tls),
            loading: Arc::new(Semaphore::new(LOADING_MAX)),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl<S> Layer<S> for ConsoleLayer {
    type Service = ConsoleService<S>;

    fn layer(&self, inner: S) -> ConsoleService<S> {
        ConsoleService { inner, shared: Arc::clone(&self.shared) }
    }
}

/// A service behind the console.
#[derive(Clone, Debug)]
pub struct ConsoleService<S> {
    inner: S,
    shared: Arc<ConsoleFiles>,
}

impl<S, B> Service<Request<B>> for ConsoleService<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.shared.answer(&request) {
            Some(answer) => Either::Right(ready(Ok(answer))),
            None => Either::Left(self.inner.call(request)),
        }
    }
}

impl ConsoleFiles {
    /// Answers a request for a file, or one that is not permitted. `None` if it is a call.
    fn answer<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        if is_native_call(request) {
            return None;
        }
        if let Err(why) = self.origins.check(request) {
            tracing::debug!(%why, "a browser's request was refused");
            return Some(text(StatusCode::FORBIDDEN, why));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        let Some(answer) = self.assets.answer(request.uri().path(), request.method(), request.headers()) else {
            return Some(text(StatusCode::NOT_FOUND, "There is nothing here. The console is at /."));
        };
        if let Some(gate) = request.extensions().get::<Arc<AuthGate>>()
            && let Ok(place) = Arc::clone(&self.loading).try_acquire_owned()
        {
            gate.loads_page(place);
        }
        Some(answer)
    }
}

/// Returns whether no browser can have made the request: it is a gRPC call over HTTP/2 that names no origin.
fn is_native_call<B>(request: &Request<B>) -> bool {
    let content = request.headers().get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    request.version() == Version::HTTP_2
        && request.method() == Method::POST
        && content.starts_with(b"application/grpc")
        && !content.starts_with(b"application/grpc-web")
        && !request.headers().contains_key(ORIGIN)
}

/// Answers with one line of text.
fn text(status: StatusCode, line: &'static str) -> Response<Body> {
    let mut answer = Response::new(Body::new(axum::body::Body::from(format!("{line}\n"))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    assets::protect(answer.headers_mut());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[File] = &[
        File { path: "index.html", bytes: b"<p>", gzip: b"gz" },
        File { path: "assets/a-1.js", bytes: b"js", gzip: b"gz" },
    ];

    fn console(hosts: &[&str], origins: &[&str], is_tls: bool) -> ConsoleLayer {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        ConsoleLayer::new(&Console {
            files: FILES,
            hosts: owned(hosts),
            origins: owned(origins),
            is_tls,
            address: String::new(),
        })
    }

    /// Asks for `path`. Returns the status: 0 if the request is passed on.
    fn ask(console: &ConsoleLayer, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        console.shared.answer(&request.body(()).unwrap()).map_or(0, |answer| answer.status().as_u16())
    }

    #[test]
    fn only_names_of_this_coordinator_reach_the_page() {
        let console = console(&["Coord.example", "other.example"], &[], false);
        for (host, status) in [
            ("127.0.0.1:7420", 200),
            ("10.1.2.3", 200),
            ("[::1]:7420", 200),
            ("[fe80::1]", 200),
            ("localhost", 200),
            ("LOCALHOST:1", 200),
            ("coord.example:443", 200),
            ("other.example", 200),
            ("evil.example", 403),
            ("localhost.evil.example", 403),
            ("127.0.0.1.evil.example", 403),
            ("coord.example.", 403),
            ("coord.example@evil.example", 403),
            ("", 403),
            (":7420", 403),
            ("[::1", 403),
        ] {
            assert_eq!(ask(&console, "GET", "/", &[("host", host)]), status, "{host}");
        }
        assert_eq!(ask(&console, "GET", "/", &[]), 403, "no host");
        assert_eq!(ask(&console, "GET", "/", &[("host", "localhost"), ("host", "localhost")]), 403, "two hosts");
        assert_eq!(
            ask(&console, "GET", "http://evil.example/", &[("host", "localhost")]),
            403,
            "HTTP/2 names it in the URI"
        );
    }

    #[test]
    fn a_request_from_a_foreign_origin_is_refused() {
        let (plain, tls) = (console(&[], &["https://page.example"], false), console(&[], &[], true));
        let call = |console, host, origin, more: &[(&str, &str)]| {
            let mut headers = vec![("host", host), ("origin", origin), ("content-type", "application/grpc-web+proto")];
            headers.extend_from_slice(more);
            ask(console, "POST", "/teamwire.v1.TeamService/GetTeam", &headers)
        };
        for (console, host, origin, status) in [
            (&plain, "localhost:7420", "http://localhost:7420", 0),
            (&plain, "LOCALHOST:7420", "http://localhost:7420", 0),
            (&plain, "127.0.0.1", "http://127.0.0.1:80", 0),
            (&plain, "[::1]:7420", "http://[::1]:7420", 0),
            (&plain, "localhost:7420", "https://localhost:7420", 403),
            (&plain, "localhost:7420", "http://localhost:7421", 403),
            (&plain, "localhost:7420", "http://127.0.0.1:7420", 403),
            (&plain, "localhost:7420", "null", 403),
            (&plain, "localhost:7420", "http://evil.example", 403),
            (&plain, "evil.example:7420", "http://evil.example:7420", 403),
            (&plain, "coord.example", "https://page.example", 0),
            (&plain, "coord.example", "https://page.example.evil", 403),
            (&tls, "localhost", "https://localhost", 0),
            (&tls, "localhost", "https://localhost:443", 0),
            (&tls, "localhost", "http://localhost", 403),
        ] {
            assert_eq!(call(console, host, origin, &[]), status, "{host} {origin}");
        }
        let proxied = [("x-forwarded-proto", "https")];
        assert_eq!(call(&plain, "127.0.0.1", "https://127.0.0.1", &proxied), 0);
        assert_eq!(call(&plain, "127.0.0.1", "http://127.0.0.1", &proxied), 403);
    }

    #[test]
    fn only_native_grpc_calls_skip_the_host_check() {
        let console = console(&[], &[], false);
        let call = |version, headers: &[(&str, &str)]| {
            let mut request = Request::builder().method("POST").version(version).uri("http://any.example/x");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            console.shared.answer(&request.body(()).unwrap()).is_none()
        };
        let content = ("content-type", "application/grpc");
        assert!(call(Version::HTTP_2, &[content]));
        assert!(call(Version::HTTP_2, &[("content-type", "application/grpc+proto")]));
        assert!(!call(Version::HTTP_2, &[content, ("origin", "http://any.example")]), "a browser made it");
        assert!(!call(Version::HTTP_11, &[content]), "a browser may have made it");
        assert!(!call(Version::HTTP_2, &[("content-type", "application/grpc-web")]));
    }

    #[test]
    fn only_the_pages_own_files_are_served() {
        let console = console(&[], &[], false);
        let host = [("host", "localhost")];
        for path in ["/index.html", "/assets/", "/assets/../index.html", "//", "/x", "/%2e/", "/assets/a-1.js/"] {
            assert_eq!(ask(&console, "GET", path, &host), 404, "{path}");
        }
        for (path, status) in [("/", 200), ("/?x=1", 200), ("/assets/a-1.js", 200)] {
            assert_eq!(ask(&console, "GET", path, &host), status, "{path}");
            assert_eq!(ask(&console, "HEAD", path, &host), status, "{path}");
        }
    }
}
