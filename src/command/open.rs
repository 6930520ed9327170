//! `teamwire open`: lets other machines reach the coordinator that `teamwire up` started.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use clap::Args;
use teamwire_proto::address::TcpAddress;

use super::{
    Output,
    certs::{AUTHORITY_DAYS, CERTIFICATE_DAYS, certificate_hosts, machine_name},
    stop::{last, stop},
    up::{
        coordinator,
        records::{Listens, Network, Records},
        report::{Outcome, Report},
    },
};
use crate::{
    authority::{CertificateAuthority, Purpose},
    context::{ContextArgs, refuse_within_runner},
    failure::Failure,
};

/// Where the certificates are in the state directory.
const CERTIFICATES: &str = "certs";

/// Let other machines reach the coordinator that `teamwire up` started
///
/// Creates a certificate authority in the state directory, issues a certificate for a year, and restarts the coordinator
/// with TLS at a port of this machine. The members of this machine keep using its socket, and reconnect by themselves.
/// From then on, `teamwire invite` prints join strings for other machines; each contains the address and the fingerprint
/// of the authority. Run the command again to change the address or to renew the certificate. `teamwire restart --local`
/// closes the coordinator again.
///
/// The firewall of this machine must admit the port.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire open\n    teamwire invite tester            # prints a join string for another machine\n    teamwire open --host build-7.example --listen 0.0.0.0:8443"
)]
pub(super) struct Open {
    /// A host name or IP address at which other machines reach this one; may be repeated [default: this machine's
    /// address on the network]
    #[arg(long = "host", value_name = "NAME|IP", value_delimiter = ',')]
    hosts: Vec<String>,
    /// The address to listen on
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:7420", value_parser = listen_address)]
    listen: SocketAddr,
    #[command(flatten)]
    pub output: Output,
}

impl Open {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        refuse_within_runner("A coordinator cannot be opened here.")?;
        let (records, report) = (Records::of(context)?, Report { json: self.output.json });
        let _lock = records.lock()?;
        let record = last(&records)?;
        let hosts = if self.hosts.is_empty() { vec![machine_address()?] } else { self.hosts.clone() };
        let certified = certificate_hosts(hosts.iter().cloned().chain(machine_name()).collect())?;
        let authority = CertificateAuthority::open(&context.state_dir()?.join(CERTIFICATES), AUTHORITY_DAYS)?;
        let files = authority.issue("server", &Purpose::Server(&certified), CERTIFICATE_DAYS)?;
        let url = |host| TcpAddress { is_tls: true, host, port: self.listen.port() }.to_string();
        let network = Network {
            listen: self.listen,
            addresses: hosts.into_iter().map(url).collect(),
            certificate: files.cert,
            key: files.key,
        };
        let address = network.addresses.join(",");
        let opened = Listens { network: Some(network), ..record.listens.clone() };

        let was_running = stop(&record).await;
        if let Err(failure) = coordinator::start(context, &records, &opened).await {
            if was_running {
                coordinator::start(context, &records, &record.listens).await?;
            }
            let text = format!(
                "{}\nIt is as it was before. If another program has the port, choose one: `teamwire open --listen 0.0.0.0:PORT`.",
                failure.message().trim_end()
            );
            return Err(Failure::with_code(failure.code(), text));
        }
        let text = format!(
            "Opened the coordinator: other machines reach it at {address}, with TLS. Its members here stay connected over its socket."
        );
        report.line("coordinator", &address, Outcome::Done, &text);
        report.text("\nNext, for each program or person on another machine:\n");
        report.text("    teamwire invite NAME");
        Ok(())
    }
}

/// Parses an address with a port that join strings can contain.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "must be an IP address and a port, such as 0.0.0.0:7420")?;
    match address.port() {
        0 => Err("needs a port, which other machines will use".to_owned()),
        _ if address.ip().is_loopback() => Err("other machines cannot reach a loopback address".to_owned()),
        _ => Ok(address),
    }
}

/// Returns this machine's address on the network to which its default route leads.
fn machine_address() -> Result<String, Failure> {
    // Addresses that no machine has. A datagram socket that connects to one sends nothing; it only chooses its route.
    let documentation: [(SocketAddr, SocketAddr); 2] = [
        ((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::new(198, 51, 100, 1), 9).into()),
        ((Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into()),
    ];
    let address = documentation.into_iter().find_map(|(from, to)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback())
    });
    address.map(|ip| ip.to_string()).ok_or_else(|| {
        Failure::usage(
            "This machine has no default route, so its address on the network is unknown. Name it: `teamwire open --host IP`.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_listens_only_where_others_can_reach_it() {
        assert_eq!(listen_address("[::]:7420").unwrap().port(), 7420);
        for (text, why) in [("7420", "such as"), ("0.0.0.0:0", "needs a port"), ("127.0.0.1:7420", "loopback")] {
            assert!(listen_address(text).unwrap_err().contains(why), "{text}");
        }
    }
}
