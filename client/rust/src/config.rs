//! Where the coordinator is, and who we are.

use std::{env, fmt};

use teamwire_proto::credential::Credential;

use crate::TlsOptions;

/// Where a coordinator is, unless something else is said: the one on this machine.
pub const ADDRESS_DEFAULT: &str = "http://127.0.0.1:7420";

/// The environment variable that holds the coordinator's address, or several with commas between them.
pub const ADDRESS_VARIABLE: &str = "TEAMWIRE_ADDRESS";

/// The environment variable that holds the certificate of the authority to trust: the path of a file, or PEM.
pub const CA_VARIABLE: &str = "TEAMWIRE_CA";

/// The environment variable that holds the client's certificate: the path of a file, or PEM.
pub const CERT_VARIABLE: &str = "TEAMWIRE_CERT";

/// The environment variable that holds the key of the client's certificate: the path of a file, or PEM.
pub const KEY_VARIABLE: &str = "TEAMWIRE_KEY";

/// The environment variable that holds the team's name.
pub const TEAM_VARIABLE: &str = "TEAMWIRE_TEAM";

/// The environment variable that holds the member's name.
pub const MEMBER_VARIABLE: &str = "TEAMWIRE_MEMBER";

/// The environment variable that holds the credential.
pub const CREDENTIAL_VARIABLE: &str = "TEAMWIRE_CREDENTIAL";

/// Where the coordinator is and who we are. Its `Debug` form leaves the credential out.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The coordinator's address: `http://HOST:PORT` or `https://HOST:PORT`, or several with commas between them.
    pub address: String,
    /// With `https`: whom to trust, and what to show.
    pub tls: TlsOptions,
    /// The team. None: the credential's own, or for an operator not chosen yet.
    pub team: Option<String>,
    /// The member. None: the credential is no member's.
    pub member: Option<String>,
    /// What is presented to the coordinator. None: not known here.
    pub credential: Option<String>,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            address: ADDRESS_DEFAULT.to_owned(),
            tls: TlsOptions::default(),
            team: None,
            member: None,
            credential: None,
        }
    }
}

impl Identity {
    /// Reads the identity out of the environment, as a runner hands it to the process that it owns.
    ///
    /// Team and member that are not given are taken from the credential, which names them in clear. A variable that is
    /// empty is one that is not set.
    pub fn from_env() -> Self {
        Self::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name| variable(name).filter(|value| !value.is_empty());
        let credential = given(CREDENTIAL_VARIABLE);
        let (team, member) = match credential.as_deref().map(Credential::parse) {
            Some(Ok(Credential::Member { team, member, .. })) => (Some(team.to_string()), Some(member.to_string())),
            Some(Ok(other)) => (other.team().map(ToString::to_string), None),
            Some(Err(_)) | None => (None, None),
        };
        Self {
            address: given(ADDRESS_VARIABLE).unwrap_or_else(|| ADDRESS_DEFAULT.to_owned()),
            tls: TlsOptions {
                ca: given(CA_VARIABLE).map(Into::into),
                fingerprint: None,
                cert: given(CERT_VARIABLE).map(Into::into),
                key: given(KEY_VARIABLE).map(Into::into),
            },
            team: given(TEAM_VARIABLE).or(team),
            member: given(MEMBER_VARIABLE).or(member),
            credential,
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("address", &self.address)
            .field("tls", &self.tls)
            .field("team", &self.team)
            .field("member", &self.member)
            .field("credential", &self.credential.as_ref().map(|_| "…"))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Identity {
        Identity::from_variables(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn an_empty_environment_means_the_coordinator_here_and_nobody() {
        assert_eq!(from(&[("TEAMWIRE_ADDRESS", "")]), Identity::default());
    }

    #[test]
    fn certificates_are_given_by_path_or_as_they_are() {
        let pem = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        let identity = from(&[("TEAMWIRE_CA", pem), ("TEAMWIRE_CERT", "/etc/me.crt"), ("TEAMWIRE_KEY", "")]);
        assert_eq!(identity.tls.ca, Some(crate::Pem::Text(pem.to_owned())));
        assert_eq!(identity.tls.cert, Some(crate::Pem::File("/etc/me.crt".into())));
        assert_eq!(identity.tls.key, None);
        assert!(!format!("{identity:?}").contains("AA=="));
    }

    #[test]
    fn a_members_credential_says_who_it_is() {
        let identity = from(&[("TEAMWIRE_CREDENTIAL", "twm:Blue:Ann:0123456789abcdef")]);
        assert_eq!((identity.team.as_deref(), identity.member.as_deref()), (Some("Blue"), Some("Ann")));
        assert!(!format!("{identity:?}").contains("0123456789abcdef"));
    }
}
