//! Where a coordinator is: `http://HOST:PORT`, `https://HOST:PORT`, or `unix:///PATH` for a socket on this machine.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// How many addresses may stand in one list.
pub const ADDRESSES_MAX: usize = 16;

/// The most characters that a host may have.
const HOST_CHARS_MAX: usize = 253;

/// The most bytes that the path of a socket may have. Linux allows 107, macOS 103.
pub const SOCKET_PATH_BYTES_MAX: usize = 103;

/// What a socket's path is written without: all that could end it in a list, in a join string, or at a shell.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// An address of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// Over the network.
    Tcp(TcpAddress),
    /// The absolute path of a Unix socket on this machine.
    Unix(String),
}

/// An address on the network. Its text has no path, no user and, for the port that the scheme implies, no port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TcpAddress {
    /// Whether it is `https`, spoken over TLS.
    pub is_tls: bool,
    /// A name or an IP address; IPv6 without its brackets. In lower case.
    pub host: String,
    /// The TCP port. Where none is written: 443 with TLS, 80 without.
    pub port: u16,
}

/// Why a text is not an address, for a reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(&'static str);

impl Address {
    /// Reads a list of 1 to [`ADDRESSES_MAX`] addresses with commas between them: all with the same scheme, so that a
    /// client cannot be led from one that proves who answers to one that does not.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, AddressError> {
        // Counted before they are collected: the text is untrusted.
        if text.split(',').count() > ADDRESSES_MAX {
            return Err(AddressError("it lists more than 16"));
        }
        let addresses = text.split(',').map(|part| part.trim().parse()).collect::<Result<Vec<Self>, _>>()?;
        if addresses.iter().any(|address| address.scheme() != addresses[0].scheme()) {
            return Err(AddressError("it mixes http, https and unix"));
        }
        Ok(addresses)
    }

    /// Returns whether TLS is spoken there.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tcp(TcpAddress { is_tls: true, .. }))
    }

    /// Returns whether what is sent there can be read by others on the way, or by whatever listens there.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Tcp(TcpAddress { is_tls: false, .. }))
    }

    /// Returns what goes into `:authority`: the host and, unless the scheme implies it, the port.
    pub fn authority(&self) -> String {
        match self {
            Self::Tcp(address) => address.authority(),
            Self::Unix(_) => "localhost".to_owned(),
        }
    }

    /// Returns whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Tcp(address) => address.is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// Returns whether any program of this machine could listen there: it has neither TLS nor a Unix socket to prove
    /// who answers.
    pub fn is_unproven(&self) -> bool {
        self.is_plain() && self.is_loopback()
    }

    fn scheme(&self) -> &'static str {
        match self {
            Self::Tcp(TcpAddress { is_tls: true, .. }) => "https",
            Self::Tcp(_) => "http",
            Self::Unix(_) => "unix",
        }
    }
}

impl TcpAddress {
    /// Returns what goes into `:authority`: the host and, unless the scheme implies it, the port.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == port_of(self.is_tls) { host } else { format!("{host}:{}", self.port) }
    }

    fn is_loopback(&self) -> bool {
        let name_is_local = self.host == "localhost" || self.host.ends_with(".localhost");
        name_is_local || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

fn port_of(is_tls: bool) -> u16 {
    if is_tls { 443 } else { 80 }
}

/// Reads what follows `unix://`.
fn socket_path(text: &str) -> Result<String, AddressError> {
    let path = percent_decode_str(text).decode_utf8().map_err(|_| AddressError("the path is not UTF-8"))?;
    if !path.starts_with('/') || path.ends_with('/') {
        return Err(AddressError("unix:// needs the absolute path of a socket"));
    }
    if path.len() > SOCKET_PATH_BYTES_MAX {
        return Err(AddressError("the path of a socket has at most 103 bytes"));
    }
    if path.contains('\0') {
        return Err(AddressError("a path contains no null"));
    }
    Ok(path.into_owned())
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads an address. A text without a scheme is `http`; one `/` at its end is left out.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (is_tls, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("unix") => return socket_path(rest).map(Self::Unix),
            Some(_) => return Err(AddressError("only http, https and unix are spoken")),
            None => (false, text),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']').ok_or(AddressError("a bracket is not closed"))?;
                let ip: Ipv6Addr = host.parse().map_err(|_| AddressError("no IPv6 address is in the brackets"))?;
                let port = match after.strip_prefix(':') {
                    Some(port) => Some(port),
                    None if after.is_empty() => None,
                    None => return Err(AddressError("something other than a port follows the brackets")),
                };
                (ip.to_string(), port)
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host.to_ascii_lowercase(), Some(port)),
                None => (rest.to_ascii_lowercase(), None),
            },
        };
        let is_host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || host.len() > HOST_CHARS_MAX || !host.chars().all(is_host_char) {
            return Err(AddressError("it names no host"));
        }
        let port = match port {
            None => port_of(is_tls),
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => match digits.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(AddressError("the port must be 1 to 65535")),
            },
            Some(_) => return Err(AddressError("nothing but a port may follow the host")),
        };
        Ok(Self::Tcp(TcpAddress { is_tls, host, port }))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix://{}", utf8_percent_encode(path, ESCAPED)),
        }
    }
}

