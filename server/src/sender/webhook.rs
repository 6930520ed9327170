//! Sends notifications over HTTP, signed as Standard Webhooks says.
//!
//! A receiver's name is resolved once, the addresses are checked, and the connection goes to an address that was
//! checked. No proxy is used, and no redirect is followed. Of the answer, only the head is read, up to a bound.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, Uri, header, uri::Scheme};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use ring::hmac;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::{TlsConnector, rustls};
use tokio_util::task::AbortOnDropHandle;

use super::{SendError, is_public};

/// How many bytes the head of an answer may have.
const HEAD_BYTES_MAX: usize = 16 * 1_024;

/// What a secret begins with. The remainder is the key in base64.
const SECRET_PREFIX: &str = "whsec_";

/// How many bytes a key may have, by Standard Webhooks.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A server that gets notifications.
pub struct Webhook {
    uri: Uri,
    host: String,
    port: u16,
    is_tls: bool,
    /// Each signs every notification, so that a secret can be replaced.
    keys: Vec<hmac::Key>,
    allow_private: bool,
    /// Made when it is first used.
    tls: OnceLock<Arc<rustls::ClientConfig>>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({self})")
    }
}

/// Leaves out the path, which is often secret.
impl fmt::Display for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}://{}",
            if self.is_tls { "https" } else { "http" },
            self.uri.authority().map_or("", |of| of.as_str())
        )
    }
}

impl Webhook {
    /// Reads the URL of a server. Each of the `secrets` signs. `allow_private`: also without TLS, and at addresses that
    /// are not [public](is_public). Says what is wrong with them, for a sentence that begins with the key.
    pub fn new(url: &str, secrets: &[&str], allow_private: bool) -> Result<Self, String> {
        let is_url = "is not a URL of the form https://HOST[:PORT]/PATH";
        let uri: Uri = url.parse().map_err(|_| is_url.to_owned())?;
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP && allow_private => false,
            Some(scheme) if *scheme == Scheme::HTTP => {
                return Err("is not https. Only with allow_private = true, notifications may go without TLS".to_owned());
            }
            _ => return Err(is_url.to_owned()),
        };
        let authority = uri.authority().ok_or(is_url)?;
        if authority.as_str().contains('@') {
            return Err("holds a user or a password, which are not used. Leave them out".to_owned());
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        if !allow_private && host.parse().is_ok_and(|address| !is_public(address)) {
            return Err("is a private address. To allow it, set allow_private = true".to_owned());
        }
        let keys = secrets.iter().map(|secret| key(secret)).collect::<Result<_, _>>()?;
        Ok(Self { host, port, is_tls, keys, allow_private, tls: OnceLock::new(), uri })
    }

    /// See [`Target::send`](super::Target::send).
    pub(super) async fn send(&self, id: &str, body: &str, limit: Duration) -> Result<(), SendError> {
        let sent = timeout(limit, self.post(id, body)).await;
        sent.unwrap_or(Err(SendError::TimedOut { limit, said: String::new() }))
    }

    async fn post(&self, id: &str, body: &str) -> Result<(), SendError> {
        let stream = connect(&self.addresses().await?).await?;
        if !self.is_tls {
            return self.exchange(stream, id, body).await;
        }
        let name = rustls::pki_types::ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| SendError::Connect(std::io::Error::other(error)))?;
        let connector = TlsConnector::from(Arc::clone(self.tls()?));
        self.exchange(connector.connect(name, stream).await.map_err(SendError::Connect)?, id, body).await
    }

    /// Resolves the server's name, and returns those of its addresses that are allowed.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, SendError> {
        let found = lookup_host((self.host.as_str(), self.port)).await.map_err(SendError::Resolve)?;
        let allowed: Vec<_> = found.filter(|address| self.allow_private || is_public(address.ip())).collect();
        if allowed.is_empty() { Err(SendError::Private) } else { Ok(allowed) }
    }

    fn tls(&self) -> Result<&Arc<rustls::ClientConfig>, SendError> {
        if let Some(known) = self.tls.get() {
            return Ok(known);
        }
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(SendError::NoAuthorities);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring supports the default versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(self.tls.get_or_init(|| Arc::new(config)))
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        id: &str,
        body: &str,
    ) -> Result<(), SendError> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX).max_headers(100);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let answer = sender.send_request(self.request(id, body)).await?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(SendError::Refused { status }) }
    }

    fn request(&self, id: &str, body: &str) -> Request<Full<Bytes>> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        Request::post(self.uri.path_and_query().map_or("/", |path| path.as_str()))
            .header(header::HOST, authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("teamwire/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", id)
            .header("webhook-timestamp", now_s)
            .header("webhook-signature", self.signatures(id, now_s, body))
            .body(Full::from(body.to_owned()))
            .expect("every header is made of visible ASCII characters")
    }

    /// Signs a notification, which is sent at this time, with each key.
    fn signatures(&self, id: &str, at_s: u64, body: &str) -> String {
        let signed = format!("{id}.{at_s}.{body}");
        let sign = |key| format!("v1,{}", BASE64_STANDARD.encode(hmac::sign(key, signed.as_bytes())));
        self.keys.iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}

