//! `teamwire serve`: runs a coordinator.

mod certificate;
mod listen;
mod mcp;
mod notify;
pub(in crate::command) mod operator;
mod resources;
mod socket;

use std::{
    fs,
    io::{self, IsTerminal as _},
    iter,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use teamwire_server::{
    console::Console,
    domain::{Limits, price::Prices},
    edge::listen::TcpAndSocket,
    grpc::Advertised,
    mcp::Mcp,
    server::{self, Listeners},
    store::{self, StoreError, backup},
    telemetry::{Metrics, metrics_endpoint},
};
use tokio::{
    sync::SetOnce,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use self::{
    listen::{bind_auxiliary, bind_protocol, local_address},
    mcp::HttpTools,
    operator::OperatorFiles,
    resources::{fit_connections, fit_memory},
    socket::{Place, Socket},
};
use super::{stop_on_signal::stop_on_signal, up::background::AwaitRecord};
use crate::{
    config::{Config, Settings, schema::schema},
    context::{ADDRESS_FILE, ContextArgs, make_private_directory, refuse_shared, write_private},
    failure::{Failure, UNREACHABLE},
    show::{bold, dim, paint},
    telemetry::Telemetry,
};

/// The embedded store's file in the state directory.
const STORE_FILE: &str = "teamwire.redb";

/// The library that serves MCP, as a filter of the log names it.
const MCP_LIBRARY: &str = "rmcp";

/// How long after the hard stop the store may still take to close.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// Run a coordinator
///
/// Without options, only this machine reaches the coordinator, which stores everything in one file in its state
/// directory. The commands of the same user call it over a Unix socket in that directory, where the first start also
/// creates the operator's credential. Browsers, and clients of other users, call it at 127.0.0.1:7420.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire serve\n    teamwire serve --print-config > teamwire.toml\n    teamwire serve --listen 0.0.0.0:7420 --tls-cert certs/server.crt --tls-key certs/server.key \\\n        --advertise https://HOST:7420"
)]
pub(super) struct Serve {
    /// The configuration file, in TOML; --print-config shows every key [env: TEAMWIRE_CONFIG]
    ///
    /// The environment can set every key: for example, TEAMWIRE_LISTEN sets `listen`, and TEAMWIRE_LIMITS_MEMBERS_MAX
    /// sets `limits.members_max`. Precedence, lowest to highest: defaults, file, environment, flags.
    #[arg(long, env = "TEAMWIRE_CONFIG", value_name = "FILE", hide_env = true)]
    config: Option<PathBuf>,
    /// Print the effective configuration, with every key documented, and exit
    #[arg(long)]
    print_config: bool,
    /// Print the JSON Schema of the configuration file and exit
    #[arg(long)]
    print_config_schema: bool,
    /// The address to listen on, besides the Unix socket in the state directory; port 0 selects a free port [default:
    /// 127.0.0.1:7420, or another port if that one is taken]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The path of the Unix socket, in a directory that only you and root can change [default: in the state directory]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// Also let the members of this group connect to the socket, such as agents that run as other users; requires
    /// --socket
    ///
    /// They still need a credential for every call.
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// The store: embedded:PATH, memory:, redis[s]://[[USER]:PASSWORD@]HOST[:PORT][/DB], redis+unix:///PATH,
    /// redis[s]+sentinel://HOST,.../SERVICE[/DB] or redis[s]+cluster://HOST,... [default: a file in the state
    /// directory]
    ///
    /// Other users of this machine can see a password in the process list: prefer --store-file, the environment
    /// (TEAMWIRE_STORE) or the configuration file.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The file with the store's URL
    #[arg(long, env = "TEAMWIRE_STORE_FILE", value_name = "FILE")]
    store_file: Option<PathBuf>,
    /// The coordinator's TLS certificate chain, in PEM
    ///
    /// The coordinator reloads certificates when their files change and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Require client certificates issued by a CA in this PEM file
    #[arg(long, value_name = "FILE")]
    client_ca: Option<String>,
    /// The URLs at which other machines reach this coordinator, as https://HOST:PORT
    #[arg(long, value_name = "URL[,URL]")]
    advertise: Option<String>,
    /// Allow other machines to connect without TLS; anyone on the network can then read everything and steal
    /// credentials
    #[arg(long)]
    insecure_no_tls: bool,
    /// Also answer health checks at this address, without TLS; for Kubernetes and other probes
    #[arg(long, value_name = "HOST:PORT")]
    health: Option<String>,
    /// Serve Prometheus metrics at http://HOST:PORT/metrics
    ///
    /// By default, metrics contain no message contents, names or credentials, so it is safe to expose them to other
    /// machines. The configuration key `metrics_teams` adds the names of teams; `metrics_members_max` adds the names of
    /// teams and members.
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// The log format: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// The log level: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    #[command(flatten)]
    await_record: AwaitRecord,
}

