//! The coordinator's TLS certificate and its CA's.

use std::{fs, path::Path, sync::Arc};

use teamwire_server::edge::tls::{Tls, TlsFiles};
use tokio::signal::unix::SignalKind;

use crate::{config::Settings, context::CA_FILE, failure::Failure};

/// Loads the configured certificates. `None` if TLS is off.
pub(super) fn load(settings: &Settings) -> Result<Option<Arc<Tls>>, Failure> {
    let (Some(cert), Some(key)) = (settings.tls_cert.clone(), settings.tls_key.clone()) else { return Ok(None) };
    let files = TlsFiles { cert, key, client_ca: settings.tls_client_ca.clone() };
    let tls = Tls::load(files).map_err(|error| Failure::usage(format!("Cannot set up TLS: {error}.")))?;
    Ok(Some(Arc::new(tls)))
}

/// Copies the CA's certificate, the last one in `cert`, to the state directory, where clients on this machine look for
/// it.
///
/// With `None`, removes a copy left by an earlier run; clients then trust the system's authorities.
pub(super) fn publish_ca(state_dir: &Path, cert: Option<&Path>) -> Result<(), Failure> {
    let path = state_dir.join(CA_FILE);
    let Some(cert) = cert else {
        let _ = fs::remove_file(path);
        return Ok(());
    };
    let unreadable = |error: &dyn std::fmt::Display| Failure::local(&format!("Cannot read {}", cert.display()), error);
    let blocks = pem::parse_many(fs::read(cert).map_err(|error| unreadable(&error))?);
    let blocks = blocks.map_err(|error| unreadable(&error))?;
    if let Some(ca) = blocks.iter().rfind(|block| block.tag() == "CERTIFICATE") {
        super::publish(&path, pem::encode(ca).as_bytes(), &format!("--ca {}", cert.display()));
    }
    Ok(())
}

/// Reloads the certificates on every SIGHUP.
pub(super) fn reload_on_hangup(tls: Arc<Tls>) -> Result<(), Failure> {
    let mut hangups = tokio::signal::unix::signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tls.refresh();
        }
    });
    Ok(())
}