/// Connects to the first of these addresses that accepts.
async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, SendError> {
    TcpStream::connect(addresses).await.map_err(SendError::Connect)
}

fn key(secret: &str) -> Result<hmac::Key, String> {
    let encoded = secret.strip_prefix(SECRET_PREFIX).unwrap_or_default();
    let bytes = BASE64_STANDARD.decode(encoded).ok().filter(|bytes| KEY_BYTES.contains(&bytes.len()));
    let bytes = bytes.ok_or_else(|| {
        format!(
            "has a secret of another form than {SECRET_PREFIX}BASE64, with {} to {} bytes. `echo \
             {SECRET_PREFIX}$(openssl rand -base64 32)` makes one",
            KEY_BYTES.start(),
            KEY_BYTES.end()
        )
    })?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    fn refused(url: &str, allow_private: bool) -> String {
        Webhook::new(url, &[SECRET], allow_private).unwrap_err()
    }

    /// The example of the specification.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let body = r#"{"email":"test@example.com","username":"test_user"}"#;
        let webhook = Webhook::new("https://example.com/", &[SECRET, SECRET], false).unwrap();
        let signature = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";
        let signed = webhook.signatures("msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1_649_367_553, body);
        assert_eq!(signed, format!("{signature} {signature}"));
    }

    #[test]
    fn urls_that_would_reveal_or_reach_too_much_are_refused() {
        assert!(refused("example.com", false).contains("not a URL"));
        assert!(refused("/path", false).contains("not a URL"));
        assert!(refused("ftp://example.com/", true).contains("not a URL"));
        assert!(refused("http://example.com/", false).contains("allow_private"));
        assert!(refused("https://ann:secret@example.com/", false).contains("user or a password"));
        for private in ["127.0.0.1", "169.254.169.254:80", "[::1]:1", "[::ffff:10.0.0.1]"] {
            assert!(refused(&format!("https://{private}/x"), false).contains("private address"), "{private}");
            Webhook::new(&format!("http://{private}/x"), &[SECRET], true).unwrap();
        }
        let shown = Webhook::new("https://hooks.example.com/T0/secret", &[SECRET], false).unwrap();
        assert_eq!(
            (shown.to_string(), format!("{shown:?}").contains("secret")),
            ("https://hooks.example.com".into(), false)
        );
    }

    #[test]
    fn secrets_of_another_form_are_refused() {
        for secret in ["", "whsec_", "C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_c2hvcnQ=", "whsec_!"] {
            let refused = Webhook::new("https://example.com/", &[secret], false).unwrap_err();
            assert!(refused.contains("openssl rand"), "{refused}");
        }
    }

    /// A name may be resolved to an address that no one has configured.
    #[tokio::test]
    async fn a_name_with_a_private_address_is_refused() {
        let webhook = Webhook::new("https://localhost:1/", &[SECRET], false).unwrap();
        assert!(matches!(webhook.addresses().await, Err(SendError::Private)));
        assert!(!Webhook::new("https://localhost:1/", &[SECRET], true).unwrap().addresses().await.unwrap().is_empty());
    }
}