impl fmt::Display for TcpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, written) in [
            ("http://127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("localhost:7420", "http://localhost:7420"),
            ("HTTPS://Coord.Example/", "https://coord.example"),
            ("https://[::1]:7420", "https://[::1]:7420"),
            ("https://[0:0::1]", "https://[::1]"),
            ("https://a_b:443", "https://a_b"),
            ("unix:///run/teamwire/coordinator.sock", "unix:///run/teamwire/coordinator.sock"),
            ("UNIX:///a b/c,d@e+f/%C3%A9", "unix:///a%20b/c%2Cd%40e%2Bf/%C3%A9"),
        ] {
            assert_eq!(text.parse::<Address>().map(|address| address.to_string()), Ok(written.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_an_address_is_refused() {
        for text in [
            "",
            "http://",
            "ftp://x",
            "a b",
            "http://a/b",
            "http://u@a",
            "http://a:0",
            "http://a:65536",
            "http://a:+1",
            "http://[::1",
            "http://[::1]x",
            "http://[fe80::1%25eth0]",
            "http://a:1:2",
            "a?b",
            "::1",
            "unix://",
            "unix://a/b",
            "unix:///",
            "unix:///a/",
            "unix:///a%00b",
            "unix:///a%FFb",
            &format!("unix:///{}", "a".repeat(SOCKET_PATH_BYTES_MAX)),
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        for mixed in ["http://a,https://b", "unix:///a,http://b", "https://b,unix:///a"] {
            assert!(Address::parse_list(mixed).is_err(), "{mixed}");
        }
        assert!(Address::parse_list(&vec!["a"; 17].join(",")).is_err());
        assert_eq!(Address::parse_list("https://a:1, https://b:2").map(|list| list.len()), Ok(2));
    }

    #[test]
    fn loopback_is_known_by_name_and_number() {
        for (text, is_loopback) in [
            ("http://localhost:1", true),
            ("http://127.1.2.3", true),
            ("http://[::1]", true),
            ("unix:///a", true),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(text.parse::<Address>().map(|address| address.is_loopback()), Ok(is_loopback), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_parsed_address_prints_and_parses_back_to_itself(text in "(https?://)?[a-z0-9.\\[\\]:_/@-]{0,20}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
            }
        }

        #[test]
        fn the_path_of_a_socket_is_read_back_from_words_that_a_list_can_hold(path in "/[^/\\x00]{1,30}") {
            let written = Address::Unix(path.clone()).to_string();
            prop_assert!(!written.contains([',', '@', '+', ' ']));
            let read = written.parse::<Address>();
            prop_assert_eq!(read.is_ok(), path.len() <= SOCKET_PATH_BYTES_MAX);
            prop_assert!(read.is_err() || read == Ok(Address::Unix(path)));
        }

        #[test]
        fn any_text_is_a_list_or_refused(text in ".*") {
            let _ = Address::parse_list(&text);
        }
    }
}
