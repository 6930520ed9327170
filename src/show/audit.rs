//! Entries of the audit log.

use teamwire_proto::v1::{self, AuditCallerKind};

use super::{count, one_line, paint, table_with_texts, text::date_and_time, time, warning};

/// Prints entries as a table.
pub(crate) fn audit(records: &[v1::AuditRecord]) {
    let rows = records.iter().map(|record| match &record.entry {
        Some(entry) => row(entry, &record.chain),
        None => {
            let place = format!("entry {} of {} cannot be read", record.sequence, record.chain);
            vec!["-".to_owned(), String::new(), String::new(), paint(warning(), place), String::new(), String::new()]
        }
    });
    table_with_texts(1, &["time", "outcome", "call", "about", "who", "from"], rows.collect());
}

fn row(entry: &v1::AuditEntry, chain: &str) -> Vec<String> {
    let (mut call, mut about) = (method(&entry.method), about(entry));
    if let Some(checkpoint) = &entry.checkpoint {
        let why = if checkpoint.because_full { "the chain was full" } else { "they were too old" };
        call = "checkpoint".to_owned();
        let removed =
            if checkpoint.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", checkpoint.entries) };
        about = format!("{removed} until {} removed: {why}", date_and_time(checkpoint.through_at.as_ref()));
    }
    let outcome = match (entry.outcome.as_str(), entry.calls) {
        ("", 0 | 1) => String::new(),
        ("", calls) => count(calls, "call"),
        (outcome, 0 | 1) => outcome.to_owned(),
        (outcome, calls) => format!("{outcome} × {calls}"),
    };
    let outcome = if entry.outcome == "OK" { outcome } else { paint(warning(), one_line(&outcome)) };
    if entry.missing > 0 {
        about = format!("{about} ({} missing before this one)", entry.missing);
    }
    let who = entry.caller.as_ref().map(|caller| who(caller, own_team(chain))).unwrap_or_default();
    vec![time(entry.at.as_ref()), outcome, call, about, who, one_line(&entry.address)]
}

/// Returns the call without its service, which people need not know.
fn method(method: &str) -> String {
    one_line(method.split_once('/').map_or(method, |(_, name)| name))
}

fn about(entry: &v1::AuditEntry) -> String {
    match (entry.object.as_str(), entry.team.as_str()) {
        ("", team) => one_line(team),
        (object, "") => one_line(object),
        (object, team) => one_line(&format!("{object}@{team}")),
    }
}

/// Returns the team of a member whose call a chain has. The team that the call was about may be another one, or none.
fn own_team(chain: &str) -> &str {
    chain.split_once('/').map_or("", |(_, team)| team)
}

fn who(caller: &v1::AuditCaller, team: &str) -> String {
    let credential = match caller.credential_id.as_str() {
        "" => String::new(),
        id => format!(" (sign-in {id})"),
    };
    let text = match caller.kind() {
        AuditCallerKind::Unspecified => "several callers".to_owned(),
        AuditCallerKind::Stranger if caller.claim.is_empty() => "stranger".to_owned(),
        AuditCallerKind::Stranger => format!("stranger as {}", caller.claim),
        AuditCallerKind::Operator => format!("operator{credential}"),
        AuditCallerKind::Member if caller.is_lead => format!("{} (lead of {team}){credential}", caller.member),
        AuditCallerKind::Member => format!("{}{credential}", caller.member),
        AuditCallerKind::Host => format!("host {}", caller.member),
        AuditCallerKind::Observer => format!("observer {}", caller.credential_id),
        AuditCallerKind::JoinToken => format!("join token {}", caller.credential_id),
        AuditCallerKind::Administrator => "administrator".to_owned(),
    };
    one_line(&text)
}
