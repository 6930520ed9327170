//! The configuration of a coordinator: the defaults, then a file, then the environment, then flags.
//!
//! `default.toml` is part of the program: it holds the defaults, explains every key, and is the form in which the
//! configuration is printed. [`key`] is the table of keys, [`value`] reads and bounds what they hold. Tests see to it that
//! file, table and the defaults of the coordinator's types say the same.

mod key;
mod value;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use teamwire_server::{delivery::session::Pace, domain::Limits, edge::Bounds, rate::Rates};
use toml_edit::{Document, DocumentMut, TableLike};

use crate::failure::Failure;
use key::{KEYS, Key};
use value::Value;

/// The defaults.
const DEFAULT: &str = include_str!("default.toml");

/// What a coordinator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub listen: String,
    /// Empty: a file in the state directory.
    pub store: String,
    pub advertise: Vec<String>,
    pub insecure_no_tls: bool,
    pub log: String,
    pub log_format: String,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_client_ca: Option<PathBuf>,
    pub tls_reload_interval: Duration,
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
            log: "info".to_owned(),
            log_format: "text".to_owned(),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            tls_reload_interval: server.tls_reload_interval,
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
        for address in &self.advertise {
            if !address.starts_with("http://") && !address.starts_with("https://") {
                return Err(Failure::usage(format!(
                    "advertise has \"{address}\"; an address is http://HOST:PORT or https://HOST:PORT."
                )));
            }
        }
        Ok(())
    }

    /// Returns where to listen.
    pub fn listen(&self) -> Result<SocketAddr, Failure> {
        self.listen.parse().map_err(|_| {
            Failure::usage(format!(
                "listen is \"{}\"; it must be an address and a port, as 127.0.0.1:7420 or [::1]:0.",
                self.listen
            ))
        })
    }
}

/// Collects what stands in a file: the path of every key, where it is, and its value.
fn leaves<'d>(above: &str, table: &'d dyn TableLike, found: &mut Vec<(String, Option<usize>, &'d toml_edit::Item)>) {
    for (name, item) in table.iter() {
        let path = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
        match item.as_table_like() {
            Some(table) if !table.is_empty() => leaves(&path, table, found),
            // A section may be empty.
            Some(_) if KEYS.iter().any(|key| key.path().0 == Some(path.as_str())) => {}
            _ => {
                let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
                found.push((path, span.map(|span| span.start), item));
            }
        }
    }
}

