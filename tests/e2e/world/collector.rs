//! An OpenTelemetry collector that keeps what it is sent.

use std::{fs, path::Path, sync::Arc};

use parking_lot::Mutex;

use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::{
            ExportMetricsServiceRequest, ExportMetricsServiceResponse,
            metrics_service_server::{MetricsService, MetricsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    metrics::v1::Metric,
    trace::v1::Span,
};
use prost::Message as _;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_rustls::rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Identity, Server, ServerTlsConfig},
};

use super::{Received, Receiver};

/// Takes spans and metrics for as long as it lives.
pub(crate) struct Collector {
    address: String,
    kept: Kept,
    _runtime: Option<Runtime>,
    /// What takes them over HTTP.
    http: Option<Receiver>,
}

#[derive(Clone, Default)]
struct Kept {
    spans: Arc<Mutex<Vec<Span>>>,
    metrics: Arc<Mutex<Vec<Metric>>>,
}

impl Collector {
    /// Starts one that takes gRPC on a free port.
    pub(crate) fn start() -> Self {
        Self::serve(None)
    }

    /// Starts one that takes gRPC with TLS, with the certificate and the key that are in a directory.
    pub(crate) fn with_tls(certificates: &Path) -> Self {
        let read = |name: &str| fs::read(certificates.join(name)).unwrap();
        Self::serve(Some(ServerTlsConfig::new().identity(Identity::from_pem(read("server.crt"), read("server.key")))))
    }

    fn serve(tls: Option<ServerTlsConfig>) -> Self {
        let runtime = Runtime::new().unwrap();
        let kept = Kept::default();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let address = format!("{scheme}://{}", listener.local_addr().unwrap());
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        let serving = server
            .add_service(TraceServiceServer::new(kept.clone()))
            .add_service(MetricsServiceServer::new(kept.clone()));
        runtime.spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, kept, _runtime: Some(runtime), http: None }
    }

    /// Starts one that takes HTTP with TLS, with the certificate and the key that are in a directory.
    pub(crate) fn over_http_with_tls(certificates: &Path) -> Self {
        let chain = CertificateDer::pem_file_iter(certificates.join("server.crt")).unwrap();
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(certificates.join("server.key")).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let receiver = Receiver::with_tls(config);
        let address = format!("https://127.0.0.1:{}", receiver.port());
        Self { address, kept: Kept::default(), _runtime: None, http: Some(receiver) }
    }

    /// Returns where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the spans that it was sent so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        match &self.http {
            None => self.kept.spans.lock().clone(),
            Some(http) => sent_to(http, "/v1/traces", |body| {
                spans_of(ExportTraceServiceRequest::decode(body).expect("an export of spans"))
            }),
        }
    }

    /// Returns the metrics that it was sent so far.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        match &self.http {
            None => self.kept.metrics.lock().clone(),
            Some(http) => sent_to(http, "/v1/metrics", |body| {
                metrics_of(ExportMetricsServiceRequest::decode(body).expect("an export of metrics"))
            }),
        }
    }
}

fn sent_to<T>(http: &Receiver, path: &str, read: impl Fn(&[u8]) -> Vec<T>) -> Vec<T> {
    let received = http.received();
    received.iter().filter(|got| got.path == path).flat_map(|Received { bytes, .. }| read(bytes)).collect()
}

fn spans_of(request: ExportTraceServiceRequest) -> Vec<Span> {
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

fn metrics_of(request: ExportMetricsServiceRequest) -> Vec<Metric> {
    let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    scopes.flat_map(|scope| scope.metrics).collect()
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.spans.lock().extend(spans_of(request.into_inner()));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Kept {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.metrics.lock().extend(metrics_of(request.into_inner()));
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}
