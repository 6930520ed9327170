//! TLS: whom a client trusts, and what it shows of itself.

use std::{
    convert::Infallible,
    fmt, fs,
    path::PathBuf,
    str::FromStr,
    sync::{Arc, Mutex},
};

use serde::{Deserialize, Serialize};
use teamwire_proto::{address::Address, join_string::Fingerprint};
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

use super::{Fault, connect::Stream, lock, trust::ByFingerprint, wire::Signs};
use crate::Error;

/// What is written in PEM: in a file, or here.
///
/// As text it is the one or the other: what has `-----BEGIN` in it is PEM, and anything else is a path. Its `Debug` form
/// leaves the PEM out, which may be a key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Pem {
    /// The path of a file.
    File(PathBuf),
    /// PEM.
    Text(String),
}

impl Pem {
    /// Reads it. A file is read each time, so that one that was replaced is found.
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

/// Whom a client trusts, and what it shows of itself. Used with `https` addresses only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsOptions {
    /// The only authorities to trust, one or more certificates. None: by the fingerprint, or else those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<Pem>,
    /// Without a `ca`: a certificate in the coordinator's chain, and from then on the only authority to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// The client's certificate, with those between it and its authority. Goes with `key`.
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
    by_fingerprint: Option<Arc<ByFingerprint>>,
}

impl Tls {
    pub(super) fn new(options: TlsOptions) -> Result<Self, Error> {
        let by_fingerprint = match (&options.ca, options.fingerprint) {
            (None, Some(fingerprint)) => Some(Arc::new(ByFingerprint::new(fingerprint))),
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

    /// Agrees on TLS with a coordinator, and makes sure that it is one.
    pub(super) async fn connect(
        &self,
        address: &Address,
        stream: Stream,
        signs: &Arc<Signs>,
    ) -> Result<TlsStream<Stream>, Fault> {
        let name = ServerName::try_from(address.host.clone())
            .map_err(|_| Fault::lasting(format!("no certificate can be for {}", address.host)))?;
        let mut config = ClientConfig::clone(&*self.config());
        config.client_auth_cert_resolver =
            Arc::new(Shown { certificate: config.client_auth_cert_resolver, signs: Arc::clone(signs) });
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.map_err(|error| Fault::of(&error, address))
    }

    /// Returns the configuration; anew where it is in files, which are replaced when certificates are renewed.
    fn config(&self) -> Arc<ClientConfig> {
        let mut config = lock(&self.config);
        if self.options.names_files() {
            match configure(&self.options, self.by_fingerprint.as_ref()) {
                Ok(renewed) => *config = renewed,
                Err(error) => tracing::warn!(%error, "going on with the certificates of before"),
            }
        }
        Arc::clone(&config)
    }
}

fn configure(options: &TlsOptions, by_fingerprint: Option<&Arc<ByFingerprint>>) -> Result<Arc<ClientConfig>, Error> {
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
    // Connections are few and long, and one that is resumed would not be asked for its certificate.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Shows the client's certificate, and notes when one was asked for.
#[derive(Debug)]
struct Shown {
    certificate: Arc<dyn ResolvesClientCert>,
    signs: Arc<Signs>,
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let shown = self.certificate.resolve(authorities, schemes);
        self.signs.certificate_asked(shown.is_some());
        shown
    }

    fn has_certs(&self) -> bool {
        self.certificate.has_certs()
    }
}
