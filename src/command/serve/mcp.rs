//! MCP over HTTP: the members' tools, for the coordinator to serve.

use std::{io, net::SocketAddr, ops::ControlFlow, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt as _};
use http::Request;
use teamwire_agents::mcp::{HttpAnswer, HttpServer};
use teamwire_client::{Client, Connect, ConnectOptions, Duplex, Retry, TlsOptions};
use teamwire_server::mcp::{Answering, InProcess, Tools};
use tokio::io::duplex;
use tokio_util::sync::CancellationToken;

/// The address of the coordinator within its process. Nothing connects to it.
const ADDRESS: &str = "http://127.0.0.1:1";

/// How many bytes wait in a connection within the process, in each direction.
const PIPE_BYTES: usize = 64 * 1024;

/// How long a call is repeated while the store does not answer. Then the agent learns about it.
const OUTAGE_MAX: Duration = Duration::from_secs(10);

/// The tools of all members.
#[derive(Debug)]
pub(super) struct HttpTools(Arc<HttpServer>);

impl HttpTools {
    /// Makes them. Their waiting calls return once `ending` is cancelled.
    pub(super) fn new(ending: CancellationToken) -> Self {
        Self(Arc::new(HttpServer::new(ending)))
    }
}

impl Tools for HttpTools {
    fn admit(&self, head: Request<()>, calls: InProcess) -> BoxFuture<'static, Result<Answering, Box<HttpAnswer>>> {
        let server = Arc::clone(&self.0);
        async move {
            let credential = server.admit(head.method(), head.headers())?;
            let client = client(calls).and_then(|client| client.with_credential(credential));
            let client = client.map_err(|_| HttpServer::malformed())?;
            let caller = server.caller(&client.clone().with_retry(Retry::none())).await?;
            // Repeated calls would reach the same coordinator, which ends.
            let ending = server.ending().clone();
            let client = client.with_wait_observer(move |_| match ending.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
            let answering: Answering =
                Box::new(move |body| async move { server.answer(head.map(|()| body), client, caller).await }.boxed());
            Ok(answering)
        }
        .boxed()
    }
}

/// Returns a client that calls this coordinator over a connection within the process.
fn client(calls: InProcess) -> Result<Client, teamwire_client::Error> {
    let options = ConnectOptions {
        // A request makes few calls.
        calls_before_frames: u32::MAX,
        connector: Some(Arc::new(Here(calls))),
        ..ConnectOptions::from(TlsOptions::default())
    };
    Ok(Client::connect_with(ADDRESS, options)?.with_retry(Retry::within(OUTAGE_MAX)))
}

/// Connects to the coordinator of this process.
#[derive(Debug)]
struct Here(InProcess);

impl Connect for Here {
    fn connect(&self, _: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> {
        let (ours, theirs) = duplex(PIPE_BYTES);
        self.0.serve(theirs);
        std::future::ready(Ok(Box::new(ours) as Box<dyn Duplex>)).boxed()
    }
}
