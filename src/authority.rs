//! A certificate authority (CA) in a directory, for development and for private networks.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use ring::digest::{SHA256, digest};
use teamwire_proto::join_string::Fingerprint;

use crate::{
    context::{make_private_directory, write_private, write_public},
    failure::Failure,
};

/// How far back certificates are dated, so that machines whose clocks are slow accept them.
const BACKDATED: Duration = Duration::from_secs(60 * 60);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The purpose of a certificate.
pub(crate) enum Purpose<'a> {
    /// A coordinator with these host names and IP addresses.
    Server(&'a [String]),
    /// A client with this name.
    Client(&'a str),
}

/// The paths of a certificate and its private key, both in PEM.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Files {
    fn named(directory: &Path, name: &str) -> Self {
        Self { cert: directory.join(format!("{name}.crt")), key: directory.join(format!("{name}.key")) }
    }

    /// Reads the key, or makes one that only the owner can read.
    fn key(&self) -> Result<KeyPair, Failure> {
        if let Ok(pem) = fs::read_to_string(&self.key)
            && let Ok(key) = KeyPair::from_pem(&pem)
        {
            return Ok(key);
        }
        let key = KeyPair::generate().map_err(failed)?;
        write_private(&self.key, key.serialize_pem().as_bytes())?;
        Ok(key)
    }

    /// Where a new CA's key is until its certificate is written.
    fn new_key(&self) -> PathBuf {
        self.key.with_extension("key.new")
    }
}

/// A certificate authority that can issue certificates.
pub(crate) struct CertificateAuthority {
    directory: PathBuf,
    files: Files,
    cert: String,
    issuer: Issuer<'static, KeyPair>,
    fingerprint: Fingerprint,
    is_new: bool,
}

impl CertificateAuthority {
    /// Opens the CA in a directory, or creates one that is valid for `days` days if the directory has none.
    ///
    /// Fails if only one of `ca.crt` and `ca.key` exists, or if either cannot be used.
    pub(crate) fn open(directory: &Path, days: u32) -> Result<Self, Failure> {
        make_private_directory(directory)?;
        let files = Files::named(directory, "ca");
        let is_new = match (files.cert.exists(), files.key.exists()) {
            (false, false) => true,
            (true, true) => false,
            // A process that made it was killed between its last two steps.
            (true, false) if files.new_key().exists() => true,
            _ => {
                return Err(Failure::usage(format!(
                    "{} has only one of ca.crt and ca.key. Restore the other, or choose another --dir.",
                    directory.display()
                )));
            }
        };
        if is_new {
            if !files.cert.exists() {
                let key = KeyPair::generate().map_err(failed)?;
                write_private(&files.new_key(), key.serialize_pem().as_bytes())?;
                let cert = ca_params(days).self_signed(&key).map_err(failed)?;
                write_public(&files.cert, cert.pem().as_bytes())?;
            }
            fs::rename(files.new_key(), &files.key).map_err(failed)?;
        }
        let unusable = |file: &Path, error: String| Failure::usage(format!("Cannot use {}: {error}.", file.display()));
        let cert = fs::read_to_string(&files.cert).map_err(|error| unusable(&files.cert, error.to_string()))?;
        let key = fs::read_to_string(&files.key).map_err(|error| unusable(&files.key, error.to_string()))?;
        let key = KeyPair::from_pem(&key).map_err(|error| unusable(&files.key, error.to_string()))?;
        let der = der_of(&cert).map_err(|error| unusable(&files.cert, error))?;
        let public_key = key.public_key_raw();
        if !der.windows(public_key.len()).any(|part| part == public_key) {
            return Err(unusable(&files.key, "it is not the key of ca.crt".to_owned()));
        }
        let fingerprint = digest(&SHA256, &der).as_ref().try_into().map_err(failed)?;
        let issuer = Issuer::from_ca_cert_pem(&cert, key).map_err(|error| unusable(&files.cert, error.to_string()))?;
        let directory = directory.to_owned();
        Ok(Self { directory, files, cert, issuer, fingerprint: Fingerprint(fingerprint), is_new })
    }

