//! Explains why a connection failed, and what to do about it.

use std::{error::Error as StdError, fmt, io, sync::Arc};

use teamwire_proto::address::Address;
use tokio::task::JoinError;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as TlsError};

/// The most faults that a text names.
const FAULTS_NAMED_MAX: usize = 4;

/// Why a connection cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What is wrong, as part of a sentence, and what to do.
    pub(crate) text: String,
    /// `true` if the fault persists until a person changes something.
    pub(crate) is_final: bool,
    /// `true` if nothing listens at the address.
    pub(crate) is_refused: bool,
}

impl Fault {
    pub(super) fn passing(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_final: false, is_refused: false }
    }

    pub(super) fn lasting(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_final: true, is_refused: false }
    }

    pub(super) fn certificate_required() -> Self {
        Self::lasting("it requires a client certificate. Give yours with --cert FILE and --key FILE")
    }

    pub(super) fn certificate_refused(why: &str) -> Self {
        Self::lasting(format!(
            "it does not accept our client certificate{why}. Give one from its own authority with --cert FILE and --key \
             FILE"
        ))
    }

    /// Explains an error on a connection to an address.
    pub(super) fn of(error: &io::Error, address: &Address) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
            Some(error) => Self::of_tls(error, address),
            None if address.is_tls() && error.kind() == io::ErrorKind::UnexpectedEof => {
                Self::passing("it closed the connection during the TLS handshake; it may speak plain http")
            }
            None if error.kind() == io::ErrorKind::ConnectionRefused => {
                Self { is_refused: true, ..Self::passing("connection refused") }
            }
            None => Self::passing(error.to_string()),
        }
    }

    fn of_tls(error: &TlsError, address: &Address) -> Self {
        match error {
            TlsError::InvalidCertificate(error) => Self::of_certificate(error, address),
            TlsError::InvalidMessage(_) => {
                Self::lasting("it does not speak TLS. If that is intended, write http:// in front of its address")
            }
            TlsError::AlertReceived(AlertDescription::CertificateRequired) => Self::certificate_required(),
            TlsError::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                Self::lasting("it does not speak HTTP/2, so it is not a coordinator, or it is a proxy without HTTP/2")
            }
            TlsError::AlertReceived(
                alert @ (AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::AccessDenied
                | AlertDescription::DecryptError),
            ) => Self::certificate_refused(&format!(" ({alert:?})")),
            error => Self::passing(format!("TLS failed: {error}")),
        }
    }

    fn of_certificate(error: &CertificateError, address: &Address) -> Self {
        let host = match address {
            Address::Tcp(address) => address.host.as_str(),
            Address::Unix(_) => "localhost",
        };
        Self::lasting(match error {
            CertificateError::UnknownIssuer => {
                "its certificate comes from an authority that is not trusted here. Give that authority's \
                 certificate with --ca FILE, or use a join string, which identifies it"
                    .to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
                "its certificate is not for {host}{}. Use an address that it covers, or issue one for this address",
                valid_names(error)
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired. Renew it; if it should still be valid, set this machine's clock"
                    .to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet. Set this machine's clock, or the coordinator's".to_owned()
            }
            CertificateError::Other(error) => error.to_string(),
            error => format!("its certificate is not accepted: {error}. Issue another one"),
        })
    }
}

fn valid_names(error: &CertificateError) -> String {
    let CertificateError::NotValidForNameContext { presented, .. } = error else { return String::new() };
    // They look like `DnsName("a")` and `IpAddress(10.0.0.1)`.
    let bare = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
        inner.trim_matches('"').to_owned()
    };
    let names: Vec<_> = presented.iter().map(bare).collect();
    if names.is_empty() { String::new() } else { format!(" but for {}", names.join(", ")) }
}

/// No coordinator could be reached.
#[derive(Clone, Debug)]
pub(crate) struct DialError {
    faults: Arc<[(String, Fault)]>,
    is_final: bool,
}

impl DialError {
    /// Combines the faults of all coordinators.
    pub(super) fn new(faults: Vec<(String, Fault)>) -> Self {
        let error = Self { faults: faults.into(), is_final: false };
        Self { is_final: error.is_lasting(), ..error }
    }

    pub(super) fn interrupted(error: &JoinError) -> Self {
        Self::new(vec![("the connection".to_owned(), Fault::passing(error.to_string()))])
    }

    pub(super) fn not_final(self) -> Self {
        Self { is_final: false, ..self }
    }

    /// Returns whether nothing listens at any of the addresses.
    pub(crate) fn is_refused(&self) -> bool {
        !self.faults.is_empty() && self.faults.iter().all(|(_, fault)| fault.is_refused)
    }

    /// Returns whether the fault persists until a person changes something, and the caller should give up.
    pub(crate) fn is_final(&self) -> bool {
        self.is_final
    }

    /// Returns whether the fault persists until a person changes something.
    pub(crate) fn is_lasting(&self) -> bool {
        !self.faults.is_empty() && self.faults.iter().all(|(_, fault)| fault.is_final)
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(_, only)] = &*self.faults {
            return f.write_str(&only.text);
        }
        for (i, (who, fault)) in self.faults.iter().take(FAULTS_NAMED_MAX).enumerate() {
            write!(f, "{}{who}: {}", if i == 0 { "" } else { "; " }, fault.text)?;
        }
        if self.faults.len() > FAULTS_NAMED_MAX {
            write!(f, "; and {} more", self.faults.len() - FAULTS_NAMED_MAX)?;
        }
        Ok(())
    }
}

impl StdError for DialError {}
