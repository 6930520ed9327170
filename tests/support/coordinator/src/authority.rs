//! A certificate authority for tests.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use ring::digest::{SHA256, digest};
use teamwire_proto::join_string::Fingerprint;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub struct Issued {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.as_ref().pem()
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(digest(&SHA256, self.0.as_ref().der()).as_ref().try_into().unwrap())
    }

    /// Issues a certificate for a host or a client.
    pub fn issue(&self, name: &str) -> Issued {
        self.sign(CertificateParams::new([name.to_owned()]).unwrap())
    }

    pub fn issue_expired(&self, name: &str) -> Issued {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Issued {
        let key = KeyPair::generate().unwrap();
        Issued { cert: params.signed_by(&key, &self.0).unwrap().pem(), key: key.serialize_pem() }
    }
}

impl Issued {
    /// Returns the TLS configuration of a coordinator that presents this certificate and an authority's.
    pub fn serve(&self, chain: &Authority) -> ServerTlsConfig {
        let chain = format!("{}{}", self.cert, chain.pem());
        ServerTlsConfig::new().identity(Identity::from_pem(chain, &self.key))
    }

    /// Returns the same, for a coordinator that requires client certificates of another authority.
    pub fn serve_only(&self, chain: &Authority, clients: &Authority) -> ServerTlsConfig {
        self.serve(chain).client_ca_root(Certificate::from_pem(clients.pem()))
    }
}
