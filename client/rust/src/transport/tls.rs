//! TLS: the authorities that a client trusts, and the certificate it presents.

use std::{convert::Infallible, fmt, fs, path::PathBuf, str::FromStr, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use teamwire_proto::{
    address::{Address, TcpAddress},
    join_string::Fingerprint,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore, SignatureScheme,
        client::{ResolvesClientCert, Resumption},
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
        sign::CertifiedKey,
    },
};

use super::{Fault, connect::Stream, trust::FingerprintVerifier, wire::Handshake};
use crate::Error;

/// Something in PEM: in a file, or inline.
///
/// A string with `-----BEGIN` in it is PEM; any other string is a path. The `Debug` form leaves the PEM out, which may
/// be a key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Pem {
    /// The path of a file.
    File(PathBuf),
    /// The PEM itself.
    Text(String),
}

impl Pem {
    /// Returns the PEM. Reads a file each time, so that a replaced file takes effect.
    fn read(&self) -> Result<Vec<u8>, Error> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::File(path) => {
                fs::read(path).map_err(|error| Error::TlsOptions(format!("{} cannot be read: {error}", path.display())))
            }
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let text = self.read()?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let none = |detail: &str| Error::TlsOptions(format!("{self} holds no certificate in PEM{detail}"));
        let certificates = certificates.map_err(|error| none(&format!(": {error}")))?;
        if certificates.is_empty() { Err(none("")) } else { Ok(certificates) }
    }
}

impl From<String> for Pem {
    fn from(text: String) -> Self {
        if text.contains("-----BEGIN") { Self::Text(text) } else { Self::File(text.into()) }
    }
}

impl FromStr for Pem {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.to_owned().into())
    }
}

impl From<Pem> for String {
    fn from(pem: Pem) -> Self {
        match pem {
            Pem::File(path) => path.to_string_lossy().into_owned(),
            Pem::Text(text) => text,
        }
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text(_) => f.write_str("the text"),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            Self::Text(_) => f.write_str("PEM"),
        }
    }
}

/// The authorities that a client trusts and the certificate it presents. Used for `https` addresses only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsOptions {
    /// The certificates of the only authorities to trust. If `None`, a fingerprint decides, or else the system's
    /// authorities do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<Pem>,
    /// Without a `ca`: the fingerprint of a certificate in the coordinator's chain, the only authority to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// The client's certificate, with any intermediate ones. Requires `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<Pem>,
    /// The key of the client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Pem>,
}

impl TlsOptions {
    /// Returns whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn names_files(&self) -> bool {
        [&self.ca, &self.cert, &self.key].into_iter().flatten().any(|pem| matches!(pem, Pem::File(_)))
    }
}

/// The TLS of one transport.
pub(super) struct Tls {
    options: TlsOptions,
    config: Mutex<Arc<ClientConfig>>,
    by_fingerprint: Option<Arc<FingerprintVerifier>>,
}

impl Tls {
    pub(super) fn new(options: TlsOptions) -> Result<Self, Error> {
        let by_fingerprint = match (&options.ca, options.fingerprint) {
            (None, Some(fingerprint)) => Some(Arc::new(FingerprintVerifier::new(fingerprint))),
            _ => None,
        };
        let config = Mutex::new(configure(&options, by_fingerprint.as_ref())?);
        Ok(Self { options, config, by_fingerprint })
    }

    /// Returns the options, with the authority itself in the place of its fingerprint once it is known.
    pub(super) fn options(&self) -> TlsOptions {
        match self.by_fingerprint.as_ref().and_then(|trust| trust.authority()) {
            Some(authority) => {
                let text = pem::encode_config(
                    &pem::Pem::new("CERTIFICATE", authority.to_vec()),
                    pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
                );
                TlsOptions { ca: Some(Pem::Text(text)), fingerprint: None, ..self.options.clone() }
            }
            None => self.options.clone(),
        }
    }

    /// Does the TLS handshake with a coordinator.
    pub(super) async fn connect(
        &self,
        address: &TcpAddress,
        stream: Stream,
        handshake: &Arc<Handshake>,
    ) -> Result<TlsStream<Stream>, Fault> {
        let name = ServerName::try_from(address.host.clone())
            .map_err(|_| Fault::lasting(format!("{} is not a name that a certificate can cover", address.host)))?;
        let mut config = ClientConfig::clone(&*self.config());
        config.client_auth_cert_resolver = Arc::new(NotingResolver {
            certificate: config.client_auth_cert_resolver,
            handshake: Arc::clone(handshake),
        });
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.map_err(|error| Fault::of(&error, &Address::Tcp(address.clone())))
    }

    /// Returns the configuration. Reads files again, since renewed certificates replace them.
    fn config(&self) -> Arc<ClientConfig> {
        let mut config = self.config.lock();
        if self.options.names_files() {
            match configure(&self.options, self.by_fingerprint.as_ref()) {
                Ok(renewed) => *config = renewed,
                Err(error) => tracing::warn!(%error, "the certificates cannot be read again; using the earlier ones"),
            }
        }
        Arc::clone(&config)
    }
}

fn configure(
    options: &TlsOptions,
    by_fingerprint: Option<&Arc<FingerprintVerifier>>,
) -> Result<Arc<ClientConfig>, Error> {
    let unusable = |what: String| Error::TlsOptions(what);
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?;
    let builder = match (&options.ca, by_fingerprint) {
        (None, Some(trust)) => builder.dangerous().with_custom_certificate_verifier(Arc::clone(trust) as _),
        (ca, _) => {
            let mut roots = RootCertStore::empty();
            match ca {
                Some(ca) => {
                    for certificate in ca.certificates()? {
                        roots
                            .add(certificate)
                            .map_err(|error| unusable(format!("{ca} holds no authority: {error}")))?;
                    }
                }
                None => {
                    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                }
            }
            builder.with_root_certificates(roots)
        }
    };
    let mut config = match (&options.cert, &options.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let certificates = cert.certificates()?;
            let secret = PrivateKeyDer::from_pem_slice(&key.read()?)
                .map_err(|error| unusable(format!("{key} holds no key in PEM: {error}")))?;
            builder
                .with_client_auth_cert(certificates, secret)
                .map_err(|error| unusable(format!("{cert} and {key} do not go together: {error}")))?
        }
        _ => return Err(unusable("a client certificate needs its key: give --cert and --key together".to_owned())),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Connections are few and long, and the peer of a resumed one would not ask for its certificate.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Presents the client's certificate, and records that the peer has asked for one.
#[derive(Debug)]
struct NotingResolver {
    certificate: Arc<dyn ResolvesClientCert>,
    handshake: Arc<Handshake>,
}

impl ResolvesClientCert for NotingResolver {
    fn resolve(&self, authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let shown = self.certificate.resolve(authorities, schemes);
        self.handshake.certificate_asked(shown.is_some());
        shown
    }

    fn has_certs(&self) -> bool {
        self.certificate.has_certs()
    }
}