/// Tells the kernel to give this process no huge pages. The allocator asks for them, and to clear one takes the kernel
/// milliseconds, in which a call waits; a coordinator also takes less memory without them.
fn avoid_huge_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_thp_disable(true) {
        tracing::debug!(%error, "cannot turn off huge pages");
    }
}

impl Serve {
    pub(super) async fn run(self, context: &ContextArgs, telemetry: &Telemetry) -> Result<(), Failure> {
        if !self.await_record.is_recorded() {
            return Ok(());
        }
        if self.print_config_schema {
            anstream::println!("{:#}", schema());
            return Ok(());
        }
        let config = self.load_config()?;
        if self.print_config {
            anstream::print!("{}", config.print());
            return Ok(());
        }
        let mut settings = config.settings;
        let listen = settings.listen()?;
        require_tls_beyond_loopback(listen, &settings)?;
        start_log(&settings, telemetry)?;
        let tls = certificate::load(&settings)?;
        let alerts = notify::load(&settings.notify)?;
        fit_connections(&mut settings.edge.connections_max);
        fit_memory(&mut settings.shares);
        avoid_huge_pages();
        let state_dir = context.state_dir()?;
        make_private_directory(&state_dir)?;
        refuse_shared(&state_dir)?;
        let place = Place::of(&settings, &state_dir)?;
        let operator =
            OperatorFiles::load(&state_dir, settings.operator_credential.as_deref(), settings.operator_grace)?;

        // Bind before opening the store, so that a taken port leaves the store untouched.
        let listener = bind_protocol(listen, !self.is_listen_given(&settings))?;
        let metrics_listener = bind_auxiliary(settings.metrics()?, "metrics").await?;
        let health_listener = bind_auxiliary(settings.health()?, "health checks").await?;
        let store_url = store_url(&settings, &state_dir);
        let store = store::open(&store_url).await.map_err(cannot_open)?;

        if backup::is_unfinished(&*store).await.map_err(cannot_open)? {
            store.close().await;
            let text =
                "The store holds an unfinished restore. Run `teamwire restore` again, then start the coordinator.";
            return Err(Failure::with_code(UNREACHABLE, text));
        }

        // The store is open, so no other coordinator uses this state directory, unless they share a Redis.
        let socket_listener = Arc::new(SetOnce::new());
        let socket_is_over = CancellationToken::new();
        let mut holding = None;
        let socket_address = match Socket::bind(&place) {
            Ok(bound) => {
                let stop = socket_is_over.clone();
                holding = Some(Socket::hold(place.clone(), bound, Arc::clone(&socket_listener), stop));
                Some(place.address()?)
            }
            Err(failure) if settings.socket.is_some() => {
                store.close().await;
                return Err(failure);
            }
            // On a full disk, for example.
            Err(failure) => {
                let error = failure.message();
                tracing::warn!(error, "there is no Unix socket, so clients on this machine need --address");
                None
            }
        };

        let shutdown = stop_on_signal("draining")?;
        if let Some(tls) = &tls {
            certificate::reload_on_hangup(Arc::clone(tls))?;
        }
        let operator_secrets = operator.secrets();
        operator.keep_current(settings.tls_reload_interval)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listen = listener.local_addr()?;
        let tcp_address = format!("{scheme}://{}", local_address(listen));
        let address = match &socket_address {
            // The members of a coordinator that `up` started use its socket, even after `open`.
            Some(address) if tls.is_none() || self.await_record.is_given() => address.to_string(),
            _ => tcp_address.clone(),
        };
        publish(&state_dir.join(ADDRESS_FILE), format!("{address}\n").as_bytes(), &format!("--address {address}"));
        let ca_fingerprint = tls.as_ref().and_then(|tls| tls.ca_fingerprint());
        certificate::publish_ca(&state_dir, settings.tls_cert.as_deref().filter(|_| ca_fingerprint.is_some()))?;

        let is_interactive = settings.log_format == "text" && io::stdin().is_terminal() && io::stderr().is_terminal();
        let console = settings.serves_console(listen).then(|| Console {
            files: super::console::FILES,
            hosts: settings.console_hosts(),
            origins: settings.web_origins.clone(),
            is_tls: tls.is_some(),
            address: tcp_address.clone(),
        });
        let has_console = console.is_some();
        let mcp = settings.mcp_enabled.then(|| Mcp {
            tools: Arc::new(HttpTools::new(shutdown.clone())),
            hosts: settings.console_hosts(),
            is_tls: tls.is_some(),
            address: tcp_address.clone(),
        });
        // They were checked when they were read.
        let prices = Prices::parse(&settings.usage_prices).unwrap_or_default();
        let config = server::Config {
            limits: Limits { prices, ..settings.limits },
            pace: settings.pace,
            rates: settings.rates,
            shares: settings.shares,
            edge: settings.edge,
            tls,
            tls_reload_interval: settings.tls_reload_interval,
            advertised: Advertised { addresses: settings.advertise, ca_fingerprint, socket: socket_address },
            web_origins: settings.web_origins,
            console,
            mcp,
            drain_grace: settings.drain_grace,
            hard_stop: settings.hard_stop,
            alerts,
            metrics: Arc::new(Metrics::new(settings.metrics_members_max)),
            operator: operator_secrets,
        };
        if settings.metrics_teams {
            config.metrics.name_teams();
        }
        let stop_metrics = CancellationToken::new();
        let _stop_metrics_on_return = stop_metrics.clone().drop_guard();
        if let Some(listener) = metrics_listener {
            tracing::info!(address = %listener.local_addr()?, "metrics are served");
            tokio::spawn(metrics_endpoint::serve(listener, Arc::clone(&config.metrics), stop_metrics));
        }
        tracing::info!(%address, %listen, store = store_kind(&store_url), "serving");
        if has_console {
            tracing::info!("the console is at {tcp_address}/: sign in with `teamwire console`");
        }
        if is_interactive {
            print_next_steps(&address, &state_dir, &context.location_flags());
        }
        if let Some(listener) = &health_listener {
            tracing::info!(address = %listener.local_addr()?, "health checks are answered");
        }
        let protocol = TcpAndSocket { tcp: listener, socket: socket_listener, is_shared: place.is_shared() };
        let listeners = Listeners { protocol, health: health_listener };
        let (hard_stop, draining) = (config.hard_stop, shutdown.clone());
        let is_over = tokio::spawn(async move {
            draining.cancelled().await;
            sleep(hard_stop + CLOSE_GRACE).await;
        });
        let served = server::run(config, Arc::clone(&store), listeners, shutdown).await;
        // Calls that were cut off still hold the store, so it is closed explicitly. Otherwise the next start would
        // check it.
        tokio::select! {
            () = store.close() => {}
            _ = is_over => tracing::warn!("the store was not closed in time; the next start checks it"),
        }
        socket_is_over.cancel();
        if let Some(holding) = holding {
            let _ = timeout(CLOSE_GRACE, holding).await;
        }
        served.map_err(|error| Failure::local("The coordinator failed", error))?;
        tracing::info!("ended");
        Ok(())
    }

