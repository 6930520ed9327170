//! Certificates: read from PEM files, and reloaded while running.
//!
//! New certificates apply to new connections; open ones keep theirs. If the new files cannot be used, the old
//! certificates stay in force.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::RwLock;
use ring::digest::{SHA256, digest};
use tokio::{task::spawn_blocking, time::sleep};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, RootCertStore, ServerConfig,
        crypto::CryptoProvider,
        pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem, pem::PemObject as _},
        server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    },
};
use tokio_util::sync::CancellationToken;

/// The names of HTTP/2 and HTTP/1.1 in the handshake. Many MCP clients speak only the latter.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The certificates' files, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The coordinator's certificate, followed by those up to its CA, which may be included.
    pub cert: PathBuf,
    /// Its private key: PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
    /// The CAs of the clients. If given, every client must present a certificate of one of them.
    pub client_ca: Option<PathBuf>,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{} cannot be read: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} holds no {what} in PEM: {error}", .path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// Why it does not.
        error: pem::Error,
    },
    /// The certificates of the clients' CAs cannot be used.
    #[error("{} holds no certificate of a CA that can be used: {error}", .path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: rustls::Error,
    },
    /// The coordinator's certificate is not valid now: clients would refuse it.
    #[error("the certificate in {} {why}, so clients would refuse it. Renew it, or check this machine's clock", .path.display())]
    OutOfTime {
        /// The file.
        path: PathBuf,
        /// Whether it is too early or too late.
        why: &'static str,
    },
    /// Certificate and key cannot be used together.
    #[error("{} and {} cannot be used together: {error}", .cert.display(), .key.display())]
    Unusable {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The cause.
        error: rustls::Error,
    },
}

/// The certificates in force.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    ca_fingerprint: Option<String>,
    /// A fingerprint of the files that were last tried, whether they could be used or not.
    tried: [u8; 32],
    /// Whether the certificate that was last tried was not valid at that time, so that it is worth another try.
    was_out_of_time: bool,
}

impl Tls {
    /// Reads the certificates.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let contents = Contents::read(&files)?;
        let (config, ca_fingerprint) = contents.build(&files)?;
        let current =
            Current { config: Arc::new(config), ca_fingerprint, tried: contents.digest(), was_out_of_time: false };
        Ok(Self { files, current: RwLock::new(current) })
    }

    /// Reads the certificates again. Returns whether there are new ones. If they cannot be used, the old ones stay, and
    /// the same files are not tried again.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let contents = Contents::read(&self.files)?;
        let digest = contents.digest();
        let (is_known, was_out_of_time) = {
            let current = self.current.read();
            (current.tried == digest, current.was_out_of_time)
        };
        if is_known && !was_out_of_time {
            return Ok(false);
        }
        let built = contents.build(&self.files);
        let mut current = self.current.write();
        current.tried = digest;
        current.was_out_of_time = matches!(built, Err(TlsError::OutOfTime { .. }));
        if is_known && current.was_out_of_time {
            // Nothing has changed since that was reported.
            return Ok(false);
        }
        let (config, ca_fingerprint) = built?;
        current.config = Arc::new(config);
        current.ca_fingerprint = ca_fingerprint;
        Ok(true)
    }

    /// Reloads the certificates, and logs the result.
    pub fn refresh(&self) {
        match self.reload() {
            Ok(true) => tracing::info!(cert = %self.files.cert.display(), "new certificates are in force"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "the old certificates stay in force"),
        }
    }

    /// Checks for new certificates periodically, until cancelled.
    pub async fn keep_current(self: Arc<Self>, every: Duration, stop: CancellationToken) {
        while stop.run_until_cancelled(sleep(every)).await.is_some() {
            let tls = Arc::clone(&self);
            // Files may be slow to read. If the task panics, the certificates in force stay.
            let _ = spawn_blocking(move || tls.refresh()).await;
        }
    }

    /// Returns an acceptor with the certificates in force.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.read().config))
    }

    /// Returns the SHA-256 of the CA's certificate (its DER form, in lower-case hex), if the certificate's file
    /// includes it: the last one there, if it is self-issued.
    pub fn ca_fingerprint(&self) -> Option<String> {
        self.current.read().ca_fingerprint.clone()
    }
}

