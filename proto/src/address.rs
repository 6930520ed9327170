//! Where a coordinator is: `http://HOST:PORT` or `https://HOST:PORT`.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

/// How many addresses may stand in one list.
pub const ADDRESSES_MAX: usize = 16;

/// The most characters that a host may have.
const HOST_CHARS_MAX: usize = 253;

/// An address of a coordinator. Its text has no path, no user and, for the port that the scheme implies, no port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// True: `https`, spoken over TLS.
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
    /// Reads a list of 1 to [`ADDRESSES_MAX`] addresses with commas between them: all with TLS, or all without, so that
    /// a client cannot be led from the one to the other.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, AddressError> {
        // Counted before they are collected: the text is untrusted.
        if text.split(',').count() > ADDRESSES_MAX {
            return Err(AddressError("it lists more than 16"));
        }
        let addresses = text.split(',').map(|part| part.trim().parse()).collect::<Result<Vec<Self>, _>>()?;
        if addresses.iter().any(|address| address.is_tls != addresses[0].is_tls) {
            return Err(AddressError("it mixes http and https"));
        }
        Ok(addresses)
    }

    /// Returns what goes into `:authority`: the host and, unless the scheme implies it, the port.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == port_of(self.is_tls) { host } else { format!("{host}:{}", self.port) }
    }

    /// Returns whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        let name_is_local = self.host == "localhost" || self.host.ends_with(".localhost");
        name_is_local || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

fn port_of(is_tls: bool) -> u16 {
    if is_tls { 443 } else { 80 }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads an address. A text without a scheme is `http`; one `/` at its end is left out.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (is_tls, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some(_) => return Err(AddressError("only http and https are spoken")),
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
        Ok(Self { is_tls, host, port })
    }
}

impl fmt::Display for Address {
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
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        assert!(Address::parse_list("http://a,https://b").is_err());
        assert!(Address::parse_list(&vec!["a"; 17].join(",")).is_err());
        assert_eq!(Address::parse_list("https://a:1, https://b:2").map(|list| list.len()), Ok(2));
    }

    #[test]
    fn loopback_is_known_by_name_and_number() {
        for (text, is_loopback) in [
            ("http://localhost:1", true),
            ("http://127.1.2.3", true),
            ("http://[::1]", true),
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
        fn any_text_is_a_list_or_refused(text in ".*") {
            let _ = Address::parse_list(&text);
        }
    }
}
