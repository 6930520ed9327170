//! `teamwire serve`: runs a coordinator.

use std::{
    fs,
    io::{self, IsTerminal as _},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use teamwire_proto::credential::Credential;
use teamwire_server::{
    edge::tls::{Tls, TlsFiles},
    grpc::Advertised,
    server::{self, Listeners},
    store,
    telemetry::prometheus,
};
use tokio::{
    net::{TcpListener, TcpSocket},
    signal::unix::SignalKind,
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::{
    config::{Config, Settings},
    context::{ADDRESS_FILE, CA_FILE, ContextArgs, OPERATOR_FILE, make_private_directory, write_private},
    failure::Failure,
    show::{bold, dim, paint},
    trace::Traces,
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
    /// The configuration, a TOML file; --print-config shows its keys [env: TEAMWIRE_CONFIG]
    ///
    /// Every key can also be set in the environment: listen as TEAMWIRE_LISTEN, limits.members_max as
    /// TEAMWIRE_LIMITS_MEMBERS_MAX. The environment overrides the file, and flags override both.
    #[arg(long, env = "TEAMWIRE_CONFIG", value_name = "FILE", hide_env = true)]
    config: Option<PathBuf>,
    /// Print the configuration that holds, with every key explained, and end
    #[arg(long)]
    print_config: bool,
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:7420]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The store: embedded:PATH, memory:, redis[s]://[[USER]:PASSWORD@]HOST[:PORT][/DB],
    /// redis[s]+sentinel://HOST,.../SERVICE[/DB] or redis[s]+cluster://HOST,... [default: a file in the state directory]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Serve with TLS: the coordinator's certificate, and those that lead to its CA, in PEM
    ///
    /// Certificates are read again when their files change, and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Let only those connect who have a certificate of one of these CAs, in PEM
    #[arg(long, value_name = "FILE")]
    client_ca: Option<String>,
    /// Where other machines reach this coordinator, as https://HOST:PORT
    #[arg(long, value_name = "URL[,URL]")]
    advertise: Option<String>,
    /// Listen beyond this machine without TLS: whoever can see the network can read everything and act as anybody
    #[arg(long)]
    insecure_no_tls: bool,
    /// Answer health checks here as well, without TLS, and nothing else; for Kubernetes and others who probe
    #[arg(long, value_name = "HOST:PORT")]
    health: Option<String>,
    /// Serve numbers for Prometheus at http://HOST:PORT/metrics; they hold no contents, names or credentials, so other
    /// machines may be let see them
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// How to log: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// What to log: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

impl Serve {
    pub async fn run(self, context: &ContextArgs, traces: &Traces) -> Result<(), Failure> {
        // What is not UTF-8 is none of ours.
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let file = self.config.as_deref().filter(|file| !file.as_os_str().is_empty());
        let config = Config::load(file, environment, &self.flags())?;
        if self.print_config {
            anstream::print!("{}", config.print());
            return Ok(());
        }
        let settings = config.settings;
        let listen = settings.listen()?;
        if !listen.ip().is_loopback() && settings.tls_cert.is_none() && !settings.insecure_no_tls {
            return Err(Failure::usage(format!(
                "{listen} can be reached from other machines, and there would be no TLS. Give a certificate with --tls-cert \
                 and --tls-key, listen on 127.0.0.1, or say --insecure-no-tls on a network that you trust.",
            )));
        }
        start_log(&settings, traces)?;
        let tls = certificates(&settings)?;
        allow_connections(settings.edge.connections_max);
        let state_dir = context.state_dir()?;
        make_private_directory(&state_dir)?;
        let secret = operator_secret(&state_dir, settings.operator_credential.as_deref())?;
        // Bound first, so that a taken port is found before the store is touched.
        let listener = listen_at(listen).map_err(|error| {
            Failure::local(&format!("{listen} cannot be listened on; is another coordinator running?"), error)
        })?;
        let address = reachable(listener.local_addr()?);
        let numbers = bind(settings.metrics()?, "metrics").await?;
        let health = bind(settings.health()?, "health checks").await?;
        let url = match settings.store.as_str() {
            "" => format!("embedded:{}", state_dir.join(STORE_FILE).display()),
            url => url.to_owned(),
        };
        let store = store::open(&url).await.map_err(|error| {
            Failure::with_code(crate::failure::UNREACHABLE, format!("The store cannot be opened: {error}."))
        })?;
        let shutdown = stop_on_signal()?;
        if let Some(tls) = &tls {
            refresh_on_hangup(Arc::clone(tls))?;
        }
        let address = format!("{}://{address}", if tls.is_some() { "https" } else { "http" });
        write_private(&state_dir.join(ADDRESS_FILE), format!("{address}\n").as_bytes())?;
        let ca_fingerprint = tls.as_ref().and_then(|tls| tls.ca_fingerprint());
        keep_authority(&state_dir, settings.tls_cert.as_deref().filter(|_| ca_fingerprint.is_some()))?;
        let advertised = Advertised { addresses: settings.advertise.clone(), ca_fingerprint };
        let config = server::Config {
            limits: settings.limits,
            pace: settings.pace,
            rates: settings.rates,
            edge: settings.edge,
            tls,
            tls_reload_interval: settings.tls_reload_interval,
            advertised,
            web_origins: settings.web_origins,
            drain_grace: settings.drain_grace,
            hard_stop: settings.hard_stop,
            ..server::Config::new(&secret)
        };
        let stop = CancellationToken::new();
        let _stopped_at_the_end = stop.clone().drop_guard();
        if let Some(numbers) = numbers {
            tracing::info!(address = %numbers.local_addr()?, "metrics are served");
            tokio::spawn(prometheus::serve(numbers, Arc::clone(&config.metrics), stop));
        }
        tracing::info!(%address, %listen, store = kind_of(&url), "serving");
        if settings.log_format == "text" && std::io::stderr().is_terminal() {
            say_what_next(&address, &state_dir);
        }
        if let Some(health) = &health {
            tracing::info!(address = %health.local_addr()?, "health checks are answered");
        }
        let listeners = Listeners { protocol: listener, health };
        let served = server::run(config, store, listeners, shutdown).await;
        served.map_err(|error| Failure::local("the coordinator ended", error))?;
        tracing::info!("ended");
        Ok(())
    }

    /// Returns the flags that were given, by the keys that they set.
    fn flags(&self) -> Vec<(&'static str, String)> {
        let given = [
            ("listen", &self.listen),
            ("store", &self.store),
            ("tls.cert", &self.tls_cert),
            ("tls.key", &self.tls_key),
            ("tls.client_ca", &self.client_ca),
            ("advertise", &self.advertise),
            ("health", &self.health),
            ("metrics", &self.metrics),
            ("log_format", &self.log_format),
            ("log", &self.log),
        ];
        let given = given.into_iter().filter_map(|(key, flag)| Some((key, flag.clone()?)));
        given.chain(self.insecure_no_tls.then(|| ("insecure_no_tls", true.to_string()))).collect()
    }
}

/// How many connections the system keeps until they are taken; it may keep fewer. A whole team redials at once when its
/// coordinator has come back, and whom the system keeps no place for is cut off without a word.
const BACKLOG: u32 = 4_096;

/// How many files a coordinator has open besides connections at the most: its store, its listeners, certificates as they are
/// read.
const OTHER_FILES: u64 = 128;

/// Has the system let this process have as many connections open as it may take. Many systems let a program open 1,024
/// files until it asks for more.
fn allow_connections(max: usize) {
    let wanted = max as u64 + OTHER_FILES;
    let allowed = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(now, most)| {
        let raised = now.max(wanted.min(most));
        setrlimit(Resource::RLIMIT_NOFILE, raised, most).map(|()| raised)
    });
    match allowed {
        Ok(allowed) if allowed >= wanted => {}
        Ok(allowed) => tracing::warn!(
            allowed,
            wanted,
            "the system lets this process open fewer files than network.connections_max connections take: raise its hard limit \
             (ulimit -Hn, LimitNOFILE=) or lower that"
        ),
        Err(error) => tracing::warn!(%error, "it is not known how many files this process may open"),
    }
}

/// Listens where members call.
fn listen_at(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As `TcpListener::bind` does, so that a coordinator can come back at once.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// Listens at an address, if there is to be one.
async fn bind(at: Option<SocketAddr>, what: &str) -> Result<Option<TcpListener>, Failure> {
    let Some(at) = at else { return Ok(None) };
    let listener = TcpListener::bind(at).await;
    listener.map(Some).map_err(|error| Failure::local(&format!("{at} cannot be listened on for {what}"), error))
}

fn start_log(settings: &Settings, traces: &Traces) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&settings.log)
        .map_err(|error| Failure::usage(format!("log is \"{}\", which is not understood: {error}.", settings.log)))?;
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match settings.log_format.as_str() {
        "json" => log.json().boxed(),
        _ => log.with_target(false).with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    let started = tracing_subscriber::registry().with(log.with_filter(filter)).with(traces.layer()).try_init();
    started.map_err(|error| Failure::local("the log cannot be started", error))
}

/// Reads the certificates, if there are to be any.
fn certificates(settings: &Settings) -> Result<Option<Arc<Tls>>, Failure> {
    let (Some(cert), Some(key)) = (settings.tls_cert.clone(), settings.tls_key.clone()) else { return Ok(None) };
    let files = TlsFiles { cert, key, client_ca: settings.tls_client_ca.clone() };
    let tls = Tls::load(files).map_err(|error| Failure::usage(format!("There can be no TLS: {error}.")))?;
    Ok(Some(Arc::new(tls)))
}

/// Leaves the certificate of the authority, the last in the file, where clients on this machine look for whom to trust.
/// `None`: they trust whom they trust anyway.
fn keep_authority(state_dir: &Path, cert: Option<&Path>) -> Result<(), Failure> {
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

fn refresh_on_hangup(tls: Arc<Tls>) -> Result<(), Failure> {
    let mut hangups = tokio::signal::unix::signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tls.refresh();
        }
    });
    Ok(())
}

