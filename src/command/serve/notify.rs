//! Who is notified of what waits for people.

use std::{env, fs};

use teamwire_server::{
    domain::alerts::{AlertKind, AlertRule},
    sender::{Command, Target, Webhook},
};

use crate::{config::Notify, failure::Failure};

/// Reads the secrets of the `[[notify]]` tables, and returns what the coordinator does with each table.
pub(super) fn load(tables: &[Notify]) -> Result<Vec<(AlertRule, Target)>, Failure> {
    tables.iter().map(|table| Ok((rule(table), target(table)?))).collect()
}

fn rule(table: &Notify) -> AlertRule {
    let receiver: Vec<&str> = match table.to.as_str() {
        "" => table.exec.iter().map(String::as_str).collect(),
        to => vec![to],
    };
    let kinds = table.events.iter().filter_map(|event| AlertKind::named(event)).collect();
    AlertRule { after: table.after, content: table.content, timeout: table.timeout, ..AlertRule::new(&receiver, kinds) }
}

fn target(table: &Notify) -> Result<Target, Failure> {
    if let Some(command) = Command::new(&table.exec) {
        return Ok(Target::Command(command));
    }
    let wrong = |what: String| Failure::usage(format!("{}: {what}.", table.place));
    let text = match &table.secret_file {
        Some(file) => fs::read_to_string(file)
            .map_err(|error| wrong(format!("notify.secret_file {} cannot be read: {error}", file.display())))?,
        None => env::var(&table.secret_env)
            .map_err(|_| wrong(format!("notify.secret_env names {}, which is not set", table.secret_env)))?,
    };
    let secrets: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if secrets.is_empty() {
        return Err(wrong("the secret of notify.to is empty".to_owned()));
    }
    Webhook::new(&table.to, &secrets, table.allow_private)
        .map(Target::Webhook)
        .map_err(|why| wrong(format!("notify.to {why}")))
}
