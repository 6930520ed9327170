//! The permission rules of a team file. A person confirms them before `up` stores them: an agent that can change the file,
//! for example because its branch is merged, could otherwise permit itself anything.

use std::path::Path;

use prost::Message as _;
use ring::digest::{SHA256, digest};
use teamwire_client::v1;

use super::records::Records;
use crate::{
    command::confirm::{ask, has_terminal},
    failure::Failure,
    show,
};

/// The option that confirms the rules without a terminal.
const OPTION: &str = "--accept-permissions";

/// Shows the rules of a file, and asks, unless this person has confirmed the same rules for this file before.
/// `accepted`: whether the command line confirms them. `can_ask`: whether the output is for a person.
pub(super) fn confirm(
    path: &Path,
    rules: &[v1::PermissionRule],
    records: &Records,
    accepted: bool,
    can_ask: bool,
) -> Result<(), Failure> {
    if rules.is_empty() {
        return Ok(());
    }
    let file =
        path.canonicalize().map_err(|error| Failure::local(&format!("Cannot read {}", path.display()), error))?;
    let (file, confirmed) = (hash(file.as_os_str().as_encoded_bytes()), hash_of(rules));
    if records.confirmed_rules(&file)?.as_ref() == Some(&confirmed) {
        return Ok(());
    }
    let lines: String = rules.iter().map(|rule| format!("\n    {}", show::rule_sentence(rule))).collect();
    let what = format!(
        "{} has permission rules that you have not confirmed. They answer agents without asking anyone:{lines}",
        path.display()
    );
    match (accepted, can_ask && has_terminal()) {
        (true, _) => {}
        (false, true) => {
            anstream::eprintln!("{what}");
            ask("Confirm these rules?")?;
        }
        (false, false) => {
            let text = format!(
                "{what}\nNothing was done. Read them, and then run the command at a terminal, or with {OPTION}. Or remove the table \
                 [permissions] from the file."
            );
            return Err(Failure::usage(text));
        }
    }
    records.put_confirmed_rules(&file, &confirmed)
}

fn hash_of(rules: &[v1::PermissionRule]) -> String {
    let encoded: Vec<u8> = rules.iter().flat_map(v1::PermissionRule::encode_length_delimited_to_vec).collect();
    hash(&encoded)
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(digest(&SHA256, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(command: &str) -> v1::PermissionRule {
        v1::PermissionRule { tool: "Bash".to_owned(), command: command.to_owned(), ..v1::PermissionRule::default() }
    }

    #[test]
    fn rules_are_confirmed_once_for_each_file_and_again_when_they_change() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::in_directory(directory.path().join("state"));
        let file = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let (one, two) = (file("one.toml"), file("two.toml"));
        let confirmed = |path: &Path, rules: &[v1::PermissionRule], accepted| {
            confirm(path, rules, &records, accepted, false).map_err(|failure| failure.message())
        };
        assert_eq!(confirmed(&one, &[], false), Ok(()));
        let why = confirmed(&one, &[rule("ls")], false).unwrap_err();
        assert!(why.contains("Every member may use Bash to run exactly `ls`.") && why.contains(OPTION), "{why}");
        assert_eq!(confirmed(&one, &[rule("ls")], true), Ok(()));
        assert_eq!(confirmed(&one, &[rule("ls")], false), Ok(()), "the same rules");
        for changed in [vec![rule("ls *")], vec![rule("ls"), rule("ls *")], vec![rule("ls"), rule("ls")]] {
            assert!(confirmed(&one, &changed, false).is_err(), "{changed:?}");
        }
        assert!(confirmed(&two, &[rule("ls")], false).is_err(), "another file");
        assert_eq!(confirmed(&one, &[], false), Ok(()));
        assert_eq!(confirmed(&one, &[rule("cat")], true), Ok(()));
        assert!(confirmed(&one, &[rule("ls")], false).is_err(), "only the last rules count");
    }
}
