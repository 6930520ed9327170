//! The limit on a program that `teamwire run` has started: it acts as its runner's member and as no other.
//!
//! This prevents mistakes, such as a program that loses its credential and then speaks as the lead of the person who
//! started it. It is not a security boundary: see SECURITY.md on processes of the same OS user.

use std::env;

use teamwire_proto::credential::Credential;

use crate::{CREDENTIAL_VARIABLE, Error, MEMBER_VARIABLE, RUN_VARIABLE, TEAM_VARIABLE};

/// Fails with [`Error::Context`] if a runner started this process, or one of its ancestors, and anything selects
/// another identity than the runner's member.
///
/// `credential`: the one to use, if it is known. `who`: `NAME` or `NAME@TEAM`, if an identity was asked for by name.
pub fn check_within_runner(credential: Option<&str>, who: Option<&str>) -> Result<(), Error> {
    check(credential, who, |name| env::var(name).ok())
}

fn check(credential: Option<&str>, who: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Result<(), Error> {
    // An empty variable counts as unset.
    let variable = |name| variable(name).filter(|value| !value.is_empty());
    if variable(RUN_VARIABLE).is_none() {
        return Ok(());
    }
    let Some(own) = variable(CREDENTIAL_VARIABLE) else {
        return Err(Error::Context(format!(
            "This process runs under `teamwire run`, so it may only act as the runner's member, but {CREDENTIAL_VARIABLE} is \
             not set. Run it with the environment that the runner gave to its program."
        )));
    };
    let (team, member) = match Credential::parse(&own) {
        Ok(Credential::Member { team, member, .. }) => (team.to_string(), member.to_string()),
        _ => (String::new(), String::new()),
    };
    let agrees = |name, own: &str| variable(name).is_none_or(|set| set.eq_ignore_ascii_case(own));
    let names_own = |who: &str| {
        let (name, of) = who.split_once('@').unwrap_or((who, &team));
        name.eq_ignore_ascii_case(&member) && of.eq_ignore_ascii_case(&team)
    };
    let is_own = !member.is_empty() && agrees(MEMBER_VARIABLE, &member) && agrees(TEAM_VARIABLE, &team);
    if is_own && credential.is_none_or(|given| given == own) && who.is_none_or(names_own) {
        return Ok(());
    }
    let me = variable(MEMBER_VARIABLE).unwrap_or(member);
    Err(Error::Context(format!(
        "This process runs under `teamwire run` as {me}, and may act as no other identity. Use no other credential, join \
         string or name (--as, TEAMWIRE_AS), and keep {CREDENTIAL_VARIABLE} as the runner set it."
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "twm:acme:ann:0123456789abcdef";
    const LEAD: &str = "twm:acme:lead:0123456789abcdef";

    fn is_allowed(credential: Option<&str>, who: Option<&str>, set: &[(&str, &str)]) -> bool {
        let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        check(credential, who, variable).is_ok()
    }

    #[test]
    fn only_the_runners_member_may_be_used_within_a_runner() {
        let environment =
            [(RUN_VARIABLE, "mark"), (CREDENTIAL_VARIABLE, OWN), (MEMBER_VARIABLE, "ann"), (TEAM_VARIABLE, "acme")];
        assert!(is_allowed(Some(OWN), None, &environment));
        assert!(is_allowed(Some(OWN), Some("Ann@ACME"), &environment));
        assert!(!is_allowed(Some(OWN), Some("lead"), &environment));
        assert!(!is_allowed(Some(OWN), Some("ann@other"), &environment));
        assert!(!is_allowed(Some(OWN), Some("operator"), &environment));
        assert!(!is_allowed(Some(LEAD), None, &environment));
        let replaced = [(RUN_VARIABLE, "mark"), (CREDENTIAL_VARIABLE, LEAD), (MEMBER_VARIABLE, "ann")];
        assert!(!is_allowed(Some(LEAD), None, &replaced));
        assert!(!is_allowed(None, None, &[(RUN_VARIABLE, "mark")]));
        assert!(!is_allowed(None, None, &[(RUN_VARIABLE, "mark"), (CREDENTIAL_VARIABLE, "two:0123456789abcdef")]));
    }

    #[test]
    fn any_identity_may_be_used_outside_a_runner() {
        assert!(is_allowed(None, None, &[]));
        assert!(is_allowed(None, None, &[(RUN_VARIABLE, "")]));
        assert!(is_allowed(Some(LEAD), Some("lead"), &[(CREDENTIAL_VARIABLE, OWN)]));
    }
}
