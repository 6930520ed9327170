//! `teamwire serve`: runs a coordinator.

use std::{fs, io::IsTerminal as _, net::SocketAddr, path::Path};

use clap::{Args, ValueEnum};
use teamwire_proto::credential::Credential;
use teamwire_server::{server, store};
use tokio::{net::TcpListener, signal::unix::SignalKind};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::{
    context::{ADDRESS_FILE, ContextArgs, OPERATOR_FILE, make_private_directory, write_private},
    failure::Failure,
    show::{bold, dim, paint},
};

/// The file of the embedded store in the state directory.
const STORE_FILE: &str = "teamwire.redb";

/// Run a coordinator
///
/// Without options it listens on this machine only and keeps everything in one file of its state directory; nothing
/// else needs to run. The operator's credential is made on the first start and kept beside it, where the command line on
/// this machine finds it.
#[derive(Args, Debug)]
pub struct Serve {
    /// Where to listen; port 0 takes a free one
    #[arg(long, env = "TEAMWIRE_LISTEN", default_value = "127.0.0.1:7420", value_name = "HOST:PORT")]
    listen: SocketAddr,
    /// The store: embedded:PATH, memory:, redis[s]://[[USER]:PASSWORD@]HOST[:PORT][/DB],
    /// redis[s]+sentinel://HOST,.../SERVICE[/DB] or redis[s]+cluster://HOST,... [default: a file in the state directory]
    #[arg(long, env = "TEAMWIRE_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<String>,
    /// Listen beyond this machine without TLS: whoever can see the network can read everything and act as anybody
    #[arg(long)]
    insecure_no_tls: bool,
    /// How to log
    #[arg(long, env = "TEAMWIRE_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
    /// What to log: error, warn, info, debug or trace
    #[arg(long, env = "TEAMWIRE_LOG", default_value = "info", value_name = "LEVEL")]
    log: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl Serve {
    pub async fn run(self, context: &ContextArgs) -> Result<(), Failure> {
        if !self.listen.ip().is_loopback() && !self.insecure_no_tls {
            return Err(Failure::usage(format!(
                "{} can be reached from other machines, and there would be no TLS. Listen on 127.0.0.1, put a proxy that \
                 speaks TLS in front, or say --insecure-no-tls on a network that you trust.",
                self.listen
            )));
        }
        self.start_log()?;
        let state_dir = context.state_dir()?;
        make_private_directory(&state_dir)?;
        let secret = operator_secret(&state_dir)?;
        // Bound first, so that a taken port is found before the store is touched.
        let listener = TcpListener::bind(self.listen).await.map_err(|error| {
            Failure::local(&format!("{} cannot be listened on; is another coordinator running?", self.listen), error)
        })?;
        let address = listener.local_addr()?;
        let url = self.store.clone().unwrap_or_else(|| format!("embedded:{}", state_dir.join(STORE_FILE).display()));
        let store = store::open(&url).await.map_err(|error| {
            Failure::with_code(crate::failure::UNREACHABLE, format!("The store cannot be opened: {error}."))
        })?;
        let shutdown = stop_on_signal()?;
        write_private(&state_dir.join(ADDRESS_FILE), format!("http://{address}\n").as_bytes())?;
        tracing::info!(%address, store = kind_of(&url), "serving");
        if self.log_format == LogFormat::Text && std::io::stderr().is_terminal() {
            say_what_next(address, &state_dir);
        }
        let served = server::run(server::Config::new(&secret), store, listener, shutdown).await;
        served.map_err(|error| Failure::local("the coordinator ended", error))?;
        tracing::info!("ended");
        Ok(())
    }

    fn start_log(&self) -> Result<(), Failure> {
        let filter = EnvFilter::try_new(&self.log)
            .map_err(|error| Failure::usage(format!("--log {} is not understood: {error}.", self.log)))?;
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        let started = match self.log_format {
            LogFormat::Text => log.with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init(),
            LogFormat::Json => log.json().try_init(),
        };
        started.map_err(|error| Failure::local("the log cannot be started", error))
    }
}

/// Says which kind of store it is, without what may be secret in its URL.
fn kind_of(url: &str) -> &str {
    match url.split_once([':', '+']) {
        Some(("redis" | "rediss" | "valkey" | "valkeys", _)) => "redis",
        Some((kind, _)) => kind,
        None => "unknown",
    }
}

/// Returns the operator's secret; makes it on the first start.
fn operator_secret(state_dir: &Path) -> Result<String, Failure> {
    let path = state_dir.join(OPERATOR_FILE);
    if let Ok(text) = fs::read_to_string(&path) {
        return match Credential::parse(text.trim()) {
            Ok(Credential::Operator { secret }) => Ok(secret),
            _ => Err(Failure::usage(format!(
                "{} holds no operator's credential. Mend it, or move it away to have a new one made.",
                path.display()
            ))),
        };
    }
    let random: [u8; 20] = rand::random();
    let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let credential = Credential::Operator { secret: secret.clone() }.reveal();
    write_private(&path, format!("{credential}\n").as_bytes())?;
    Ok(secret)
}

fn stop_on_signal() -> Result<CancellationToken, Failure> {
    let shutdown = CancellationToken::new();
    let mut terminate = tokio::signal::unix::signal(SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(SignalKind::interrupt())?;
    let stop = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("draining; a second signal ends at once");
        stop.cancel();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(shutdown)
}

fn say_what_next(address: SocketAddr, state_dir: &Path) {
    // As it was started, so that what is shown can be typed where there is no `teamwire` in PATH.
    let me = std::env::args().next().unwrap_or_else(|| "teamwire".to_owned());
    anstream::eprintln!(
        "\n{}\n\n  {me} team create acme\n  {me} run backend -- cat        {}\n  {me} send backend \"Hello!\" -s \"a first \
         message\"\n  {me} status\n\n{}\n",
        paint(bold(), format!("The coordinator listens on {address}. In another terminal, type:")),
        paint(dim(), "# in a third one: any program that reads lines"),
        paint(dim(), format!("Everything is kept in {}.", state_dir.display()))
    );
}