    /// Issues a certificate that is valid for `days` days, and writes it to `NAME.crt`, replacing the one that is there.
    /// Its key is in `NAME.key`, and is made if there is none: a pair of which only one is new would be of no use.
    pub(crate) fn issue(&self, name: &str, purpose: &Purpose<'_>, days: u32) -> Result<Files, Failure> {
        let (hosts, usage, common_name) = match purpose {
            Purpose::Server(hosts) => (hosts.to_vec(), ExtendedKeyUsagePurpose::ServerAuth, "teamwire coordinator"),
            Purpose::Client(client) => (Vec::new(), ExtendedKeyUsagePurpose::ClientAuth, *client),
        };
        let mut params = CertificateParams::new(hosts)
            .map_err(|error| Failure::usage(format!("Cannot issue a certificate for these hosts: {error}.")))?;
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, days);
        let files = Files::named(&self.directory, name);
        let cert = params.signed_by(&files.key()?, &self.issuer).map_err(failed)?.pem();
        // The chain includes the CA's own certificate because clients pin its fingerprint.
        write_public(&files.cert, format!("{cert}{}", self.cert).as_bytes())?;
        Ok(files)
    }

    /// Returns the paths of the CA's own certificate and key.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the SHA-256 fingerprint of the CA's certificate, which clients pin.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns whether [`Self::open`] created the CA.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }
}

fn ca_params(days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    // A random suffix lets an error message tell two CAs apart.
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
    Failure::local("Cannot create the certificate", error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_rustls::rustls::{
        Error, RootCertStore,
        client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
        crypto::ring::default_provider,
        pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
        server::WebPkiClientVerifier,
    };

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(&fs::read(path).unwrap()).map(Result::unwrap).collect()
    }

    fn roots(authority: &CertificateAuthority) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(certificates(&authority.files().cert).remove(0)).unwrap();
        Arc::new(roots)
    }

    fn verify(authority: &CertificateAuthority, files: &Files, host: &str) -> Result<(), Error> {
        let chain = certificates(&files.cert);
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots(authority), Arc::new(default_provider())).build();
        let host = ServerName::try_from(host.to_owned()).unwrap();
        verifier.unwrap().verify_server_cert(&chain[0], &chain[1..], &host, &[], UnixTime::now()).map(drop)
    }

    fn verify_client(authority: &CertificateAuthority, files: &Files) -> Result<(), Error> {
        let chain = certificates(&files.cert);
        let builder = WebPkiClientVerifier::builder_with_provider(roots(authority), Arc::new(default_provider()));
        builder.build().unwrap().verify_client_cert(&chain[0], &chain[1..], UnixTime::now()).map(drop)
    }

    #[test]
    fn a_certificate_is_valid_only_for_its_purpose_and_hosts() {
        let directory = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::open(&directory.path().join("new"), 10).unwrap();
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
    fn reopening_keeps_the_ca_and_its_certificate_ends_every_chain() {
        let directory = tempfile::tempdir().unwrap();
        let first = CertificateAuthority::open(directory.path(), 10).unwrap();
        let hosts = ["localhost".to_owned()];
        let before = first.issue("server", &Purpose::Server(&hosts), 1).unwrap();
        let leaf_before = certificates(&before.cert).remove(0);
        let second = CertificateAuthority::open(directory.path(), 10).unwrap();
        assert_eq!((first.is_new(), second.is_new()), (true, false));
        assert_eq!(first.fingerprint(), second.fingerprint());
        let after = second.issue("server", &Purpose::Server(&hosts), 1).unwrap();
        let chain = certificates(&after.cert);
        assert_ne!(chain[0], leaf_before);
        assert_eq!(verify(&first, &after, "localhost"), Ok(()));
        assert_eq!(digest(&SHA256, chain.last().unwrap()).as_ref(), second.fingerprint().0);
    }

    #[test]
    fn only_the_owner_can_read_keys_and_a_ca_is_made_completely_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::open(directory.path(), 10).unwrap();
        let server = authority.issue("server", &Purpose::Server(&["localhost".to_owned()]), 1).unwrap();
        for key in [&authority.files().key, &server.key] {
            assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // A process that made a CA can be killed after any step.
        fs::rename(&authority.files().key, authority.files().new_key()).unwrap();
        let finished = CertificateAuthority::open(directory.path(), 10).unwrap();
        assert_eq!(finished.fingerprint(), authority.fingerprint());
        let other = directory.path().join("other");
        make_private_directory(&other).unwrap();
        write_private(&other.join("ca.key.new"), b"of an earlier attempt").unwrap();
        assert!(CertificateAuthority::open(&other, 10).unwrap().is_new());
        fs::copy(other.join("ca.key"), &authority.files().key).unwrap();
        let failure = CertificateAuthority::open(directory.path(), 10).map(|_| ()).unwrap_err();
        assert!(failure.message().contains("not the key of ca.crt"), "{failure:?}");

        fs::remove_file(&authority.files().key).unwrap();
        let failure = CertificateAuthority::open(directory.path(), 10).map(|_| ()).unwrap_err();
        assert_eq!(failure.code(), crate::failure::USAGE);
        assert!(authority.files().cert.exists());
    }
}
