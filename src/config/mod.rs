//! The configuration of a coordinator: the defaults, then a file, then the environment, then flags.
//!
//! `default.toml` is part of the program: it holds the defaults, explains every key, and is the form in which the
//! configuration is printed. [`key`] is the table of keys, [`value`] reads and bounds what they hold, [`document`]
//! finds and changes them in a file. Tests see to it that file, table and the defaults of the coordinator's types say the
//! same.

mod document;
mod key;
mod value;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use teamwire_proto::address::Address;
use teamwire_server::{delivery::Pace, domain::Limits, edge::Bounds, grpc::web::is_origin, rate::Rates};
use toml_edit::{Document, DocumentMut};

use crate::failure::Failure;
use document::{leaves, line_of, put};
use key::{KEYS, Key};
use value::Value;

/// The defaults.
const DEFAULT: &str = include_str!("default.toml");

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

/// The configuration that holds.
#[derive(Debug)]
pub struct Config {
    pub settings: Settings,
    /// The default file with all values that hold.
    document: DocumentMut,
}

impl Config {
    /// Puts the configuration together. `flags`: keys and their values as they were typed.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, String)],
    ) -> Result<Self, Failure> {
        let document = DEFAULT.parse().map_err(|error| Failure::local("the default configuration is broken", error))?;
        let mut config = Self { settings: Settings::default(), document };
        config.take_file("the default configuration", DEFAULT)?;
        if let Some(file) = file {
            let name = file.display().to_string();
            let text = fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("The configuration {name} cannot be read: {error}.")))?;
            config.take_file(&name, &text)?;
        }
        for (variable, text) in environment {
            match KEYS.iter().find(|key| key.variable() == variable) {
                // An empty variable is one that is not set.
                Some(key) if !text.is_empty() => config.take_text(&variable, key, &text)?,
                None if key::is_of_a_section(&variable) => {
                    let known = KEYS.iter().map(Key::variable);
                    return Err(unknown("The environment has", &variable, "variable", known));
                }
                _ => {}
            }
        }
        for (name, text) in flags {
            if let Some(key) = KEYS.iter().find(|key| key.name == *name) {
                config.take_text(&format!("The flag for {name}"), key, text)?;
            }
        }
        config.settings.check()?;
        Ok(config)
    }

    /// Returns the configuration as a file that comes to the same, without the store's password.
    pub fn print(&self) -> String {
        let mut document = self.document.clone();
        put(&mut document, "store", without_password(&self.settings.store).into());
        document.to_string()
    }

    fn take_file(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        let document = Document::parse(text)
            .map_err(|error| Failure::usage(format!("{name} is not TOML: {}", error.to_string().trim_end())))?;
        let mut found = Vec::new();
        leaves("", document.as_table(), &mut found);
        for (path, span, item) in found {
            let place = span.map_or_else(|| name.to_owned(), |start| format!("{name}:{}", line_of(text, start)));
            let Some(key) = KEYS.iter().find(|key| key.name == path) else {
                let known = KEYS.iter().map(|key| key.name.to_owned());
                return Err(unknown(&format!("{place} has"), &path, "key", known));
            };
            let value = item.as_value().and_then(|value| key.kind.read(value));
            let given = item.to_string();
            self.take(key, value.ok_or_else(|| out_of_bounds(&place, key, given.trim()))?);
        }
        Ok(())
    }

    fn take_text(&mut self, place: &str, key: &Key, text: &str) -> Result<(), Failure> {
        let value = key.kind.parse(text).ok_or_else(|| out_of_bounds(place, key, &format!("\"{text}\"")))?;
        self.take(key, value);
        Ok(())
    }

    fn take(&mut self, key: &Key, value: Value) {
        put(&mut self.document, key.name, key.kind.write(&value));
        key.put(&mut self.settings, value);
    }
}

impl Settings {
    /// Checks what no key can be checked for alone.
    fn check(&self) -> Result<(), Failure> {
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

fn out_of_bounds(place: &str, key: &Key, given: &str) -> Failure {
    let given = if key.name == "store" { "something else" } else { given };
    Failure::usage(format!("{place}: {} is {given}; it must be {}.", key.name, key.kind.bounds()))
}

fn unknown(place_has: &str, name: &str, what: &str, known: impl Iterator<Item = String>) -> Failure {
    let nearest = known.min_by_key(|known| strsim::damerau_levenshtein(known, name)).unwrap_or_default();
    Failure::usage(format!(
        "{place_has} the unknown {what} {name}. Did you mean {nearest}? `teamwire serve --print-config` shows all keys."
    ))
}

/// Returns a store's URL with its password blanked.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let Some((user_info, place)) = rest.rsplit_once('@') else { return url.to_owned() };
    match user_info.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:***@{place}"),
        None => format!("{scheme}://***@{place}"),
    }
}

#[cfg(test)]
mod tests;
