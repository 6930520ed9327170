//! A certificate authority in a directory, for development and for networks of one's own.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use ring::digest::{SHA256, digest};
use teamwire_proto::join_string::Fingerprint;

use crate::{
    context::{make_private_directory, write_private},
    failure::Failure,
};

/// How long before now a certificate begins to be good, for machines whose clocks go behind.
const BACKDATED: Duration = Duration::from_secs(60 * 60);

/// One day.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a certificate is for.
pub enum Purpose<'a> {
    /// A coordinator that is reached under these names and IP addresses.
    Server(&'a [String]),
    /// A client of this name.
    Client(&'a str),
}

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Files {
    fn named(directory: &Path, name: &str) -> Self {
        Self { cert: directory.join(format!("{name}.crt")), key: directory.join(format!("{name}.key")) }
    }

    /// Writes both, the key for its owner only.
    fn write(&self, cert: &str, key: &KeyPair) -> Result<(), Failure> {
        write_private(&self.key, key.serialize_pem().as_bytes())?;
        write_private(&self.cert, cert.as_bytes())?;
        fs::set_permissions(&self.cert, fs::Permissions::from_mode(0o644))?;
        Ok(())
    }
}

/// An authority that can issue certificates.
pub struct Authority {
    directory: PathBuf,
    files: Files,
    cert: String,
    issuer: Issuer<'static, KeyPair>,
    fingerprint: Fingerprint,
    is_new: bool,
}

impl Authority {
    /// Opens the authority of a directory; makes it, good for this many days, where there is none.
    pub fn open(directory: &Path, days: u32) -> Result<Self, Failure> {
        make_private_directory(directory)?;
        let files = Files::named(directory, "ca");
        let is_new = match (files.cert.exists(), files.key.exists()) {
            (false, false) => true,
            (true, true) => false,
            _ => {
                return Err(Failure::usage(format!(
                    "{} has one of ca.crt and ca.key, and not the other. Put it back, or choose another --dir.",
                    directory.display()
                )));
            }
        };
        if is_new {
            let key = KeyPair::generate().map_err(failed)?;
            let cert = params_of_authority(days).self_signed(&key).map_err(failed)?;
            files.write(&cert.pem(), &key)?;
        }
        let unusable =
            |what: &Path, error: String| Failure::usage(format!("{} cannot be used: {error}.", what.display()));
        let cert = fs::read_to_string(&files.cert).map_err(|error| unusable(&files.cert, error.to_string()))?;
        let key = fs::read_to_string(&files.key).map_err(|error| unusable(&files.key, error.to_string()))?;
        let key = KeyPair::from_pem(&key).map_err(|error| unusable(&files.key, error.to_string()))?;
        let der = der_of(&cert).map_err(|error| unusable(&files.cert, error))?;
        let fingerprint = digest(&SHA256, &der).as_ref().try_into().map_err(failed)?;
        let issuer = Issuer::from_ca_cert_pem(&cert, key).map_err(|error| unusable(&files.cert, error.to_string()))?;
        let directory = directory.to_owned();
        Ok(Self { directory, files, cert, issuer, fingerprint: Fingerprint(fingerprint), is_new })
    }

    /// Issues a certificate, good for this many days, into `NAME.crt` and `NAME.key`. What was there is replaced.
    pub fn issue(&self, name: &str, purpose: &Purpose<'_>, days: u32) -> Result<Files, Failure> {
        let (hosts, usage, common_name) = match purpose {
            Purpose::Server(hosts) => (hosts.to_vec(), ExtendedKeyUsagePurpose::ServerAuth, "teamwire coordinator"),
            Purpose::Client(client) => (Vec::new(), ExtendedKeyUsagePurpose::ClientAuth, *client),
        };
        let mut params = CertificateParams::new(hosts)
            .map_err(|error| Failure::usage(format!("A certificate cannot be for one of these hosts: {error}.")))?;
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, days);
        let key = KeyPair::generate().map_err(failed)?;
        let cert = params.signed_by(&key, &self.issuer).map_err(failed)?.pem();
        let files = Files::named(&self.directory, name);
        // With the authority's own, by whose fingerprint clients know it.
        files.write(&format!("{cert}{}", self.cert), &key)?;
        Ok(files)
    }

    /// Returns the authority's own certificate and key.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Returns what the authority is known by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns whether it was made just now.
    pub fn is_new(&self) -> bool {
        self.is_new
    }
}

