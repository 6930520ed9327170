//! MCP over HTTP: an agent program gets a member's tools by URL, with nothing of teamwire installed.
//!
//! There are no sessions: each request stands alone, and may reach another coordinator than the one before. Nothing is
//! remembered between them. An answer may get lost on its way, so a message that `CheckInbox` has returned stays in the
//! inbox until a later call names it as processed.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};
use teamwire_client::{
    Client, Error, Reason,
    v1::{self, CallerKind},
};
use tokio_util::sync::CancellationToken;

use super::McpServer;
use crate::visible::shown_line;

/// An answer to a request over HTTP.
pub type HttpAnswer = Response<BoxBody<Bytes, Infallible>>;

/// The tools of all members, over HTTP.
#[derive(Debug)]
pub struct HttpServer {
    /// Cancelled when the coordinator ends.
    ending: CancellationToken,
}

impl HttpServer {
    /// Creates a server. Its waiting calls return early once `ending` is cancelled.
    pub fn new(ending: CancellationToken) -> Self {
        Self { ending }
    }

    /// Returns what is cancelled when the coordinator ends.
    pub fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// Returns the credential of a request, if it may have an answer from here.
    pub fn admit<'r>(&self, method: &Method, headers: &'r HeaderMap) -> Result<&'r str, Box<HttpAnswer>> {
        if method != Method::POST {
            let mut answer = says(StatusCode::METHOD_NOT_ALLOWED, "Only POST: this MCP server opens no streams.");
            answer.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static("POST"));
            return Err(answer.into());
        }
        if self.ending.is_cancelled() {
            return Err(later(StatusCode::SERVICE_UNAVAILABLE, "This coordinator is shutting down. Try again.").into());
        }
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let credential = given.next().and_then(|value| value.to_str().ok()).and_then(|value| value.split_once(' '));
        let bearer = credential.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let bearer = bearer.filter(|_| given.next().is_none()).map(|(_, credential)| credential.trim());
        bearer.ok_or_else(|| {
            unauthenticated(
                "The request has no credential. Send `Authorization: Bearer CREDENTIAL`; `teamwire mcp --http` creates one.",
            )
            .into()
        })
    }

    /// Answers a request whose credential cannot be one.
    pub fn malformed() -> HttpAnswer {
        unauthenticated("The credential is malformed. Use it as it was given, from its first to its last character.")
    }

    /// Finds out who calls. `client`: presents the request's credential.
    pub async fn caller(&self, client: &Client) -> Result<v1::Caller, Box<HttpAnswer>> {
        let reply =
            client.get_caller(v1::GetCallerRequest::default()).await.map_err(|error| Box::new(refused(&error)))?;
        let caller = reply.caller.unwrap_or_default();
        match caller.kind() {
            CallerKind::Member if !caller.read_only => Ok(caller),
            _ => Err(says(
                StatusCode::FORBIDDEN,
                "Only a member has tools. `teamwire mcp --http --as NAME` creates a member's tool credential.",
            )
            .into()),
        }
    }

    /// Answers a request of a member.
    pub async fn answer(&self, request: Request<Bytes>, client: Client, caller: v1::Caller) -> HttpAnswer {
        let gone = self.ending.child_token();
        // A program that gives up waiting drops this future.
        let _gone_when_dropped = gone.clone().drop_guard();
        let server = McpServer::over_http(client, caller, gone);
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            // The coordinator has checked both.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(usize::MAX);
        let sessions = Arc::new(NeverSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
        service.handle(request.map(Full::new)).await
    }
}

/// Answers with one line of text.
fn says(status: StatusCode, text: &str) -> HttpAnswer {
    let mut answer = Response::new(Full::new(Bytes::from(format!("{text}\n"))).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// Names no place to sign in: a program that finds one drops the credential that it was given.
fn unauthenticated(text: &str) -> HttpAnswer {
    let mut answer = says(StatusCode::UNAUTHORIZED, text);
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"teamwire\""));
    answer
}

fn later(status: StatusCode, text: &str) -> HttpAnswer {
    let mut answer = says(status, text);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// Answers a request whose credential was refused.
fn refused(error: &Error) -> HttpAnswer {
    let text = shown_line(&error.to_string());
    match error.reason() {
        Some(
            Reason::CredentialMissing
            | Reason::CredentialInvalid
            | Reason::CredentialRevoked
            | Reason::CredentialExpired
            | Reason::MemberStopped,
        ) => unauthenticated(&text),
        Some(Reason::RateLimited) => later(StatusCode::TOO_MANY_REQUESTS, &text),
        Some(Reason::NotPermitted) => says(StatusCode::FORBIDDEN, &text),
        _ => later(StatusCode::SERVICE_UNAVAILABLE, &text),
    }
}
