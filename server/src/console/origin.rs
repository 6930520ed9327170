//! Which browser requests are permitted, by the host that they name and the origin of the page that makes them.
//!
//! A page of another site could have its own name resolve to this coordinator's address (DNS rebinding). Its requests
//! would then be same-origin with the coordinator for the browser. So the host must be an IP address, which cannot be
//! rebound, or a name that is known to be this coordinator's.

use std::net::{IpAddr, Ipv6Addr};

use http::{
    HeaderMap, HeaderName, Request, Uri,
    header::{HOST, ORIGIN},
    uri::Authority,
};

/// How a proxy that terminates TLS says so.
const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// The origin that stands for every one.
const ANY: &str = "*";

/// The hosts and origins that are permitted.
#[derive(Debug)]
pub(crate) struct Origins {
    /// In lower case.
    hosts: Vec<String>,
    others: Vec<String>,
    is_tls: bool,
}

impl Origins {
    pub(crate) fn new(hosts: &[String], others: &[String], is_tls: bool) -> Self {
        Self { hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(), others: others.to_vec(), is_tls }
    }

    /// Checks the host and the origin of a request. Fails with a line of text for the person at the browser.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), &'static str> {
        let origin = only(request.headers(), &ORIGIN)?;
        if origin.is_some_and(|origin| self.others.iter().any(|other| other == ANY || other == origin)) {
            return Ok(());
        }
        let authority = authority(request)?;
        if !self.is_known(authority.host()) {
            return Err(
                "The coordinator does not know this host name as its own. Use its address, or add the name to \
                 console.hosts.",
            );
        }
        let is_tls = self.is_tls || request.headers().get(FORWARDED_PROTO).is_some_and(|proto| proto == "https");
        match origin {
            Some(origin) if !is_same(origin, &authority, is_tls) => Err(
                "A page from another origin may not call this coordinator. Add its origin to web.origins to permit it.",
            ),
            _ => Ok(()),
        }
    }

    fn is_known(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        is_ip(&host) || host == "localhost" || self.hosts.contains(&host)
    }
}

/// Returns whether a text is the name of a host, as `console.hosts` takes it: without a port.
pub fn is_host(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}

fn is_ip(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<IpAddr>().is_ok(),
    }
}

/// Returns the host and port that a request names: in the URI over HTTP/2, in a header over HTTP/1.1.
fn authority<B>(request: &Request<B>) -> Result<Authority, &'static str> {
    let wrong = "The request must name one host.";
    let named = match request.uri().authority() {
        Some(authority) => authority.clone(),
        None => only(request.headers(), &HOST)?.and_then(|host| host.parse().ok()).ok_or(wrong)?,
    };
    if named.as_str().contains('@') || named.host().is_empty() { Err(wrong) } else { Ok(named) }
}

/// Returns a header that a request may have once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, &'static str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str().map_err(|_| "A header is not ASCII.")).transpose()?;
    if values.next().is_some() { Err("A header is given twice.") } else { Ok(value) }
}

/// Returns whether an origin is that of the requested host.
fn is_same(origin: &str, authority: &Authority, is_tls: bool) -> bool {
    let (scheme, implied) = if is_tls { ("https", 443) } else { ("http", 80) };
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(implied);
    origin.scheme_str() == Some(scheme)
        && origin
            .authority()
            .is_some_and(|of| of.host().eq_ignore_ascii_case(authority.host()) && port(of) == port(authority))
}