fn put(document: &mut DocumentMut, name: &str, value: toml_edit::Value) {
    let (section, key) = name.split_once('.').map_or((None, name), |(section, key)| (Some(section), key));
    let item = match section {
        Some(section) => &mut document[section][key],
        None => &mut document[key],
    };
    // What stands around the old value stays.
    let decor = item.as_value().map(|value| value.decor().clone());
    *item = toml_edit::value(value);
    if let (Some(value), Some(decor)) = (item.as_value_mut(), decor) {
        *value.decor_mut() = decor;
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
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
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn load(text: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, Failure> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("teamwire.toml");
        fs::write(&file, text).unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let flags: Vec<_> = flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Config::load(Some(&file), environment, &flags)
    }

    fn message(failure: Failure) -> String {
        let Failure::Other { code, message } = failure else { panic!("{failure:?}") };
        assert_eq!(code, crate::failure::USAGE);
        message
    }

    fn refused(text: &str) -> String {
        message(load(text, &[], &[]).expect_err(text))
    }

    #[test]
    fn the_default_file_has_every_key_with_the_default_of_the_code() {
        let document: DocumentMut = DEFAULT.parse().unwrap();
        let mut found = Vec::new();
        leaves("", document.as_table(), &mut found);
        let found: Vec<_> = found.into_iter().map(|(path, ..)| path).collect();
        let known: Vec<_> = KEYS.iter().map(|key| key.name).collect();
        assert_eq!(found, known);
        let none: [(String, String); 0] = [];
        let config = Config::load(None, none, &[]).unwrap();
        assert_eq!(config.settings, Settings::default());
        assert_eq!(config.print(), DEFAULT, "printed as it is documented");
    }

    #[test]
    fn every_limit_of_the_rules_is_a_key() {
        let fields = format!("{:#?}", Limits::default());
        let fields = fields.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(':'));
        let fields: Vec<_> =
            fields.map(|(field, _)| format!("limits.{field}")).filter(|name| !name.contains(' ')).collect();
        assert!(fields.len() > 10, "{fields:?}");
        for field in fields {
            assert!(KEYS.iter().any(|key| key.name == field), "{field} cannot be configured");
        }
    }

    #[test]
    fn the_default_file_says_every_bound() {
        let document: DocumentMut = DEFAULT.parse().unwrap();
        for key in KEYS
            .iter()
            .filter(|key| matches!(key.kind, value::Kind::Number(_) | value::Kind::Size(_) | value::Kind::Duration(_)))
        {
            let (section, name) = key.path();
            let table = document[section.expect("all bounded keys are in a section")].as_table().unwrap();
            let comment = table.key(name).unwrap().leaf_decor().prefix().unwrap().as_str().unwrap();
            let comment = comment.replace("\n# ", " ");
            assert!(
                comment.contains(&key.kind.bounds()),
                "{}: nothing of {} in {comment}",
                key.name,
                key.kind.bounds()
            );
        }
    }

    #[test]
    fn what_stands_nearer_to_the_caller_wins() {
        let file = "log = \"warn\"\n[limits]\nmembers_max = 10\ndeliveries_max = 7\nsummary_chars_max = 9\n";
        let environment =
            [("TEAMWIRE_LIMITS_DELIVERIES_MAX", "8"), ("TEAMWIRE_LOG", "debug"), ("TEAMWIRE_TEAM", "acme")];
        let config = load(file, &environment, &[("log", "trace")]).unwrap();
        let limits = &config.settings.limits;
        assert_eq!((limits.members_max, limits.deliveries_max, limits.summary_chars_max), (10, 8, 9));
        assert_eq!(limits.attachments_max, Limits::default().attachments_max);
        assert_eq!(config.settings.log, "trace");
        assert!(config.print().contains("members_max = 10\n"), "{}", config.print());
    }

    #[test]
    fn what_is_printed_reads_back_as_itself() {
        let file =
            "advertise = [\"http://a:1\", \"https://b:2\"]\n[limits]\ncontent_bytes_max = 5000\nlease_ttl = \"100s\"\n";
        let printed = load(file, &[], &[]).unwrap().print();
        let again = load(&printed, &[], &[]).unwrap();
        assert_eq!(again.print(), printed);
        assert_eq!(again.settings.limits.lease_ttl, Duration::from_secs(100));
        assert_eq!(again.settings.advertise.len(), 2);
    }

    #[test]
    fn the_password_of_a_store_is_not_printed() {
        for (url, shown) in [
            ("redis://ann:s3cret@host:6379/1", "redis://ann:***@host:6379/1"),
            ("redis://:s3@cret@host", "redis://:***@host"),
            ("redis://host", "redis://host"),
            ("embedded:/a/b", "embedded:/a/b"),
        ] {
            assert_eq!(without_password(url), shown);
        }
        let printed = load("store = \"redis://:s3cret@host\"", &[], &[]).unwrap().print();
        assert!(printed.contains("***") && !printed.contains("s3cret"), "{printed}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_what_would_be_right() {
        let error = refused("log = \"info\"\n\n[limits]\nmember_max = 3\n");
        assert!(error.contains("teamwire.toml:4") && error.contains("Did you mean limits.members_max?"), "{error}");
        let error = refused("[limit]\nmembers_max = 3\n");
        assert!(error.contains("limit.members_max") && error.contains("limits.members_max?"), "{error}");
        let error = refused("[network]\nconnections_max = 0\n");
        assert!(error.contains(":2: network.connections_max is 0; it must be 1 to 100000"), "{error}");
        let error = refused("[drain]\ngrace = 3\n");
        assert!(error.contains("drain.grace is 3; it must be \"0s\" to \"1h\""), "{error}");
        let error = refused("[limits]\nmembers_max = \"3\"\n");
        assert!(error.contains("it must be 1 to 1000"), "{error}");
        assert!(refused("[limits\n").contains("is not TOML"));
        let error = message(load("", &[("TEAMWIRE_RATES_SEND_BURST", "3")], &[]).unwrap_err());
        assert!(error.contains("TEAMWIRE_RATES_SENDS_BURST?"), "{error}");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        assert!(refused("[tls]\ncert = \"a\"\n").contains("tls.key"));
        assert!(refused("[tls]\nclient_ca = \"a\"\n").contains("tls.cert"));
        assert!(refused("[drain]\nhard_stop = \"1s\"\n").contains("drain.grace"));
        assert!(refused("[network]\nrequest_bytes_max = \"64KiB\"\n").contains("limits.content_bytes_max"));
        assert!(refused("[delivery]\nheartbeat_interval = \"20s\"\n").contains("limits.lease_ttl"));
        assert!(refused("advertise = [\"host:1\"]\n").contains("http://HOST:PORT"));
    }
}