    /// Returns whether clients count on the port: it was chosen, or the coordinator is configured for more than this
    /// machine's user.
    fn is_listen_given(&self, settings: &Settings) -> bool {
        let is_set = ["TEAMWIRE_LISTEN", "TEAMWIRE_CONFIG"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
        let is_shared = settings.tls_cert.is_some() || !settings.advertise.is_empty();
        self.listen.is_some() || self.config.is_some() || is_set || is_shared
    }

    fn load_config(&self) -> Result<Config, Failure> {
        let mut flags = self.flags();
        if let (Some(file), None) = (&self.store_file, &self.store) {
            let url = fs::read_to_string(file).map_err(|error| {
                Failure::usage(format!("Cannot read the store's URL from {}: {error}.", file.display()))
            })?;
            flags.push(("store", url.trim().to_owned()));
        }
        // Our variables are UTF-8; ignore those that are not.
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let file = self.config.as_deref().filter(|file| !file.as_os_str().is_empty());
        Config::load(file, environment, &flags)
    }

    /// Returns the flags given, as configuration keys and values.
    fn flags(&self) -> Vec<(&'static str, String)> {
        let given = [
            ("listen", &self.listen),
            ("socket", &self.socket),
            ("socket_group", &self.socket_group),
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

/// Writes a file for clients on this machine, unless it is there already. The coordinator runs without it, so that it
/// can start on a full disk. `instead`: the flag that clients then need.
fn publish(path: &Path, contents: &[u8], instead: &str) {
    if std::fs::read(path).is_ok_and(|found| found == contents) {
        return;
    }
    let Err(failure) = write_private(path, contents) else { return };
    // A file of an earlier start would lead clients astray.
    let _ = std::fs::remove_file(path);
    tracing::warn!(
        path = %path.display(),
        error = failure.message(),
        "a file for clients on this machine could not be written: pass them {instead}"
    );
}

fn require_tls_beyond_loopback(listen: SocketAddr, settings: &Settings) -> Result<(), Failure> {
    if listen.ip().is_loopback() || settings.tls_cert.is_some() || settings.insecure_no_tls {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "Other machines can reach {listen}, but TLS is off. Give a certificate with --tls-cert and --tls-key, listen on \
         127.0.0.1, or, on a network that you trust, use --insecure-no-tls.",
    )))
}

fn start_log(settings: &Settings, telemetry: &Telemetry) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&settings.log).map_err(|error| {
        Failure::usage(format!(
            "log is \"{}\", which is not a valid filter: {error}. Use error, warn, info, debug or trace.",
            settings.log
        ))
    })?;
    // It says a few things about each request, and repeats what requests contain.
    let filter = match (settings.log.contains(MCP_LIBRARY), format!("{MCP_LIBRARY}=error").parse()) {
        (false, Ok(quiet)) => filter.add_directive(quiet),
        _ => filter,
    };
    let log = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let log = match settings.log_format.as_str() {
        "json" => log.json().boxed(),
        _ => log.with_target(false).with_ansi(io::stderr().is_terminal()).boxed(),
    };
    let started = tracing_subscriber::registry().with(log.with_filter(filter)).with(telemetry.layer()).try_init();
    started.map_err(|error| Failure::local("Cannot start the log", error))
}

