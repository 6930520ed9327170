//! `teamwire access`: lists and revokes credentials.

use clap::{Args, Subcommand};
use serde_json::json;
use teamwire_client::v1::{self, CallerKind, CredentialKind};

use super::Output;
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// The shortest beginning of an id that stands for it.
const PREFIX_MIN: usize = 4;

/// List and revoke credentials
#[derive(Debug, Subcommand)]
pub(super) enum Access {
    /// List the valid credentials of your team, with their last use
    ///
    /// The lead and the operator see invitations, sign-ins to the console, and the credentials of members, hosts and
    /// observers. Every other member sees its own sign-ins.
    List(List),
    /// Revoke a credential, for example because it leaked
    ///
    /// From then on, no coordinator accepts it. Streams and waiting calls that were begun with it end within 2 s. A
    /// member whose credential is revoked stays in the team with its inbox. But its runner ends the program, because
    /// the runner can no longer act for the member. To let the member come back, give it a new invitation: `teamwire
    /// invite NAME`. To end a member, use `teamwire shutdown` instead. To replace your own credential, use `teamwire
    /// join --new-credential`.
    Revoke(Revoke),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire access list\n    teamwire access list --json")]
pub(super) struct List {
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire access revoke 3f9c21d07ab4\n    teamwire access revoke backend")]
pub(super) struct Revoke {
    /// The id in `teamwire access list`, or its beginning; or the name of a member or host
    #[arg(value_name = "ID")]
    which: String,
    #[command(flatten)]
    output: Output,
}

impl Access {
    /// Runs the command. Returns its outcome, and whether it prints JSON.
    pub(super) async fn run(&self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        match self {
            Self::List(command) => (command.run(context).await, command.output.json),
            Self::Revoke(command) => (command.run(context).await, command.output.json),
        }
    }
}

impl List {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let request = v1::ListCredentialsRequest::default();
        let listed = caller.client.list_all_credentials(request, usize::MAX).await?.credentials;
        if self.output.json {
            listed.iter().for_each(|found| show::line(&show::json("Credential", found)));
        } else if listed.is_empty() {
            anstream::println!("There is no credential that you could revoke.");
        } else {
            let rows = listed.iter().map(|found| {
                vec![
                    found.id.clone(),
                    kind(found).to_owned(),
                    if found.member.is_empty() { "-".to_owned() } else { found.member.clone() },
                    show::time(found.created_at.as_ref()),
                    show::time(found.last_used_at.as_ref()),
                    found.expires_at.as_ref().map_or_else(|| "-".to_owned(), |at| show::time(Some(at))),
                    note(found),
                ]
            });
            show::table(&["id", "credential", "of", "created", "last used", "expires", "note"], rows.collect());
        }
        Ok(())
    }
}

impl Revoke {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let request = v1::ListCredentialsRequest::default();
        let listed = caller.client.list_all_credentials(request, usize::MAX).await?.credentials;
        let found = choose(&listed, &self.which)?;
        // The coordinator says why an id that is not in the list cannot be revoked.
        let id = found.map_or(self.which.as_str(), |found| found.id.as_str());
        let request = v1::RevokeCredentialRequest { id: id.to_owned(), ..Default::default() };
        caller.client.revoke_credential(request).await?;
        if self.output.json {
            show::line(&json!({ "revoked": id }));
            return Ok(());
        }
        anstream::println!("Revoked {id}. Streams and waiting calls that were begun with it end within 2 s.");
        if let Some(found) = found.filter(|found| found.kind() == CredentialKind::Member) {
            let (name, host) = (&found.member, if found.acts_for() == CallerKind::Host { " --host" } else { "" });
            anstream::println!("To let {name} come back: teamwire invite {name}{host}");
        }
        Ok(())
    }
}

/// Returns the credential that a person means: by its id, the beginning of it, or the name of its member. `None` if it
/// is not in the list.
fn choose<'l>(listed: &'l [v1::Credential], which: &str) -> Result<Option<&'l v1::Credential>, Failure> {
    let is_of =
        |found: &&v1::Credential| found.kind() == CredentialKind::Member && found.member.eq_ignore_ascii_case(which);
    let exact = listed.iter().find(|found| found.id.eq_ignore_ascii_case(which));
    if let Some(found) = exact.or_else(|| listed.iter().find(is_of)) {
        return Ok(Some(found));
    }
    let begins = |found: &&v1::Credential| {
        which.len() >= PREFIX_MIN && found.id.get(..which.len()).is_some_and(|start| start.eq_ignore_ascii_case(which))
    };
    match listed.iter().filter(begins).collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => Err(Failure::usage(format!(
            "The ids of {} credentials begin with {which}. Write more of the one that you mean.",
            several.len()
        ))),
    }
}

fn kind(found: &v1::Credential) -> &'static str {
    match (found.kind(), found.acts_for()) {
        (CredentialKind::Console, _) => "sign-in",
        (CredentialKind::Tool, _) => "tools",
        (CredentialKind::Observer, _) => "observer",
        (CredentialKind::JoinToken, _) => "invitation",
        (CredentialKind::Member, CallerKind::Host) => "host",
        (CredentialKind::Member, _) => "member",
        (CredentialKind::Unspecified, _) => "unknown",
    }
}

fn note(found: &v1::Credential) -> String {
    let mut notes = Vec::new();
    if found.is_calling {
        notes.push("yours, in use now".to_owned());
    }
    if found.kind() == CredentialKind::JoinToken {
        notes.push(format!("{} left", show::count(found.uses_left.into(), "use")));
    } else if found.read_only {
        notes.push("read-only".to_owned());
    }
    if let Some(by) = &found.created_by {
        notes.push(format!("by {}", by.name));
    }
    notes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(id: &str, kind: CredentialKind, member: &str) -> v1::Credential {
        v1::Credential { id: id.to_owned(), kind: kind.into(), member: member.to_owned(), ..Default::default() }
    }

    #[test]
    fn a_credential_can_be_named_by_its_id_a_prefix_or_its_member() {
        let listed = [
            credential("abcd00000001", CredentialKind::Console, "bob"),
            credential("abcd00000002", CredentialKind::Member, "bob"),
            credential("ffff00000003", CredentialKind::JoinToken, "eve"),
        ];
        let chosen = |which: &str| choose(&listed, which).map(|found| found.map(|found| found.id.clone()));
        assert_eq!(chosen("ABCD00000001").ok().flatten().as_deref(), Some("abcd00000001"));
        assert_eq!(chosen("Bob").ok().flatten().as_deref(), Some("abcd00000002"), "the member's own, not its sign-in");
        assert_eq!(chosen("ffff").ok().flatten().as_deref(), Some("ffff00000003"));
        assert!(chosen("abcd").is_err(), "two begin so");
        for unknown in ["eve", "fff", "0000", ""] {
            assert_eq!(chosen(unknown).ok(), Some(None), "{unknown}");
        }
    }
}
