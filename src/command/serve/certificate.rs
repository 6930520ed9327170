//! The coordinator's certificate, and that of its authority.

use std::{fs, path::Path, sync::Arc};

use teamwire_server::edge::tls::{Tls, TlsFiles};
use tokio::signal::unix::SignalKind;

use crate::{
    config::Settings,
    context::{CA_FILE, write_private},
    failure::Failure,
};

/// Reads the certificates, if there are to be any.
pub(super) fn certificates(settings: &Settings) -> Result<Option<Arc<Tls>>, Failure> {
    let (Some(cert), Some(key)) = (settings.tls_cert.clone(), settings.tls_key.clone()) else { return Ok(None) };
    let files = TlsFiles { cert, key, client_ca: settings.tls_client_ca.clone() };
    let tls = Tls::load(files).map_err(|error| Failure::usage(format!("There can be no TLS: {error}.")))?;
    Ok(Some(Arc::new(tls)))
}

/// Leaves the certificate of the authority, the last in the file, where clients on this machine look for whom to trust.
/// `None`: they trust whom they trust anyway.
pub(super) fn keep_authority(state_dir: &Path, cert: Option<&Path>) -> Result<(), Failure> {
    let place = state_dir.join(CA_FILE);
    let Some(cert) = cert else {
        let _ = fs::remove_file(place);
        return Ok(());
    };
    let unreadable =
        |error: &dyn std::fmt::Display| Failure::local(&format!("{} cannot be read", cert.display()), error);
    let blocks = pem::parse_many(fs::read(cert).map_err(|error| unreadable(&error))?);
    let blocks = blocks.map_err(|error| unreadable(&error))?;
    if let Some(authority) = blocks.iter().rfind(|block| block.tag() == "CERTIFICATE") {
        write_private(&place, pem::encode(authority).as_bytes())?;
    }
    Ok(())
}

pub(super) fn refresh_on_hangup(tls: Arc<Tls>) -> Result<(), Failure> {
    let mut hangups = tokio::signal::unix::signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tls.refresh();
        }
    });
    Ok(())
}
