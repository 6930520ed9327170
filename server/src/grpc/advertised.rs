//! Where clients elsewhere reach this coordinator, as join strings tell them.

use std::net::SocketAddr;

use http::{HeaderValue, Uri};
use teamwire_proto::{address::Address, credential::Credential, join_string::JoinString};

use crate::edge::listen::SOCKET_PEER;

/// The addresses of a coordinator, and the authority to trust there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    /// Its addresses, and those of coordinators that share its store, as `https://HOST:PORT`; up to 16. Invalid ones
    /// are left out. Empty means the address that the call used.
    pub addresses: Vec<String>,
    /// The SHA-256 of a certificate in the chain that it shows, the authority to trust: `sha256:HEX` or `HEX`. `None`:
    /// clients use their default trust.
    pub ca_fingerprint: Option<String>,
    /// Its Unix socket. `None` if it has none.
    pub socket: Option<Address>,
}

impl Advertised {
    /// Composes the join string of a token that was created in a call to `called_at`. Returns the token alone if no
    /// address is known.
    pub(super) fn join_string(&self, token: &str, called_at: Option<&Address>) -> String {
        let parse = |address: &String| address.parse::<Address>().ok();
        let mut addresses: Vec<Address> = self.addresses.iter().filter_map(parse).collect();
        if addresses.is_empty() {
            addresses.extend(called_at.cloned());
        }
        let fingerprint = self.ca_fingerprint.as_deref().and_then(|text| text.parse().ok());
        let joined = Credential::parse(token).ok().and_then(|token| JoinString::new(token, addresses, fingerprint));
        joined.map_or_else(|| token.to_owned(), |joined| joined.reveal())
    }
}

/// Reads the address that a call used from its pseudo-headers. A proxy that terminates TLS says so in
/// `x-forwarded-proto`. A call over the coordinator's Unix socket used the address of that.
pub(super) fn called_at(
    uri: &Uri,
    forwarded: Option<&HeaderValue>,
    peer: Option<SocketAddr>,
    socket: Option<&Address>,
) -> Option<Address> {
    if peer == Some(SOCKET_PEER) {
        return socket.cloned();
    }
    let authority = uri.authority()?;
    let forwarded = forwarded.and_then(|proto| proto.to_str().ok());
    let scheme = match forwarded.or_else(|| uri.scheme_str()) {
        Some("https") => "https",
        _ => "http",
    };
    format!("{scheme}://{authority}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "twj:acme:x1:0123456789abcdef";

    fn called_at(uri: &str, forwarded: Option<&'static str>) -> Option<Address> {
        let forwarded = forwarded.map(HeaderValue::from_static);
        super::called_at(&uri.parse().expect("a URI"), forwarded.as_ref(), None, None)
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
