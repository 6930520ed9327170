//! All that one needs to join a team from another machine, in one word that is pasted.
//!
//! A join token, then the coordinator's addresses, then what its certificate is known by:
//! `twj:TEAM:ID:SECRET@https://HOST:7420,https://OTHER:7420+sha256:HEX`. Addresses and fingerprint may be missing, so a
//! bare join token is a join string, too. A coordinator on this machine may have `unix:///PATH` as its
//! address. No character of it means anything to a shell, except the brackets around an IPv6 address.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Reason, Refusal, address::Address, credential::Credential};

/// The most characters that a join string may have.
pub const JOIN_STRING_CHARS_MAX: usize = 8 * 1024;

/// The SHA-256 of a certificate in DER, by which it is known. Written `sha256:` and 64 hexadecimal digits; read without
/// the prefix, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(pub [u8; 32]);

/// The text is not a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is `sha256:` and 64 hexadecimal digits")]
pub struct NoFingerprint;

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| NoFingerprint)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = NoFingerprint;

    fn try_from(text: String) -> Result<Self, NoFingerprint> {
        text.parse()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

/// A join token, with where it is good and whom to trust there. Its `Debug` form leaves the secret out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinString {
    /// The join token: always [`Credential::Join`].
    token: Credential,
    /// The coordinator's addresses. Empty means not said.
    pub addresses: Vec<Address>,
    /// A certificate in the coordinator's chain, and the only authority to trust. `None` means the usual ones.
    pub fingerprint: Option<Fingerprint>,
}

impl JoinString {
    /// Makes a join string. `None` if the credential is not a join token.
    pub fn new(token: Credential, addresses: Vec<Address>, fingerprint: Option<Fingerprint>) -> Option<Self> {
        // A fingerprint without an address belongs to no coordinator.
        let fingerprint = fingerprint.filter(|_| addresses.iter().any(|address| address.is_tls()));
        matches!(token, Credential::Join { .. }).then_some(Self { token, addresses, fingerprint })
    }

    /// Takes a join string, or a bare join token, apart.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let malformed = |what: &str| {
            Refusal::new(
                Reason::CredentialInvalid,
                format!(
                    "The join string is malformed: {what}. Paste it as `teamwire invite` printed it, from its first to \
                     its last character."
                ),
            )
        };
        let text = text.trim();
        if text.len() > JOIN_STRING_CHARS_MAX {
            return Err(malformed("it is too long"));
        }
        let (token, place) = text.split_once('@').map_or((text, None), |(token, place)| (token, Some(place)));
        let token = match Credential::parse(token) {
            Ok(token @ Credential::Join { .. }) => token,
            Ok(_) => return Err(malformed("it is another kind of credential, not a join token")),
            Err(_) => return Err(malformed("it does not begin with a join token, twj:TEAM:ID:SECRET")),
        };
        let Some(place) = place else { return Ok(Self { token, addresses: Vec::new(), fingerprint: None }) };
        let (addresses, fingerprint) = match place.split_once('+') {
            Some((addresses, fingerprint)) => (addresses, Some(fingerprint)),
            None => (place, None),
        };
        let addresses = Address::parse_list(addresses).map_err(|error| malformed(&error.to_string()))?;
        let fingerprint =
            fingerprint.map(str::parse).transpose().map_err(|error: NoFingerprint| malformed(&error.to_string()))?;
        if fingerprint.is_some() && !addresses[0].is_tls() {
            return Err(malformed("there is a fingerprint and no https address"));
        }
        Ok(Self { token, addresses, fingerprint })
    }

    /// Returns the text to paste.
    pub fn reveal(&self) -> String {
        let mut text = self.token.reveal();
        if !self.addresses.is_empty() {
            text.push('@');
            text.push_str(&self.address());
        }
        if let Some(fingerprint) = self.fingerprint {
            text.push_str(&format!("+{fingerprint}"));
        }
        text
    }

    /// Returns the join token.
    pub fn token(&self) -> &Credential {
        &self.token
    }

    /// Returns the addresses as one text, with commas between them.
    pub fn address(&self) -> String {
        let addresses: Vec<_> = self.addresses.iter().map(Address::to_string).collect();
        addresses.join(",")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "twj:acme:x1:0123456789abcdef";

    #[test]
    fn join_strings_read_back_as_themselves_and_keep_their_secret() {
        let fingerprint = format!("sha256:{}", "0a".repeat(32));
        for text in [
            TOKEN.to_owned(),
            format!("{TOKEN}@http://10.0.0.1:7420"),
            format!("{TOKEN}@https://a:7420,https://[::1]:7420+{fingerprint}"),
            format!("{TOKEN}@unix:///run/a%40b/coordinator.sock"),
        ] {
            let parsed = JoinString::parse(&text).expect(&text);
            assert_eq!(parsed.reveal(), text);
            assert_eq!(parsed.token().reveal(), TOKEN);
            assert!(!format!("{parsed:?}").contains("0123456789abcdef"));
        }
    }

    #[test]
    fn a_text_that_is_not_a_join_string_is_refused_with_a_remedy() {
        for text in [
            "twm:acme:bob:0123456789abcdef".to_owned(),
            format!("{TOKEN}@"),
            format!("{TOKEN}@ftp://a"),
            format!("{TOKEN}@https://a+sha256:00"),
            format!("{TOKEN}@https://a+md5:00"),
            format!("{TOKEN}@http://a+sha256:{}", "00".repeat(32)),
            format!("{TOKEN}@unix:///a+sha256:{}", "00".repeat(32)),
            format!("{TOKEN}@{}", "a".repeat(JOIN_STRING_CHARS_MAX)),
            format!("{TOKEN}@https://a@https://b"),
        ] {
            let refusal = JoinString::parse(&text).expect_err(&text);
            assert_eq!(refusal.reason, Reason::CredentialInvalid);
            assert!(!refusal.message.contains("0123456789abcdef"), "{refusal}");
        }
    }

    #[test]
    fn a_join_string_has_no_characters_special_to_a_shell() {
        let addresses = Address::parse_list("https://a-b.c:7420,https://10.0.0.1").expect("addresses");
        let token = Credential::parse(TOKEN).expect("a token");
        let text = JoinString::new(token, addresses, Some(Fingerprint([7; 32]))).expect("a join string").reveal();
        // `~`, `#` and `^` would mean something to zsh with its extended patterns.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ":@/,.+-_%".contains(c);
        assert!(text.chars().all(is_plain), "{text}");
    }

    proptest! {
        #[test]
        fn any_text_is_a_join_string_or_refused(text in "(twj:t:x1:0123456789abcdef)?.{0,60}") {
            match JoinString::parse(&text) {
                Ok(parsed) => prop_assert_eq!(JoinString::parse(&parsed.reveal()), Ok(parsed)),
                Err(refusal) => prop_assert_eq!(refusal.reason, Reason::CredentialInvalid),
            }
        }
    }
}