/// Returns where clients on this machine reach a listener: one that listens everywhere also does so on the loopback.
fn reachable(listener: SocketAddr) -> SocketAddr {
    match listener {
        SocketAddr::V4(address) if address.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
        SocketAddr::V6(address) if address.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
        other => other,
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

/// Returns the operator's secret: that of the file that was given, which is left in the state directory as well, or that of
/// the state directory; makes it on the first start.
fn operator_secret(state_dir: &Path, given: Option<&Path>) -> Result<String, Failure> {
    let path = state_dir.join(OPERATOR_FILE);
    let secret_in = |text: &str| match Credential::parse(text.trim()) {
        Ok(Credential::Operator { secret }) => Some(secret),
        _ => None,
    };
    if let Some(given) = given {
        let text = fs::read_to_string(given).map_err(|error| {
            Failure::usage(format!("The operator's credential {} cannot be read: {error}.", given.display()))
        })?;
        let secret = secret_in(&text).ok_or_else(|| {
            Failure::usage(format!(
                "{} holds no operator's credential, which is \"two:\" and 16 to 128 letters and digits.",
                given.display()
            ))
        })?;
        write_private(&path, format!("{}\n", text.trim()).as_bytes())?;
        return Ok(secret);
    }
    if let Ok(text) = fs::read_to_string(&path) {
        return secret_in(&text).ok_or_else(|| {
            Failure::usage(format!(
                "{} holds no operator's credential. Mend it, or move it away to have a new one made.",
                path.display()
            ))
        });
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

fn say_what_next(address: &str, state_dir: &Path) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_that_listens_everywhere_is_reached_on_the_loopback() {
        for (listens, reached) in [
            ("0.0.0.0:7420", "127.0.0.1:7420"),
            ("[::]:7420", "[::1]:7420"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("127.0.0.1:7420", "127.0.0.1:7420"),
        ] {
            assert_eq!(reachable(listens.parse().expect(listens)).to_string(), reached);
        }
    }
}
