//! The context file: the identities that `teamwire team create`, `join` and `run` have received, and the current one.

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use teamwire_proto::address::Address;

use crate::{ADDRESS_VARIABLE, Error, TlsOptions, refuse_shared};

/// The environment variable for the path of the context file.
pub const CONTEXT_VARIABLE: &str = "TEAMWIRE_CONTEXT";

/// The environment variable that selects an identity of the context file: `NAME` or `NAME@TEAM`.
pub const AS_VARIABLE: &str = "TEAMWIRE_AS";

/// An identity in the context file. The `Debug` form leaves the credential out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptIdentity {
    /// The team's name.
    pub team: String,
    /// The member's name.
    pub member: String,
    /// The coordinator's address, or several separated by commas.
    pub address: String,
    /// The credential of the member's current incarnation.
    pub credential: String,
    /// The authorities to trust, and the certificate to present.
    #[serde(default, skip_serializing_if = "TlsOptions::is_empty")]
    pub tls: TlsOptions,
}

impl fmt::Debug for KeptIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { team, member, address, credential: _, tls } = self;
        f.debug_struct("KeptIdentity")
            .field("team", team)
            .field("member", member)
            .field("address", address)
            .field("tls", tls)
            .finish_non_exhaustive()
    }
}

impl KeptIdentity {
    /// Returns whether this is the identity of a member, in a team if one is given. Ignores case.
    pub fn is(&self, member: &str, team: Option<&str>) -> bool {
        self.member.eq_ignore_ascii_case(member) && team.is_none_or(|team| self.team.eq_ignore_ascii_case(team))
    }

    /// Fails with [`Error::Context`] if the identity was saved for https and the address is http: its credential would
    /// be readable on the network.
    pub fn refuse_plaintext(&self, address: &str) -> Result<(), Error> {
        refuse_plaintext(&self.name(), &self.address, address)
    }

    /// Fails with [`Error::Context`] if the identity was saved for plain http on this machine: every program here may
    /// listen there, and would get the credential. Not to be called for an address that the user gave.
    pub fn refuse_unproven(&self) -> Result<(), Error> {
        refuse_unproven(&self.name(), &self.address)
    }

    /// Returns `NAME@TEAM`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.member, self.team)
    }
}

/// Fails if `name` was saved for an https address and would be used at one with http.
pub(crate) fn refuse_plaintext(name: &str, saved: &str, address: &str) -> Result<(), Error> {
    let is_plain = Address::parse_list(address).is_ok_and(|addresses| addresses.iter().any(Address::is_plain));
    if !is_https(saved) || !is_plain {
        return Ok(());
    }
    Err(Error::Context(format!(
        "{name} was saved for {saved}, so its credential is not sent over http to {address}. Write the address with https://, or \
         leave it out (--address, {ADDRESS_VARIABLE})."
    )))
}

/// Fails if the credential of `name` would go, unasked, to an address where any program of this machine may listen.
pub(crate) fn refuse_unproven(name: &str, saved: &str) -> Result<(), Error> {
    if !Address::parse_list(saved).is_ok_and(|addresses| addresses.iter().any(Address::is_unproven)) {
        return Ok(());
    }
    Err(Error::Context(format!(
        "{name} was saved for {saved}, where any program on this machine can listen, so its credential is not sent there unasked. \
         If the coordinator is there, say so with --address {saved} or {ADDRESS_VARIABLE}."
    )))
}

fn is_https(address: &str) -> bool {
    address.trim_start().get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// The context file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ContextFile {
    /// The identity to use by default, as `NAME@TEAM`.
    #[serde(default)]
    pub current: Option<String>,
    /// All identities, latest first.
    #[serde(default)]
    pub identities: Vec<KeptIdentity>,
}