fn params_of_authority(days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    // Of two with the same name, a client could not say which one it misses.
    let name = format!("teamwire authority {:08x}", rand::random::<u32>());
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, days);
    params
}

fn set_validity(params: &mut CertificateParams, days: u32) {
    let now = SystemTime::now();
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + DAY * days).into();
}

fn der_of(cert: &str) -> Result<Vec<u8>, String> {
    let parsed = pem::parse(cert).map_err(|error| error.to_string())?;
    Ok(parsed.into_contents())
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::local("a certificate cannot be made", error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use tokio_rustls::rustls::{
        Error, RootCertStore,
        client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
        crypto::ring::default_provider,
        pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
        server::WebPkiClientVerifier,
    };

    use super::*;

    fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(&fs::read(path).unwrap()).map(Result::unwrap).collect()
    }

    fn roots(authority: &Authority) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(certificates(&authority.files().cert).remove(0)).unwrap();
        Arc::new(roots)
    }

    fn verify(authority: &Authority, files: &Files, host: &str) -> Result<(), Error> {
        let chain = certificates(&files.cert);
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots(authority), Arc::new(default_provider())).build();
        let host = ServerName::try_from(host.to_owned()).unwrap();
        verifier.unwrap().verify_server_cert(&chain[0], &chain[1..], &host, &[], UnixTime::now()).map(drop)
    }

    fn verify_client(authority: &Authority, files: &Files) -> Result<(), Error> {
        let chain = certificates(&files.cert);
        let builder = WebPkiClientVerifier::builder_with_provider(roots(authority), Arc::new(default_provider()));
        builder.build().unwrap().verify_client_cert(&chain[0], &chain[1..], UnixTime::now()).map(drop)
    }

    #[test]
    fn certificates_are_good_for_what_they_were_made_for_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::open(&directory.path().join("new"), 10).unwrap();
        let hosts = ["coord.example", "127.0.0.1", "::1"].map(ToOwned::to_owned);
        let server = authority.issue("server", &Purpose::Server(&hosts), 1).unwrap();
        for host in &hosts {
            assert_eq!(verify(&authority, &server, host), Ok(()), "{host}");
        }
        verify(&authority, &server, "other.example").unwrap_err();
        let client = authority.issue("client-ann", &Purpose::Client("ann"), 1).unwrap();
        assert_eq!(verify_client(&authority, &client), Ok(()));
        verify_client(&authority, &server).unwrap_err();
        verify(&authority, &client, "coord.example").unwrap_err();
    }

    #[test]
    fn an_authority_is_kept_and_its_fingerprint_is_that_of_the_last_certificate_in_the_chain() {
        let directory = tempfile::tempdir().unwrap();
        let first = Authority::open(directory.path(), 10).unwrap();
        let hosts = ["localhost".to_owned()];
        let before = first.issue("server", &Purpose::Server(&hosts), 1).unwrap();
        let leaf_before = certificates(&before.cert).remove(0);
        let second = Authority::open(directory.path(), 10).unwrap();
        assert_eq!((first.is_new(), second.is_new()), (true, false));
        assert_eq!(first.fingerprint(), second.fingerprint());
        let after = second.issue("server", &Purpose::Server(&hosts), 1).unwrap();
        let chain = certificates(&after.cert);
        assert_ne!(chain[0], leaf_before);
        assert_eq!(verify(&first, &after, "localhost"), Ok(()));
        assert_eq!(digest(&SHA256, chain.last().unwrap()).as_ref(), second.fingerprint().0);
    }

    #[test]
    fn keys_are_for_their_owner_only_and_half_an_authority_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::open(directory.path(), 10).unwrap();
        let server = authority.issue("server", &Purpose::Server(&["localhost".to_owned()]), 1).unwrap();
        for key in [&authority.files().key, &server.key] {
            assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::remove_file(&authority.files().key).unwrap();
        let failure = Authority::open(directory.path(), 10).map(|_| ()).unwrap_err();
        assert_eq!(failure.code(), crate::failure::USAGE);
        assert!(authority.files().cert.exists());
    }
}