/// The contents of the files.
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let read = |path: &Path| fs::read(path).map_err(|error| TlsError::Unreadable { path: path.to_owned(), error });
        Ok(Self {
            cert: read(&files.cert)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn digest(&self) -> [u8; 32] {
        let mut all = ring::digest::Context::new(&SHA256);
        for part in [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()].into_iter().flatten() {
            all.update(digest(&SHA256, part).as_ref());
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(all.finish().as_ref());
        bytes
    }

    fn build(&self, files: &TlsFiles) -> Result<(ServerConfig, Option<String>), TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = certificates(&self.cert, &files.cert)?;
        check_time(&chain[0], &files.cert)?;
        let ca_fingerprint = chain.last().and_then(fingerprint_of_ca);
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| TlsError::NotPem {
            path: files.key.clone(),
            what: "private key",
            error,
        })?;
        let unusable = |error| TlsError::Unusable { cert: files.cert.clone(), key: files.key.clone(), error };
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let config = match (&self.client_ca, &files.client_ca) {
            (Some(pem), Some(path)) => config.with_client_cert_verifier(verifier(pem, path, provider)?),
            _ => config.with_no_client_auth(),
        };
        let mut config = config.with_single_cert(chain, key).map_err(unusable)?;
        config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
        Ok((config, ca_fingerprint))
    }
}

/// Fails if a certificate has expired, or is not valid yet.
fn check_time(certificate: &CertificateDer<'_>, path: &Path) -> Result<(), TlsError> {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return Ok(()) };
    // Its time is checked first. Who has issued it is for the clients to judge.
    let usage = webpki::KeyUsage::server_auth();
    let why = match certificate.verify_for_usage(&[], &[], &[], UnixTime::now(), usage, None, None) {
        Err(webpki::Error::CertExpired { .. }) => "has expired",
        Err(webpki::Error::CertNotValidYet { .. }) => "is not valid yet",
        _ => return Ok(()),
    };
    Err(TlsError::OutOfTime { path: path.to_owned(), why })
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let not_pem = |error| TlsError::NotPem { path: path.to_owned(), what: "certificate", error };
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(not_pem)?;
    if found.is_empty() { Err(not_pem(pem::Error::NoItemsFound)) } else { Ok(found) }
}

/// Makes the verifier that requires clients to present a certificate of one of these CAs.
fn verifier(pem: &[u8], path: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let unusable = |error| TlsError::ClientCa { path: path.to_owned(), error };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, path)? {
        roots.add(certificate).map_err(unusable)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| unusable(rustls::Error::General(error.to_string())))
}

fn fingerprint_of_ca(der: &CertificateDer<'_>) -> Option<String> {
    let certificate = webpki::EndEntityCert::try_from(der).ok()?;
    (certificate.issuer() == certificate.subject()).then(|| hex::encode(digest(&SHA256, der)))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

    use super::*;

    #[test]
    fn the_fingerprint_is_that_of_the_ca_that_ends_the_chain() {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "a CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "a coordinator");
        let cert = params.signed_by(&key, &ca).unwrap();

        let files = TlsFiles {
            cert: directory.path().join("cert.pem"),
            key: directory.path().join("key.pem"),
            client_ca: None,
        };
        fs::write(&files.key, key.serialize_pem()).unwrap();
        fs::write(&files.cert, cert.pem()).unwrap();
        let tls = Tls::load(files.clone()).unwrap();
        assert_eq!(tls.ca_fingerprint(), None, "the chain does not say which CA it is");
        assert!(!tls.reload().unwrap(), "nothing is new");

        fs::write(&files.cert, cert.pem() + &ca.pem()).unwrap();
        assert!(tls.reload().unwrap());
        assert_eq!(tls.ca_fingerprint(), Some(hex::encode(digest(&SHA256, ca.der()))));

        fs::write(&files.key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
        assert!(matches!(tls.reload(), Err(TlsError::Unusable { .. })));
        assert!(tls.ca_fingerprint().is_some(), "the old ones stay");
        assert!(!tls.reload().unwrap(), "the same files are not tried again");
    }

    #[test]
    fn a_certificate_that_is_not_valid_now_is_refused_and_the_old_one_stays() {
        let directory = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            cert: directory.path().join("cert.pem"),
            key: directory.path().join("key.pem"),
            client_ca: None,
        };
        let key = KeyPair::generate().unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        let write = |from_year: i32, to_year: i32| {
            let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
            params.not_before = rcgen::date_time_ymd(from_year, 1, 1);
            params.not_after = rcgen::date_time_ymd(to_year, 1, 1);
            fs::write(&files.cert, params.self_signed(&key).unwrap().pem()).unwrap();
        };
        write(2001, 2002);
        let error = Tls::load(files.clone()).unwrap_err();
        assert!(error.to_string().contains("has expired"), "{error}");
        write(2001, 2998);
        let tls = Tls::load(files.clone()).unwrap();
        let before = tls.ca_fingerprint();
        write(2997, 2998);
        let error = tls.reload().unwrap_err();
        assert!(error.to_string().contains("is not valid yet"), "{error}");
        assert!(!tls.reload().unwrap(), "that was said");
        assert_eq!(tls.ca_fingerprint(), before, "the old one stays");
        write(2002, 2998);
        assert!(tls.reload().unwrap());
    }
}
