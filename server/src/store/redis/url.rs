//! Parses store URLs: which servers, how to connect to them, and how durable commits must be. `docs/redis.md` lists the
//! forms and options.

use std::{collections::BTreeMap, fs, time::Duration};

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, TlsCertificates,
    io::tcp::TcpSettings,
};

use super::replicas::ReplicationPolicy;
use crate::store::StoreError;

/// How long sent data may stay unacknowledged before the kernel drops the connection.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// The default port of Sentinels.
const SENTINEL_PORT: u16 = 26_379;

/// The allowed values of `wait`, in milliseconds.
const WAIT_MS: std::ops::RangeInclusive<u64> = 10..=60_000;

/// The default of `wait`.
const WAIT_DEFAULT: Duration = Duration::from_secs(1);

/// The servers that a URL names.
#[derive(Clone)]
pub(super) enum Endpoint {
    /// One server.
    Server(ConnectionInfo),
    /// The primary of a service behind Sentinels.
    Sentinel {
        /// The Sentinels.
        sentinels: Vec<ConnectionInfo>,
        /// The service's name.
        service: String,
        /// How to connect to the primary; the address is a placeholder.
        primary: ConnectionInfo,
    },
    /// How to connect to a cluster's nodes (the address is a placeholder), and the nodes to ask first.
    Cluster(ConnectionInfo, Vec<ConnectionInfo>),
}

impl Endpoint {
    /// Returns whether a single server holds the whole store.
    pub(super) fn is_single(&self) -> bool {
        !matches!(self, Self::Cluster(..))
    }
}

/// Parses a URL into the servers and the replication policy. Errors never repeat the URL, because it may contain a
/// password.
pub(super) fn parse(url: &str) -> Result<(Endpoint, Option<ReplicationPolicy>), StoreError> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("it has no `://`"))?;
    let (tls, form) = scheme_of(scheme)?;
    if rest.contains('#') {
        return Err(invalid("it contains `#`: write %23 in a name or password"));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut parameters: BTreeMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    // The store always speaks RESP2.
    parameters.remove("protocol");
    let replication = replication(&mut parameters)?;
    let endpoint = match form {
        "+unix" => Endpoint::Server(socket(rest, &mut parameters)?),
        _ => servers(form, tls, rest, &mut parameters)?,
    };
    match parameters.keys().next() {
        Some(unknown) => Err(invalid(&format!(
            "the option `{}` does not exist, or not in this form of URL",
            unknown.escape_default()
        ))),
        None => Ok((endpoint, replication)),
    }
}

fn replication(parameters: &mut BTreeMap<String, String>) -> Result<Option<ReplicationPolicy>, StoreError> {
    let (replicas, wait) = (parameters.remove("replicas"), parameters.remove("wait"));
    let wait = match wait.as_deref() {
        Some(wait) => {
            let ms = wait.strip_suffix("ms").map(str::parse::<u64>);
            let ms = ms.or_else(|| Some(wait.strip_suffix('s')?.parse().map(|s: u64| s.saturating_mul(1_000))));
            let ms = ms.and_then(Result::ok).filter(|ms| WAIT_MS.contains(ms));
            Duration::from_millis(ms.ok_or_else(|| invalid("`wait` must be a time from 10ms to 60s, such as 500ms"))?)
        }
        None => WAIT_DEFAULT,
    };
    let fsync = match parameters.remove("fsync").as_deref() {
        None | Some("no") => false,
        Some("yes") => true,
        Some(_) => return Err(invalid("`fsync` must be yes or no")),
    };
    match replicas.map(|replicas| replicas.parse()) {
        None | Some(Ok(0)) if fsync => Err(invalid("`fsync=yes` applies to replicas: add `replicas=N`")),
        None | Some(Ok(0)) => Ok(None),
        Some(Ok(replicas @ 1..=100)) => Ok(Some(ReplicationPolicy { replicas, timeout: wait, fsync })),
        Some(_) => Err(invalid("`replicas` must be a number from 0 to 100")),
    }
}

