//! The settings of a coordinator, and the checks that involve more than one of them.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use teamwire_proto::address::Address;
use teamwire_server::{
    budget::{Rates, Shares},
    console::is_host,
    delivery::Pace,
    domain::{Limits, price::Prices},
    edge::Bounds,
    grpc::web::is_origin,
};

use super::Notify;
use crate::failure::Failure;

/// The typed values of all keys. `default.toml` documents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub listen: String,
    /// If `None`, it is in the state directory.
    pub socket: Option<PathBuf>,
    /// Empty if only the coordinator's own user may connect to the socket.
    pub socket_group: String,
    /// Empty means an embedded store in the state directory.
    pub store: String,
    pub advertise: Vec<String>,
    pub insecure_no_tls: bool,
    /// `None` means the one in the state directory.
    pub operator_credential: Option<PathBuf>,
    /// How long a credential of the operator is accepted after it was replaced in the file.
    pub operator_grace: Duration,
    /// Empty if health is served on the main address only.
    pub health: String,
    /// Empty if there is no Prometheus endpoint.
    pub metrics: String,
    pub metrics_teams: bool,
    pub metrics_members_max: usize,
    pub log: String,
    pub log_format: String,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_client_ca: Option<PathBuf>,
    pub tls_reload_interval: Duration,
    pub web_origins: Vec<String>,
    pub usage_prices: Vec<String>,
    /// `auto`, `on` or `off`.
    pub console_enabled: String,
    /// Whether members' tools are served by MCP at `/mcp`.
    pub mcp_enabled: bool,
    pub console_hosts: Vec<String>,
    pub edge: Bounds,
    pub rates: Rates,
    pub shares: Shares,
    pub pace: Pace,
    pub drain_grace: Duration,
    pub hard_stop: Duration,
    pub limits: Limits,
    pub notify: Vec<Notify>,
}

impl Default for Settings {
    fn default() -> Self {
        let server = teamwire_server::server::Config::new("");
        Self {
            listen: "127.0.0.1:7420".to_owned(),
            socket: None,
            socket_group: String::new(),
            store: String::new(),
            advertise: server.advertised.addresses,
            insecure_no_tls: false,
            operator_credential: None,
            operator_grace: Duration::from_secs(600),
            health: String::new(),
            metrics: String::new(),
            metrics_teams: false,
            metrics_members_max: 0,
            log: "info".to_owned(),
            log_format: "text".to_owned(),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            tls_reload_interval: server.tls_reload_interval,
            web_origins: server.web_origins,
            usage_prices: Vec::new(),
            console_enabled: "auto".to_owned(),
            mcp_enabled: true,
            console_hosts: Vec::new(),
            edge: server.edge,
            rates: server.rates,
            shares: server.shares,
            pace: server.pace,
            drain_grace: server.drain_grace,
            hard_stop: server.hard_stop,
            limits: server.limits,
            notify: Vec::new(),
        }
    }
}