/// Returns the failure of a command whose store cannot be opened.
pub(super) fn cannot_open(error: StoreError) -> Failure {
    match error {
        StoreError::Misconfigured(why) => Failure::usage(format!("The store cannot be used: {why}.")),
        error => Failure::with_code(UNREACHABLE, format!("The store cannot be opened: {error}.")),
    }
}

/// Returns the configured store's URL, or that of the embedded store in the state directory.
fn store_url(settings: &Settings, state_dir: &Path) -> String {
    match settings.store.as_str() {
        "" => format!("embedded:{}", state_dir.join(STORE_FILE).display()),
        url => url.to_owned(),
    }
}

/// Returns the kind of a store for the log, without the rest of its URL, which may hold a password.
fn store_kind(url: &str) -> &str {
    match url.split_once([':', '+']) {
        Some(("redis" | "rediss" | "valkey" | "valkeys", _)) => "redis",
        Some((kind, _)) => kind,
        None => "unknown",
    }
}

/// Commands to try next, one a line. An end-to-end test runs them.
const NEXT_STEPS: &str = include_str!("next_steps.txt");

/// Prints commands to try next, for a person who started the coordinator in a terminal. `flags`: those that the
/// commands need in another terminal.
fn print_next_steps(address: &str, state_dir: &Path, flags: &[String]) {
    // Use the name this process was started with, so that the commands work even if `teamwire` is not in PATH.
    let me = std::env::args().next().unwrap_or_else(|| "teamwire".to_owned());
    let words = iter::once(me.as_str()).chain(flags.iter().map(String::as_str));
    let me = shlex::try_join(words).unwrap_or_else(|_| me.clone());
    let steps = NEXT_STEPS.lines().map(|line| match line.replace("{me}", &me).split_once(" #") {
        Some((command, comment)) => format!("  {command}{}\n", paint(dim(), format!(" #{comment}"))),
        None => format!("  {}\n", line.replace("{me}", &me)),
    });
    anstream::eprintln!(
        "\n{}\n\n{}\n{}\n",
        paint(bold(), format!("The coordinator is listening on {address}. In another terminal, type:")),
        steps.collect::<String>(),
        paint(dim(), format!("All data is stored in {}.", state_dir.display()))
    );
}
