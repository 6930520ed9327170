//! An OpenTelemetry collector that keeps what it is sent.

use std::sync::Arc;

use parking_lot::Mutex;

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    trace::v1::Span,
};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// Takes spans for as long as it lives.
pub(crate) struct Collector {
    address: String,
    spans: Arc<Mutex<Vec<Span>>>,
    _runtime: Runtime,
}

impl Collector {
    /// Starts it on a free port.
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let spans: Arc<Mutex<Vec<Span>>> = Arc::default();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let service = TraceServiceServer::new(Taking(Arc::clone(&spans)));
        let serving = tonic::transport::Server::builder().add_service(service);
        runtime.spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, spans, _runtime: runtime }
    }

    /// Returns where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the spans that it was sent so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().clone()
    }
}

struct Taking(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Taking {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let spans = resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans);
        self.0.lock().extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
