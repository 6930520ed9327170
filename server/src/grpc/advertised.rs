//! Where clients elsewhere reach this coordinator, as join strings tell them.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use teamwire_proto::{address::Address, credential::Credential, join_string::JoinString};
use tonic::{
    codegen::{Service, http},
    server::NamedService,
};

use crate::edge::{auth_gate::AuthGate, listen::SOCKET_PEER};

/// The addresses of a coordinator, and the authority to trust there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    /// Its addresses, and those of coordinators that share its store, as `https://HOST:PORT`; up to 16. Invalid ones
    /// are left out. Empty: the address that the call used.
    pub addresses: Vec<String>,
    /// The SHA-256 of a certificate in the chain that it shows, the authority to trust: `sha256:HEX` or `HEX`. `None`:
    /// clients use their default trust.
    pub ca_fingerprint: Option<String>,
    /// Its Unix socket. `None`: it has none.
    pub socket: Option<Address>,
}

impl Advertised {
    /// Composes the join string of a token that was created in a call to `called_at`. Returns the token alone if no
    /// address is known.
    pub(super) fn join_string(&self, token: &str, called_at: Option<&CalledAt>) -> String {
        let parse = |address: &String| address.parse::<Address>().ok();
        let mut addresses: Vec<Address> = self.addresses.iter().filter_map(parse).collect();
        if addresses.is_empty() {
            addresses.extend(called_at.map(|CalledAt(address)| address.clone()));
        }
        let fingerprint = self.ca_fingerprint.as_deref().and_then(|text| text.parse().ok());
        let joined = Credential::parse(token).ok().and_then(|token| JoinString::new(token, addresses, fingerprint));
        joined.map_or_else(|| token.to_owned(), |joined| joined.reveal())
    }
}

/// The address that a call used: an extension of its request.
#[derive(Clone, Debug)]
pub(super) struct CalledAt(Address);

impl CalledAt {
    /// Reads it from the pseudo-headers. A proxy that terminates TLS says so in `x-forwarded-proto`.
    fn of<B>(request: &http::Request<B>, socket: Option<&Address>) -> Option<Self> {
        let gate = request.extensions().get::<Arc<AuthGate>>();
        if gate.and_then(|gate| gate.peer()) == Some(SOCKET_PEER) {
            return socket.cloned().map(Self);
        }
        let authority = request.uri().authority()?;
        let forwarded = request.headers().get("x-forwarded-proto").and_then(|proto| proto.to_str().ok());
        let scheme = match forwarded.or_else(|| request.uri().scheme_str()) {
            Some("https") => "https",
            _ => "http",
        };
        format!("{scheme}://{authority}").parse().ok().map(Self)
    }
}

/// Attaches the address that each request used, because handlers do not see the request's URI.
#[derive(Clone, Debug)]
pub(super) struct NotesCalledAt<S> {
    pub(super) inner: S,
    /// The address of the coordinator's Unix socket.
    pub(super) socket: Option<Address>,
}

impl<S, B> Service<http::Request<B>> for NotesCalledAt<S>
where
    S: Service<http::Request<B>, Error = Infallible>,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        if let Some(called_at) = CalledAt::of(&request, self.socket.as_ref()) {
            request.extensions_mut().insert(called_at);
        }
        self.inner.call(request)
    }
}

impl<S: NamedService> NamedService for NotesCalledAt<S> {
    const NAME: &'static str = S::NAME;
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "twj:acme:x1:0123456789abcdef";

    fn called_at(uri: &str, forwarded: Option<&str>) -> Option<CalledAt> {
        let mut request = http::Request::builder().uri(uri);
        if let Some(forwarded) = forwarded {
            request = request.header("x-forwarded-proto", forwarded);
        }
        CalledAt::of(&request.body(()).expect("a request"), None)
    }

    #[test]
    fn a_join_string_has_the_advertised_addresses() {
        let fingerprint = format!("sha256:{}", "0a".repeat(32));
        let advertised = Advertised {
            addresses: vec!["https://a:7420".into(), "no address".into(), "https://b:7420".into()],
            ca_fingerprint: Some(fingerprint.clone()),
            socket: None,
        };
        let here = called_at("http://127.0.0.1:7420/x", None);
        let composed = advertised.join_string(TOKEN, here.as_ref());
        assert_eq!(composed, format!("{TOKEN}@https://a:7420,https://b:7420+{fingerprint}"));
    }

    #[test]
    fn without_advertised_addresses_a_join_string_has_the_address_of_the_call() {
        let composed = |uri, forwarded| Advertised::default().join_string(TOKEN, called_at(uri, forwarded).as_ref());
        assert_eq!(composed("http://10.0.0.1:7420/x", None), format!("{TOKEN}@http://10.0.0.1:7420"));
        assert_eq!(composed("https://coord.example/x", None), format!("{TOKEN}@https://coord.example"));
        assert_eq!(composed("http://coord.example/x", Some("https")), format!("{TOKEN}@https://coord.example"));
        // A client may write anything there.
        assert_eq!(composed("http://user@host/x", None), TOKEN);
        assert_eq!(composed("/x", None), TOKEN);
    }

    #[test]
    fn without_tls_a_join_string_has_no_fingerprint() {
        let advertised =
            Advertised { ca_fingerprint: Some(format!("sha256:{}", "0a".repeat(32))), ..Advertised::default() };
        let composed = advertised.join_string(TOKEN, called_at("http://10.0.0.1:7420/x", None).as_ref());
        assert_eq!(composed, format!("{TOKEN}@http://10.0.0.1:7420"));
    }
}
