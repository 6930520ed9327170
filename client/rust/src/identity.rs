//! Identities: which coordinator to call, and as which member.

use std::{env, fmt, path::PathBuf};

use teamwire_proto::{address::Address, credential::Credential};

use crate::{
    AS_VARIABLE, ContextFile, Error, KeptIdentity, TlsOptions, context::refuse_plaintext, runner::check_within_runner,
};

/// The name of a coordinator's socket in its state directory.
pub const SOCKET_FILE: &str = "coordinator.sock";

/// The environment variable for the state directory of this machine's coordinator.
pub const STATE_DIR_VARIABLE: &str = "TEAMWIRE_STATE_DIR";

/// The environment variable for the coordinator's address, or several separated by commas.
pub const ADDRESS_VARIABLE: &str = "TEAMWIRE_ADDRESS";

/// The environment variable for the certificate of the authority to trust: a path, or PEM.
pub const CA_VARIABLE: &str = "TEAMWIRE_CA";

/// The environment variable for the client's certificate: a path, or PEM.
pub const CERT_VARIABLE: &str = "TEAMWIRE_CERT";

/// The environment variable for the key of the client's certificate: a path, or PEM.
pub const KEY_VARIABLE: &str = "TEAMWIRE_KEY";

/// The environment variable for the team's name.
pub const TEAM_VARIABLE: &str = "TEAMWIRE_TEAM";

/// The environment variable for the member's name.
pub const MEMBER_VARIABLE: &str = "TEAMWIRE_MEMBER";

/// The environment variable for the credential.
pub const CREDENTIAL_VARIABLE: &str = "TEAMWIRE_CREDENTIAL";

/// The environment variable for the runner's join string. The runner removes it from the program's environment: the
/// program could add members with it.
pub const JOIN_VARIABLE: &str = "TEAMWIRE_JOIN";

/// The environment variable that a runner sets for its program, and so for everything that the program starts. Where it
/// is set, only the runner's member may be used, never an identity of the context file.
pub const RUN_VARIABLE: &str = "TEAMWIRE_RUN";

/// Which coordinator to call, and as which member. The `Debug` form leaves the credential out.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The coordinator's address: `https://HOST:PORT`, `http://HOST:PORT` or `unix:///PATH`, or several separated by
    /// commas.
    pub address: String,
    /// For `https` addresses: the authorities to trust, and the certificate to present.
    pub tls: TlsOptions,
    /// The team. `None` means the one that the credential implies; an operator has yet to choose one.
    pub team: Option<String>,
    /// The member. `None` if the credential is not a member's.
    pub member: Option<String>,
    /// The credential. `None` means unknown here.
    pub credential: Option<String>,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            address: default_address().unwrap_or_default(),
            tls: TlsOptions::default(),
            team: None,
            member: None,
            credential: None,
        }
    }
}

impl Identity {
    /// Reads the identity from the environment, where a runner puts it for its program.
    ///
    /// A team and member that are not set come from the credential, which contains them in clear. An empty variable
    /// counts as unset.
    pub fn from_env() -> Self {
        Self::from_variables(|name| env::var(name).ok())
    }

    /// Finds the identity to use.
    ///
    /// If the environment holds a credential, that is it. Otherwise it comes from the [`ContextFile`]: the identity
    /// that [`AS_VARIABLE`] names, or the current one, or the only one. The coordinator's address and TLS options in
    /// the environment take precedence over those in the file, but a credential that was saved for https is never sent
    /// over http.
    ///
    /// Fails with [`Error::Context`] if the file cannot be used, if no identity can be chosen, or within a runner if
    /// the environment selects anything but the runner's member.
    pub fn find() -> Result<Self, Error> {
        let named = env::var(AS_VARIABLE).ok().filter(|named| !named.is_empty());
        check_within_runner(None, named.as_deref())?;
        let identity = Self::from_env();
        if identity.credential.is_some() {
            return Ok(identity);
        }
        let file = ContextFile::path().map(|path| ContextFile::load(&path)).transpose()?.unwrap_or_default();
        identity.or_kept(&file, |name| env::var(name).ok())
    }

    /// Returns the identity for another address. Fails with [`Error::Context`] if it was found for https and the
    /// address is http: the credential would be readable on the network.
    pub fn with_address(mut self, address: &str) -> Result<Self, Error> {
        refuse_plaintext(self.member.as_deref().unwrap_or("The identity"), &self.address, address)?;
        address.clone_into(&mut self.address);
        Ok(self)
    }

