//! Trust by fingerprint: the join string identifies the authority.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use ring::digest::{SHA256, digest};
use teamwire_proto::join_string::Fingerprint;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring::default_provider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Trusts only the certificate in the coordinator's chain that has the fingerprint. The coordinator's own certificate
/// must be issued by it, be valid, and cover the host's name, as with any other authority.
#[derive(Debug)]
pub(super) struct FingerprintVerifier {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
    /// The authority's certificate, once a coordinator has proven to hold one that it issued. Later chains may omit it.
    authority: OnceLock<CertificateDer<'static>>,
}

/// No certificate of the chain has the fingerprint.
#[derive(Debug)]
struct NotInChain(Fingerprint);

impl fmt::Display for NotInChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it does not present the certificate {}, so it is not the coordinator that the join string is for. Ask for a \
             new join string; if that does not help, someone may be intercepting the connection",
            self.0
        )
    }
}

impl std::error::Error for NotInChain {}

impl FingerprintVerifier {
    pub(super) fn new(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, provider: Arc::new(default_provider()), authority: OnceLock::new() }
    }

    pub(super) fn authority(&self) -> Option<&CertificateDer<'static>> {
        self.authority.get()
    }

    fn has_fingerprint(&self, certificate: &CertificateDer<'_>) -> bool {
        digest(&SHA256, certificate).as_ref() == self.fingerprint.0
    }
}

impl ServerCertVerifier for FingerprintVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain = intermediates.iter().chain([end_entity]);
        let shown = chain.into_iter().find(|certificate| self.has_fingerprint(certificate));
        let authority =
            shown.map(|certificate| certificate.clone().into_owned()).or_else(|| self.authority.get().cloned());
        let authority = authority.ok_or_else(|| {
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(NotInChain(self.fingerprint)))))
        })?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        let verified = verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        self.authority.get_or_init(|| authority);
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
