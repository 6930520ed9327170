//! What exports spans and metrics, as the standard variables of OpenTelemetry configure it.
//!
//! A variable for one signal, such as `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, takes precedence over the one for all, such as
//! `OTEL_EXPORTER_OTLP_ENDPOINT`. The library reads the endpoint, headers, compression and temporality; the protocol, the
//! certificates and the timeout over HTTP are read here.

use std::{env, fmt, fs, sync::Arc, time::Duration};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use opentelemetry_otlp::{
    MetricExporter, SpanExporter, WithHttpConfig as _, WithTonicConfig as _,
    tonic_types::transport::{Certificate, ClientTlsConfig, Identity},
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::runtime::Handle;

use crate::failure::Failure;

/// The port that collectors use for OTLP over HTTP. Without a protocol, it says which one is meant.
const HTTP_PORT: u16 = 4318;

/// How long a request over HTTP may take by default.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

/// How it is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Grpc,
    Http,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        })
    }
}

impl Signal {
    /// Returns whether the environment names a collector for it.
    pub(super) fn is_exported(self) -> bool {
        let is = |name: &str, value: &str| env::var(name).is_ok_and(|set| set.eq_ignore_ascii_case(value));
        let is_off = is("OTEL_SDK_DISABLED", "true") || is(&format!("OTEL_{self}_EXPORTER"), "none");
        !is_off && self.setting("ENDPOINT").is_some()
    }

    /// Returns the value of a variable, and its name.
    fn setting(self, name: &str) -> Option<(String, String)> {
        let names = [format!("OTEL_EXPORTER_OTLP_{self}_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
        let set = |name: String| env::var(&name).ok().filter(|value| !value.is_empty()).map(|value| (value, name));
        names.into_iter().find_map(set)
    }

    fn endpoint(self) -> String {
        self.setting("ENDPOINT").map(|(value, _)| value).unwrap_or_default()
    }

    fn protocol(self) -> Result<Protocol, Failure> {
        match self.setting("PROTOCOL") {
            None => {
                let port = self.endpoint().parse::<http::Uri>().ok().and_then(|uri| uri.port_u16());
                Ok(if port == Some(HTTP_PORT) { Protocol::Http } else { Protocol::Grpc })
            }
            Some((value, name)) => match value.as_str() {
                "grpc" => Ok(Protocol::Grpc),
                "http/protobuf" => Ok(Protocol::Http),
                _ => Err(Failure::usage(format!("{name} is {value:?}. Use grpc or http/protobuf."))),
            },
        }
    }
}

/// Makes what exports spans.
pub(super) fn spans() -> Result<SpanExporter, Failure> {
    let signal = Signal::Traces;
    let built = match signal.protocol()? {
        Protocol::Grpc => {
            let exporter = SpanExporter::builder().with_tonic();
            match tls_of_grpc(signal)? {
                Some(tls) => exporter.with_tls_config(tls).build(),
                None => exporter.build(),
            }
        }
        Protocol::Http => SpanExporter::builder().with_http().with_http_client(http_client(signal)?).build(),
    };
    built.map_err(|error| Failure::local("Cannot set up the exporter of traces", error))
}

/// Makes what exports metrics.
pub(super) fn metrics() -> Result<MetricExporter, Failure> {
    let signal = Signal::Metrics;
    let built = match signal.protocol()? {
        Protocol::Grpc => {
            let exporter = MetricExporter::builder().with_tonic();
            match tls_of_grpc(signal)? {
                Some(tls) => exporter.with_tls_config(tls).build(),
                None => exporter.build(),
            }
        }
        Protocol::Http => MetricExporter::builder().with_http().with_http_client(http_client(signal)?).build(),
    };
    built.map_err(|error| Failure::local("Cannot set up the exporter of metrics", error))
}

/// The certificates for a connection with TLS, in PEM.
struct Certificates {
    /// Which authorities to trust. `None` means those of the system.
    authorities: Option<Vec<u8>>,
    /// The certificate to present, and its key.
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    fn of(signal: Signal) -> Result<Self, Failure> {
        let read = |name: &str| {
            let Some((path, name)) = signal.setting(name) else { return Ok(None) };
            let cannot_read = |error| Failure::usage(format!("{name} is {path:?}, which cannot be read: {error}."));
            fs::read(&path).map(Some).map_err(cannot_read)
        };
        let identity = match (read("CLIENT_CERTIFICATE")?, read("CLIENT_KEY")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(Failure::usage(
                    "Set both OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY, or neither.",
                ));
            }
        };
        Ok(Self { authorities: read("CERTIFICATE")?, identity })
    }
}

fn tls_of_grpc(signal: Signal) -> Result<Option<ClientTlsConfig>, Failure> {
    if !signal.endpoint().starts_with("https:") {
        return Ok(None);
    }
    let Certificates { authorities, identity } = Certificates::of(signal)?;
    let tls = match authorities {
        Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    Ok(Some(match identity {
        Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
        None => tls,
    }))
}

/// Sends requests on the runtime of the process: exporters run on threads that have none.
#[derive(Debug)]
struct OnRuntime {
    client: Arc<HyperClient<HttpsConnector<hyper_util::client::legacy::connect::HttpConnector>>>,
    runtime: Handle,
}

#[tonic::async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = Arc::clone(&self.client);
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}

fn http_client(signal: Signal) -> Result<OnRuntime, Failure> {
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls_of_http(signal)?).https_or_http().enable_http1();
    let given = signal.setting("TIMEOUT").and_then(|(ms, _)| ms.parse().ok()).map(Duration::from_millis);
    let client = Arc::new(HyperClient::new(connector.build(), given.unwrap_or(REQUEST_TIMEOUT), None));
    Ok(OnRuntime { client, runtime: Handle::current() })
}

fn tls_of_http(signal: Signal) -> Result<rustls::ClientConfig, Failure> {
    let Certificates { authorities, identity } = Certificates::of(signal)?;
    let unusable = |what: &str, error: &dyn fmt::Display| {
        Failure::usage(format!("{what} for the exporter of telemetry cannot be used: {error}."))
    };
    let mut roots = rustls::RootCertStore::empty();
    match authorities {
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| unusable("The certificate of the authority", &error))?;
                roots.add(certificate).map_err(|error| unusable("The certificate of the authority", &error))?;
            }
        }
    }
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions of TLS")
        .with_root_certificates(roots);
    let Some((certificate, key)) = identity else { return Ok(config.with_no_client_auth()) };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
    let chain = chain.map_err(|error| unusable("The certificate to present", &error))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| unusable("Its key", &error))?;
    config.with_client_auth_cert(chain, key).map_err(|error| unusable("The certificate to present", &error))
}