impl Settings {
    /// Checks the conditions that involve more than one key, and the form of addresses.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let wrong = |text: &str| Err(Failure::usage(text));
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return wrong("TLS needs both tls.cert (--tls-cert) and tls.key (--tls-key). Set both, or neither.");
        }
        if self.tls_client_ca.is_some() && self.tls_cert.is_none() {
            return wrong("tls.client_ca (--client-ca) needs TLS. Also set tls.cert and tls.key.");
        }
        if self.hard_stop < self.drain_grace {
            return wrong("drain.hard_stop must be at least drain.grace.");
        }
        if self.edge.request_bytes_max <= self.limits.content_bytes_max {
            return wrong(
                "network.request_bytes_max must be larger than limits.content_bytes_max; otherwise messages with the maximum \
                 content cannot be sent.",
            );
        }
        if self.shares.reply_bytes_per_credential_max > self.shares.reply_bytes_max {
            return wrong(
                "shares.reply_bytes_per_credential_max must be at most shares.reply_bytes_max, of which it is a part.",
            );
        }
        if self.shares.request_bytes_per_credential_max > self.shares.request_bytes_max {
            return wrong(
                "shares.request_bytes_per_credential_max must be at most shares.request_bytes_max, of which it is a part.",
            );
        }
        if self.shares.reads_per_credential_max > self.shares.reads_max {
            return wrong("shares.reads_per_credential_max must be at most shares.reads_max, of which it is a part.");
        }
        if self.pace.heartbeat_interval * 2 > self.limits.lease_ttl {
            return wrong(
                "delivery.heartbeat_interval must be at most half of limits.lease_ttl; otherwise connected members lose \
                 their leases.",
            );
        }
        for (at, table) in self.notify.iter().enumerate() {
            let is_same =
                |other: &&Notify| (&other.to, &other.exec, &other.events) == (&table.to, &table.exec, &table.events);
            if let Some(other) = self.notify[..at].iter().find(is_same) {
                return Err(Failure::usage(format!(
                    "{}: this table has the same receiver and events as the one at {}. Remove one of them.",
                    table.place, other.place
                )));
            }
        }
        if let Err(line) = Prices::parse(&self.usage_prices) {
            return Err(Failure::usage(format!(
                "usage.prices has \"{line}\", which is not a price. Write \"MODEL INPUT CACHED OUTPUT\", with US dollars for a million \
                 tokens, such as \"gpt-5.2* 1.25 0.125 10\"."
            )));
        }
        if let Some(other) = self.web_origins.iter().find(|origin| !is_origin(origin)) {
            return Err(Failure::usage(format!(
                "web.origins has \"{other}\", which is not an origin. Write https://HOST:PORT in lower case, without a path or \
                 trailing slash, or \"*\" for all origins."
            )));
        }
        if let Some(other) = self.console_hosts.iter().find(|host| !is_host(host)) {
            return Err(Failure::usage(format!(
                "console.hosts has \"{other}\", which is not the name of a host. Write it without a scheme and a port, such as \
                 coordinator.example."
            )));
        }
        if let Some(without) = self.advertise.iter().find(|address| !address.contains("://")) {
            return Err(Failure::usage(format!(
                "advertise has \"{without}\", which is not a URL. Write http://HOST:PORT or https://HOST:PORT."
            )));
        }
        if !self.advertise.is_empty()
            && let Err(error) = Address::parse_list(&self.advertise.join(","))
        {
            return Err(Failure::usage(format!("advertise cannot be used: {error}.")));
        }
        Ok(())
    }

    /// Returns the address to listen on.
    pub(crate) fn listen(&self) -> Result<SocketAddr, Failure> {
        socket_address("listen", &self.listen)
    }

    /// Returns whether to serve the console to those who reach this address.
    pub(crate) fn serves_console(&self, listener: SocketAddr) -> bool {
        match self.console_enabled.as_str() {
            "on" => true,
            "off" => false,
            _ => listener.ip().is_loopback(),
        }
    }

    /// Returns the names by which browsers may reach the console, besides `localhost` and IP addresses.
    pub(crate) fn console_hosts(&self) -> Vec<String> {
        let advertised = self.advertise.iter().filter_map(|address| address.parse::<Address>().ok());
        let hosts = advertised.filter_map(|address| match address {
            Address::Tcp(address) => Some(address.host),
            Address::Unix(_) => None,
        });
        hosts.chain(self.console_hosts.iter().cloned()).collect()
    }

    /// Returns the additional address for health checks, if there is one.
    pub(crate) fn health(&self) -> Result<Option<SocketAddr>, Failure> {
        optional_address("health", &self.health)
    }

    /// Returns the address of the metrics endpoint, if there is one.
    pub(crate) fn metrics(&self) -> Result<Option<SocketAddr>, Failure> {
        optional_address("metrics", &self.metrics)
    }
}

fn optional_address(key: &str, text: &str) -> Result<Option<SocketAddr>, Failure> {
    Some(text).filter(|text| !text.is_empty()).map(|text| socket_address(key, text)).transpose()
}

fn socket_address(key: &str, text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| {
        Failure::usage(format!(
            "{key} is \"{text}\"; it must be an IP address and a port, such as 127.0.0.1:7420 or [::1]:0."
        ))
    })
}