    fn or_kept(self, file: &ContextFile, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let given = |name| variable(name).filter(|value| !value.is_empty());
        let chosen = match (file.choose(given(AS_VARIABLE).as_deref(), self.team.as_deref())?, &*file.identities) {
            (Some(chosen), _) => chosen,
            (None, [only]) if self.team.is_none() => only,
            _ => {
                return Err(Error::Context(format!(
                    "No identity to use: set {CREDENTIAL_VARIABLE}, join with `teamwire join`, or choose an identity of the \
                     context file with {AS_VARIABLE}. It holds: {}.",
                    file.names()
                )));
            }
        };
        let address = match given(ADDRESS_VARIABLE) {
            Some(address) => address,
            None => {
                chosen.refuse_unproven()?;
                chosen.address.clone()
            }
        };
        chosen.refuse_plaintext(&address)?;
        let KeptIdentity { team, member, credential, tls, .. } = chosen.clone();
        let (ca, fingerprint) = match self.tls.ca {
            None => (tls.ca, tls.fingerprint),
            ca => (ca, None),
        };
        let (cert, key) = match (self.tls.cert, self.tls.key) {
            (None, None) => (tls.cert, tls.key),
            shown => shown,
        };
        Ok(Self {
            address,
            tls: TlsOptions { ca, fingerprint, cert, key },
            team: Some(team),
            member: Some(member),
            credential: Some(credential),
        })
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
            address: given(ADDRESS_VARIABLE).or_else(default_address).unwrap_or_default(),
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

/// Returns the default address: the socket of the coordinator that this user runs on this machine. `None` if the
/// environment does not say where its state directory is.
pub fn default_address() -> Option<String> {
    let socket = state_directory()?.join(SOCKET_FILE);
    Some(Address::Unix(socket.to_str()?.to_owned()).to_string())
}

/// Returns the state directory of this machine's coordinator: [`STATE_DIR_VARIABLE`], or `teamwire` in
/// `$XDG_STATE_HOME` or `$HOME/.local/state`. `None` if none of these variables is set.
pub fn state_directory() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state_home = || variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
    variable(STATE_DIR_VARIABLE).or_else(|| Some(state_home()?.join("teamwire")))
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
    fn an_empty_environment_means_the_local_coordinator_and_no_member() {
        assert_eq!(from(&[("TEAMWIRE_ADDRESS", "")]), Identity::default());
    }

    #[test]
    fn a_certificate_is_a_path_or_pem() {
        let pem = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        let identity = from(&[("TEAMWIRE_CA", pem), ("TEAMWIRE_CERT", "/etc/me.crt"), ("TEAMWIRE_KEY", "")]);
        assert_eq!(identity.tls.ca, Some(crate::Pem::Text(pem.to_owned())));
        assert_eq!(identity.tls.cert, Some(crate::Pem::File("/etc/me.crt".into())));
        assert_eq!(identity.tls.key, None);
        assert!(!format!("{identity:?}").contains("AA=="));
    }

    #[test]
    fn the_context_file_fills_in_what_the_environment_leaves_out() {
        let file: ContextFile = serde_json::from_str(
            r#"{"identities": [{"team": "acme", "member": "Bob", "address": "https://kept:1", "credential": "twm:acme:Bob:x",
                "tls": {"ca": "/kept.crt"}}]}"#,
        )
        .expect("a context file");
        let kept = |pairs: &[(&str, &str)]| {
            let variable = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned());
            from(pairs).or_kept(&file, variable)
        };
        let identity = kept(&[]).expect("the only one");
        assert_eq!((identity.address.as_str(), identity.member.as_deref()), ("https://kept:1", Some("Bob")));
        assert_eq!(identity.tls.ca, Some(crate::Pem::File("/kept.crt".into())));
        let identity =
            kept(&[("TEAMWIRE_ADDRESS", "https://set:1"), ("TEAMWIRE_CA", "/set.crt")]).expect("the only one");
        assert_eq!(
            (identity.address.as_str(), identity.tls.ca),
            ("https://set:1", Some(crate::Pem::File("/set.crt".into())))
        );
        assert!(matches!(kept(&[("TEAMWIRE_TEAM", "other")]), Err(Error::Context(_))));
        assert!(matches!(kept(&[("TEAMWIRE_AS", "eve")]), Err(Error::Context(_))));
        let empty =
            kept(&[("TEAMWIRE_AS", ""), ("TEAMWIRE_ADDRESS", ""), ("TEAMWIRE_TEAM", ""), ("TEAMWIRE_CREDENTIAL", "")]);
        assert_eq!(empty.expect("empty variables are unset").member.as_deref(), Some("Bob"));
        let local: ContextFile = serde_json::from_str(
            r#"{"identities": [{"team": "acme", "member": "Bob", "address": "http://127.0.0.1:1", "credential": "twm:acme:Bob:x"}]}"#,
        )
        .expect("a context file");
        assert!(matches!(from(&[]).or_kept(&local, |_| None), Err(Error::Context(_))), "any program may listen there");
        let named = |name: &str| (name == ADDRESS_VARIABLE).then(|| "http://127.0.0.1:1".to_owned());
        assert_eq!(from(&[]).or_kept(&local, named).expect("named").address, "http://127.0.0.1:1");
        for plain in ["http://kept:1", "kept:1"] {
            assert!(matches!(kept(&[("TEAMWIRE_ADDRESS", plain)]), Err(Error::Context(_))), "{plain}");
        }
    }

    #[test]
    fn a_members_credential_names_team_and_member() {
        let identity = from(&[("TEAMWIRE_CREDENTIAL", "twm:Blue:Ann:0123456789abcdef")]);
        assert_eq!((identity.team.as_deref(), identity.member.as_deref()), (Some("Blue"), Some("Ann")));
        assert!(!format!("{identity:?}").contains("0123456789abcdef"));
    }
}
