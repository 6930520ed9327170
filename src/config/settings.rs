//! What a coordinator is told.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use teamwire_proto::address::Address;
use teamwire_server::{delivery::session::Pace, domain::Limits, edge::Bounds, grpc::web::is_origin, rate::Rates};

use crate::failure::Failure;

/// What a coordinator is told: the keys of the default file, which explains them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub listen: String,
    /// Empty: a file in the state directory.
    pub store: String,
    pub advertise: Vec<String>,
    pub insecure_no_tls: bool,
    /// None: the one in the state directory.
    pub operator_credential: Option<PathBuf>,
    /// Empty: nowhere but with the protocol.
    pub health: String,
    /// Empty: none are served.
    pub metrics: String,
    pub log: String,
    pub log_format: String,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_client_ca: Option<PathBuf>,
    pub tls_reload_interval: Duration,
    pub web_origins: Vec<String>,
    pub edge: Bounds,
    pub rates: Rates,
    pub pace: Pace,
    pub drain_grace: Duration,
    pub hard_stop: Duration,
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        let server = teamwire_server::server::Config::new("");
        Self {
            listen: "127.0.0.1:7420".to_owned(),
            store: String::new(),
            advertise: server.advertised.addresses,
            insecure_no_tls: false,
            operator_credential: None,
            health: String::new(),
            metrics: String::new(),
            log: "info".to_owned(),
            log_format: "text".to_owned(),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            tls_reload_interval: server.tls_reload_interval,
            web_origins: server.web_origins,
            edge: server.edge,
            rates: server.rates,
            pace: server.pace,
            drain_grace: server.drain_grace,
            hard_stop: server.hard_stop,
            limits: server.limits,
        }
    }
}

impl Settings {
    /// Checks what no key can be checked for alone.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let wrong = |text: &str| Err(Failure::usage(text));
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return wrong("TLS needs both: tls.cert (--tls-cert) and tls.key (--tls-key).");
        }
        if self.tls_client_ca.is_some() && self.tls_cert.is_none() {
            return wrong("tls.client_ca (--client-ca) needs TLS: give tls.cert and tls.key with it.");
        }
        if self.hard_stop < self.drain_grace {
            return wrong("drain.hard_stop is before drain.grace is over. Make it as long or longer.");
        }
        if self.edge.request_bytes_max <= self.limits.content_bytes_max {
            return wrong(
                "network.request_bytes_max must be more than limits.content_bytes_max, or a message of that content could \
                 not be sent.",
            );
        }
        if self.pace.heartbeat_interval * 2 > self.limits.lease_ttl {
            return wrong(
                "delivery.heartbeat_interval must be at most half of limits.lease_ttl, or members that are connected would \
                 be taken for lost.",
            );
        }
        if let Some(other) = self.web_origins.iter().find(|origin| !is_origin(origin)) {
            return Err(Failure::usage(format!(
                "web.origins has \"{other}\"; an origin is what stands before the path in a browser's address line, in lower \
                 case and without a slash at its end, as https://HOST:PORT, or \"*\" for all."
            )));
        }
        if let Some(without) = self.advertise.iter().find(|address| !address.contains("://")) {
            return Err(Failure::usage(format!(
                "advertise has \"{without}\"; an address is http://HOST:PORT or https://HOST:PORT."
            )));
        }
        if !self.advertise.is_empty()
            && let Err(error) = Address::parse_list(&self.advertise.join(","))
        {
            return Err(Failure::usage(format!("advertise cannot be used: {error}.")));
        }
        Ok(())
    }

    /// Returns where to listen.
    pub fn listen(&self) -> Result<SocketAddr, Failure> {
        socket_address("listen", &self.listen)
    }

    /// Returns where to answer health checks besides, if anywhere.
    pub fn health(&self) -> Result<Option<SocketAddr>, Failure> {
        optional_address("health", &self.health)
    }

    /// Returns where to serve metrics, if anywhere.
    pub fn metrics(&self) -> Result<Option<SocketAddr>, Failure> {
        optional_address("metrics", &self.metrics)
    }
}

fn optional_address(key: &str, text: &str) -> Result<Option<SocketAddr>, Failure> {
    Some(text).filter(|text| !text.is_empty()).map(|text| socket_address(key, text)).transpose()
}

fn socket_address(key: &str, text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| {
        Failure::usage(format!("{key} is \"{text}\"; it must be an address and a port, as 127.0.0.1:7420 or [::1]:0."))
    })
}
