//! `teamwire certs`: creates a private certificate authority and issues certificates.

use std::{net::IpAddr, path::PathBuf};

use clap::Args;
use teamwire_proto::name::Name;

use super::Output;
use crate::{
    authority::{CertificateAuthority, Files, Purpose},
    failure::Failure,
    show,
};

/// The names and addresses of the machine itself, which every certificate includes.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How long certificates are valid by default.
pub(super) const CERTIFICATE_DAYS: u32 = 365;

/// How long a new certificate authority is valid by default.
pub(super) const AUTHORITY_DAYS: u32 = 3_650;

/// Issue TLS certificates for a coordinator on a private network
///
/// The first run creates a certificate authority (ca.crt, ca.key); later runs reuse it. Every run issues a certificate
/// for the coordinator (server.crt, server.key) and one for each --client. Run it again to renew certificates or to add
/// clients. Keep ca.key secret: anyone who has it can impersonate the coordinator.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire certs --host coordinator.example --dir certs")]
pub(super) struct Certs {
    /// The directory for the certificates and keys
    #[arg(long, default_value = "certs", value_name = "DIR")]
    dir: PathBuf,
    /// A host name or IP address of the coordinator; may be repeated. localhost, 127.0.0.1 and ::1 are always included
    /// [default: this machine's name]
    #[arg(long = "host", value_name = "NAME|IP", value_delimiter = ',')]
    hosts: Vec<String>,
    /// A client to issue a certificate to; may be repeated. Needed if the coordinator runs with --client-ca
    #[arg(long = "client", value_name = "NAME", value_delimiter = ',')]
    clients: Vec<String>,
    /// How long the certificates are valid, in days
    #[arg(long, default_value_t = CERTIFICATE_DAYS, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,
    /// How long a new certificate authority is valid, in days
    #[arg(long, default_value_t = AUTHORITY_DAYS, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    ca_days: u32,
    #[command(flatten)]
    pub output: Output,
}

impl Certs {
    pub(super) fn run(&self) -> Result<(), Failure> {
        // Client names become file names, so they must be valid names.
        let clients = self.clients.iter().map(|name| Name::parse(name, "client")).collect::<Result<Vec<_>, _>>()?;
        let hosts = self.hosts()?;
        let authority = CertificateAuthority::open(&self.dir, self.ca_days)?;
        let server = authority.issue("server", &Purpose::Server(&hosts), self.days)?;
        let mut issued = Vec::new();
        for client in &clients {
            let files = authority.issue(&format!("client-{client}"), &Purpose::Client(client.as_str()), self.days)?;
            issued.push((client.to_string(), files));
        }
        if self.output.json {
            show::line(&json(&authority, &server, &hosts, &issued));
        } else {
            print(&authority, &server, &hosts, &issued);
        }
        Ok(())
    }

    /// Returns the hosts of the coordinator's certificate.
    fn hosts(&self) -> Result<Vec<String>, Failure> {
        certificate_hosts(if self.hosts.is_empty() { machine_name().into_iter().collect() } else { self.hosts.clone() })
    }
}

/// Returns this machine's name, if it has one.
pub(super) fn machine_name() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
}

/// Returns the distinct hosts of a coordinator's certificate: these, and the names of the machine itself. Those that the
/// user gave come first, because the printed advice uses the first one.
pub(super) fn certificate_hosts(mut hosts: Vec<String>) -> Result<Vec<String>, Failure> {
    hosts.extend(LOOPBACK.map(ToOwned::to_owned));
    let mut distinct: Vec<String> = Vec::new();
    for host in hosts {
        if !is_host(&host) {
            return Err(Failure::usage(format!(
                "\"{host}\" is not a host. Give a name such as coordinator.example or an IP address, without a port."
            )));
        }
        if !distinct.iter().any(|known| known.eq_ignore_ascii_case(&host)) {
            distinct.push(host);
        }
    }
    Ok(distinct)
}

fn is_host(text: &str) -> bool {
    // A wildcard such as `*.example` covers a domain.
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_label_char = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_name =
        name.len() <= 253 && name.split('.').all(|l| !l.is_empty() && l.len() <= 63 && l.chars().all(is_label_char));
    text.parse::<IpAddr>().is_ok() || is_name
}

fn json(
    authority: &CertificateAuthority,
    server: &Files,
    hosts: &[String],
    clients: &[(String, Files)],
) -> serde_json::Value {
    let clients: Vec<_> = clients
        .iter()
        .map(|(name, files)| serde_json::json!({ "name": name, "cert": files.cert, "key": files.key }))
        .collect();
    serde_json::json!({
        "ca": {
            "cert": authority.files().cert,
            "key": authority.files().key,
            "fingerprint": authority.fingerprint().to_string(),
            "is_new": authority.is_new(),
        },
        "server": { "cert": server.cert, "key": server.key, "hosts": hosts },
        "clients": clients,
    })
}

fn print(authority: &CertificateAuthority, server: &Files, hosts: &[String], clients: &[(String, Files)]) {
    let origin = if authority.is_new() { "new" } else { "reused" };
    anstream::println!("{} ({origin})  {}", authority.files().cert.display(), authority.fingerprint());
    anstream::println!("{}  for {}", server.cert.display(), hosts.join(", "));
    for (name, files) in clients {
        anstream::println!("{}  for client {name}", files.cert.display());
    }
    let host = hosts.first().map_or("HOST", String::as_str);
    let host = if host.contains(':') { format!("'[{host}]'") } else { host.to_owned() };
    let (cert, key) = (server.cert.display(), server.key.display());
    let mut next = format!(
        "teamwire serve --listen 0.0.0.0:7420 --tls-cert {cert} --tls-key {key} --advertise https://{host}:7420"
    );
    if !clients.is_empty() {
        next.push_str(&format!(" --client-ca {}", authority.files().cert.display()));
    }
    anstream::println!("Next:  {next}");
    if let Some((_, files)) = clients.first() {
        let (cert, key) = (files.cert.display(), files.key.display());
        anstream::println!("       teamwire join - --cert {cert} --key {key}");
    } else {
        anstream::println!("       teamwire invite NAME");
    }
}