/// Splits a scheme into whether it asks for TLS, and the form of the URL.
fn scheme_of(scheme: &str) -> Result<(bool, &str), StoreError> {
    let (base, form) = scheme.split_at(scheme.find('+').unwrap_or(scheme.len()));
    let tls = match base {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return Err(invalid("it must start with redis: or rediss:")),
    };
    match form {
        "" | "+sentinel" | "+cluster" => Ok((tls, form)),
        "+unix" if !tls => Ok((tls, form)),
        _ => Err(invalid("only +sentinel, +cluster or +unix may follow redis, and +unix has no TLS")),
    }
}

fn servers(
    form: &str,
    tls: bool,
    rest: &str,
    parameters: &mut BTreeMap<String, String>,
) -> Result<Endpoint, StoreError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), authority),
    };
    let certificates = certificates(tls, parameters)?;
    let scheme = if tls { "rediss" } else { "redis" };
    let reach = |login: &str, host: &str, database: &str| {
        let info =
            format!("{scheme}://{login}{host}/{database}").into_connection_info().map_err(|e| invalid(&e.to_string()));
        tuned(info?, certificates.as_ref())
    };
    match form {
        "+sentinel" => {
            let (service, database) = path.split_once('/').unwrap_or((path, ""));
            if service.is_empty() {
                return Err(invalid("it names no service: use redis+sentinel://HOST/SERVICE"));
            }
            let (user, password) = (parameters.remove("sentinel_user"), parameters.remove("sentinel_password"));
            let sentinel = |host: &str| {
                let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
                let host = if has_port { host.to_owned() } else { format!("{host}:{SENTINEL_PORT}") };
                let info = reach("", &host, "")?;
                let mut settings = info.redis_settings().clone();
                if let Some(user) = &user {
                    settings = settings.set_username(user);
                }
                if let Some(password) = &password {
                    settings = settings.set_password(password);
                }
                Ok(info.set_redis_settings(settings))
            };
            Ok(Endpoint::Sentinel {
                sentinels: hosts.split(',').map(sentinel).collect::<Result<_, StoreError>>()?,
                service: service.to_owned(),
                primary: reach(&login, "primary", database)?,
            })
        }
        "+cluster" if !path.is_empty() => Err(invalid("a cluster has no databases")),
        "+cluster" => {
            let seeds = hosts.split(',').map(|host| reach(&login, host, ""));
            Ok(Endpoint::Cluster(reach(&login, "node", "")?, seeds.collect::<Result<_, _>>()?))
        }
        _ if hosts.contains(',') => Err(invalid("several hosts require redis+sentinel: or redis+cluster:")),
        _ => Ok(Endpoint::Server(reach(&login, hosts, path)?)),
    }
}

fn socket(path: &str, parameters: &mut BTreeMap<String, String>) -> Result<ConnectionInfo, StoreError> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for name in ["db", "user", "pass"] {
        query.extend_pairs(parameters.remove_entry(name));
    }
    let url = format!("redis+unix://{path}?{}", query.finish());
    tuned(url.into_connection_info().map_err(|error| invalid(&error.to_string()))?, None)
}

fn certificates(tls: bool, parameters: &mut BTreeMap<String, String>) -> Result<Option<TlsCertificates>, StoreError> {
    if !tls {
        return Ok(None);
    }
    let mut file = |name: &str| match parameters.remove(name) {
        Some(path) => fs::read(&path)
            .map(Some)
            .map_err(|error| invalid(&format!("the file of `{name}`, {path}, cannot be read: {error}"))),
        None => Ok(None),
    };
    let client_tls = match (file("cert")?, file("key")?) {
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
        (None, None) => None,
        _ => return Err(invalid("`cert` and `key` must be given together")),
    };
    // Another part of the process may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(Some(TlsCertificates { client_tls, root_cert: file("ca")? }))
}

/// Applies the settings that all connections share.
fn tuned(server: ConnectionInfo, certificates: Option<&TlsCertificates>) -> Result<ConnectionInfo, StoreError> {
    let tcp = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(UNACKNOWLEDGED_MAX);
    let settings = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    let server = server.set_tcp_settings(tcp).set_redis_settings(settings);
    match certificates {
        Some(certificates) => {
            let client = Client::build_with_tls(server, certificates.clone()).map_err(|e| invalid(&e.to_string()))?;
            Ok(client.get_connection_info().clone())
        }
        None => Ok(server),
    }
}