impl ContextFile {
    /// Returns the path of the context file: [`CONTEXT_VARIABLE`], or `teamwire/context.json` in `$XDG_CONFIG_HOME` or
    /// `$HOME/.config`. `None` if none of these variables is set.
    pub fn path() -> Option<PathBuf> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let configurations =
            || variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")));
        variable(CONTEXT_VARIABLE).or_else(|| configurations().map(|directory| directory.join("teamwire/context.json")))
    }

    /// Reads a context file. A missing file counts as empty. Fails with [`Error::Context`], also if other users can
    /// access it.
    pub fn load(path: &Path) -> Result<Self, Error> {
        refuse_shared(path)?;
        Self::load_checked(path)
    }

    /// Reads a context file that [`refuse_shared`] has accepted. A missing file counts as empty. Fails with
    /// [`Error::Context`].
    pub fn load_checked(path: &Path) -> Result<Self, Error> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                Error::Context(format!(
                    "{} is not a valid context file; repair it or move it away: {error}.",
                    path.display()
                ))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::Context(format!("{} cannot be read: {error}.", path.display()))),
        }
    }

    /// Returns the identity that is named, or the current one, or the only one of the given team. `None` if there is no
    /// such identity. Never guesses: fails with [`Error::Context`] if the name is unknown or ambiguous.
    pub fn choose(&self, named: Option<&str>, team: Option<&str>) -> Result<Option<&KeptIdentity>, Error> {
        let wrong = |text: String| Err(Error::Context(text));
        if let Some(named) = named {
            let (member, of_team) = split(named);
            if let (Some(of_team), Some(team)) = (of_team, team)
                && !of_team.eq_ignore_ascii_case(team)
            {
                return wrong(format!("{named} is not in team {team}. Leave out the team, or name another identity."));
            }
            return match self.find(member, of_team.or(team)) {
                Some(found) => Ok(Some(found)),
                None => {
                    wrong(format!("There is no identity \"{named}\" in the context file. It holds: {}.", self.names()))
                }
            };
        }
        let current = self.current.as_deref().map(split).and_then(|(member, of)| self.find(member, of));
        let Some(team) = team else { return Ok(current) };
        let of_team = self.in_team(team);
        match (current.filter(|current| current.team.eq_ignore_ascii_case(team)), of_team.as_slice()) {
            (Some(current), _) => Ok(Some(current)),
            (None, []) => Ok(None),
            (None, [only]) => Ok(Some(only)),
            (None, several) => wrong(format!(
                "You have several identities in team {team}. Choose one with {AS_VARIABLE}, or --as on the command line: {}.",
                names(several.iter().copied())
            )),
        }
    }

    /// Returns the identity of a member, in a team if one is given. Ignores case.
    pub fn find(&self, member: &str, team: Option<&str>) -> Option<&KeptIdentity> {
        self.identities.iter().find(|kept| kept.is(member, team))
    }

    /// Returns the names of all identities, separated by commas.
    pub fn names(&self) -> String {
        names(&self.identities)
    }

    /// Returns the identities in a team, the current one first.
    pub fn in_team(&self, team: &str) -> Vec<&KeptIdentity> {
        let mut found: Vec<_> = self.identities.iter().filter(|kept| kept.team.eq_ignore_ascii_case(team)).collect();
        found.sort_by_key(|kept| self.current.as_deref() != Some(kept.name().as_str()));
        found
    }
}

fn names<'a>(identities: impl IntoIterator<Item = &'a KeptIdentity>) -> String {
    let names: Vec<_> = identities.into_iter().map(KeptIdentity::name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Splits `NAME` or `NAME@TEAM`.
fn split(named: &str) -> (&str, Option<&str>) {
    named.split_once('@').map_or((named, None), |(member, team)| (member, Some(team)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(current: Option<&str>) -> ContextFile {
        let identity = |member: &str, team: &str| KeptIdentity {
            team: team.to_owned(),
            member: member.to_owned(),
            address: "http://127.0.0.1:1".to_owned(),
            credential: String::new(),
            tls: TlsOptions::default(),
        };
        let identities =
            vec![identity("lead", "b"), identity("Bob", "A"), identity("lead", "A"), identity("solo", "c")];
        ContextFile { current: current.map(str::to_owned), identities }
    }

    /// Returns the identity that is chosen. `None` if the choice is refused.
    fn chosen(named: Option<&str>, team: Option<&str>, current: Option<&str>) -> Option<String> {
        let file = file(current);
        file.choose(named, team).ok().map(|kept| kept.map_or_else(|| "nobody".to_owned(), KeptIdentity::name))
    }

    #[test]
    fn the_debug_form_leaves_credentials_out() {
        let mut file = file(None);
        file.identities[0].credential = "twm:b:lead:secret".to_owned();
        let shown = format!("{file:?}");
        assert!(shown.contains("lead") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn an_identity_is_never_guessed() {
        assert_eq!(chosen(None, None, None).as_deref(), Some("nobody"));
        assert_eq!(chosen(None, Some("A"), None), None);
        assert_eq!(chosen(None, Some("nope"), Some("Bob@A")).as_deref(), Some("nobody"));
    }

    #[test]
    fn the_current_identity_is_used_unless_another_is_named() {
        assert_eq!(chosen(None, None, Some("Bob@A")).as_deref(), Some("Bob@A"));
        assert_eq!(chosen(None, Some("a"), Some("Bob@A")).as_deref(), Some("Bob@A"));
        assert_eq!(chosen(None, Some("c"), Some("Bob@A")).as_deref(), Some("solo@c"));
        assert_eq!(chosen(Some("lead"), Some("a"), Some("Bob@A")).as_deref(), Some("lead@A"));
        assert_eq!(chosen(Some("bob@a"), None, None).as_deref(), Some("Bob@A"));
    }

    #[test]
    fn a_contradictory_or_unknown_choice_fails() {
        assert_eq!(chosen(Some("bob@a"), Some("b"), None), None);
        assert_eq!(chosen(Some("eve"), None, Some("Bob@A")), None);
    }
}
