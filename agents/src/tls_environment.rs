//! The environment variables through which a process learns whom to trust.

use std::path;

use teamwire_client::{CA_VARIABLE, CERT_VARIABLE, KEY_VARIABLE, Pem, TlsOptions};

/// Returns the variables that stand for TLS options, for a process that may run in another directory.
pub(crate) fn tls_environment(tls: TlsOptions) -> Vec<(&'static str, String)> {
    let files = [(CA_VARIABLE, tls.ca), (CERT_VARIABLE, tls.cert), (KEY_VARIABLE, tls.key)];
    let text = |pem: Pem| match pem {
        Pem::File(path) => path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned(),
        Pem::Text(text) => text,
    };
    files.into_iter().filter_map(|(variable, pem)| Some((variable, text(pem?)))).collect()
}