/// Returns `template` with another address.
pub(super) fn with_address(template: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let host = host.to_owned();
    let address = match template.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    template.clone().set_addr(address)
}

/// Returns the host of a server. Empty for a socket.
pub(super) fn host_of(server: &ConnectionInfo) -> &str {
    match server.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
        _ => "",
    }
}

fn invalid(why: &str) -> StoreError {
    StoreError::Misconfigured(format!("the store URL is not valid: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(server: &ConnectionInfo) -> String {
        let settings = server.redis_settings();
        let tls = matches!(server.addr(), ConnectionAddr::TcpTls { insecure: false, .. });
        let (user, password) = (settings.username().unwrap_or("-"), settings.password().unwrap_or("-"));
        format!("{} tls={tls} {user} {password} {}", server.addr(), settings.db())
    }

    fn parsed(url: &str) -> Vec<String> {
        match parse(url).unwrap().0 {
            Endpoint::Server(server) => vec![shown(&server)],
            Endpoint::Sentinel { sentinels, service, primary } => {
                let own = shown(&with_address(&primary, "found", 1));
                sentinels.iter().map(shown).chain([service, own]).collect()
            }
            Endpoint::Cluster(_, nodes) => nodes.iter().map(shown).collect(),
        }
    }

    #[test]
    fn every_url_form_yields_addresses_and_credentials() {
        for (url, expected) in [
            ("redis://host", &["host:6379 tls=false - - 0"][..]),
            ("valkey://u:p%40ss@host:1/3?protocol=resp3", &["host:1 tls=false u p@ss 3"]),
            ("rediss://:p@[::1]:7/2", &["::1:7 tls=true - p 2"]),
            ("redis+unix:///run/r.sock?db=2&pass=p", &["/run/r.sock tls=false - p 2"]),
            ("redis+cluster://:p@a,b:7", &["a:6379 tls=false - p 0", "b:7 tls=false - p 0"]),
            (
                "rediss+sentinel://u:p@a,[::1],b:7/main/4?sentinel_password=s",
                &[
                    "a:26379 tls=true - s 0",
                    "::1:26379 tls=true - s 0",
                    "b:7 tls=true - s 0",
                    "main",
                    "found:1 tls=true u p 4",
                ],
            ),
        ] {
            assert_eq!(parsed(url), expected, "{url}");
        }
    }

    #[test]
    fn url_sets_the_replication_policy() {
        let policy =
            |replicas, ms| Some(ReplicationPolicy { replicas, timeout: Duration::from_millis(ms), fsync: false });
        for (parameters, expected) in [
            ("", None),
            ("?replicas=0", None),
            ("?replicas=1", policy(1, 1_000)),
            ("?replicas=2&wait=500ms", policy(2, 500)),
            ("?wait=3s&replicas=1", policy(1, 3_000)),
        ] {
            assert_eq!(parse(&format!("redis://host{parameters}")).unwrap().1, expected, "{parameters}");
        }
    }

    #[test]
    fn invalid_url_is_refused_without_repeating_its_password() {
        for url in [
            "redis:hunter2",
            "http://:hunter2@host",
            "rediss+unix:///hunter2",
            "redis+more://:hunter2@host",
            "redis://:hunter2@host/words",
            "redis://:hunter2@host:99999",
            "redis://:hunter2@host#insecure",
            "redis://:hunter2@a,b",
            "redis://:hunter2@host?wiat=1",
            "redis://:hunter2@host?replicas=many",
            "redis://:hunter2@host?replicas=1&fsync=maybe",
            "redis://:hunter2@host?fsync=yes",
            "redis://:hunter2@host?replicas=1&wait=1h",
            "redis://:hunter2@host?replicas=1&wait=2ms",
            "redis://:hunter2@host?ca=only-for-tls",
            "rediss://:hunter2@host?ca=/no/such/file",
            "rediss://:hunter2@host?cert=/dev/null",
            "redis+cluster://:hunter2@a/1",
            "redis+sentinel://:hunter2@a",
            "redis+sentinel://:hunter2@/main",
        ] {
            let error = parse(url).err().unwrap_or_else(|| panic!("{url} is accepted")).to_string();
            assert!(error.contains("the store URL is not valid: ") && !error.contains("hunter2"), "{error}");
        }
    }
}
