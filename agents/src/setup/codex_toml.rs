//! Edits Codex' `config.toml` in place. Comments and order stay.

use std::path::Path;

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::{Intent, Invocation, SERVER, SetupError, is_our_server};

/// The table of the MCP servers.
const SERVERS: &str = "mcp_servers";

/// Returns the text of a file after an edit.
pub(super) fn edit(path: &Path, text: &str, ours: &Invocation, intent: Intent) -> Result<String, SetupError> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| SetupError::Unreadable {
        path: path.to_owned(),
        format: "TOML",
        detail: error.to_string().trim_end().replace('\n', " "),
    })?;
    let wrong = || SetupError::WrongType { path: path.to_owned(), part: SERVERS.to_owned(), expected: "a table" };
    if let Some(servers) = document.get_mut(SERVERS) {
        let servers = servers.as_table_like_mut().ok_or_else(wrong)?;
        match servers.get(SERVER).map(|server| (is_ours(server), has(server, ours))) {
            None => {}
            Some((true, true)) if intent == Intent::Set => return Ok(text.to_owned()),
            Some((true, _)) => _ = servers.remove(SERVER),
            Some((false, _)) if intent == Intent::Set => {
                return Err(SetupError::NameTaken { path: path.to_owned() });
            }
            Some((false, _)) => return Ok(text.to_owned()),
        }
        // A table without a header is written only if it has entries.
        if servers.is_empty() && document[SERVERS].as_table().is_some_and(Table::is_implicit) {
            document.remove(SERVERS);
        }
    }
    if intent == Intent::Set {
        let mut server = Table::new();
        server.insert("command", value(&ours.binary));
        server.insert("args", value(Array::from_iter(ours.server_arguments())));
        let mut implicit = Table::new();
        implicit.set_implicit(true);
        let servers = document.entry(SERVERS).or_insert(Item::Table(implicit));
        servers.as_table_like_mut().ok_or_else(wrong)?.insert(SERVER, Item::Table(server));
    }
    Ok(document.to_string())
}

fn text_of<'a>(server: &'a dyn TableLike, key: &str) -> &'a str {
    server.get(key).and_then(Item::as_str).unwrap_or_default()
}

fn arguments(server: &dyn TableLike) -> Vec<&str> {
    let arguments = server.get("args").and_then(Item::as_array);
    arguments.map(|arguments| arguments.iter().filter_map(|argument| argument.as_str()).collect()).unwrap_or_default()
}

fn is_ours(server: &Item) -> bool {
    server.as_table_like().is_some_and(|server| {
        is_our_server(text_of(server, "command"), arguments(server).first().copied().unwrap_or_default())
    })
}

fn has(server: &Item, ours: &Invocation) -> bool {
    server
        .as_table_like()
        .is_some_and(|server| text_of(server, "command") == ours.binary && arguments(server) == ours.server_arguments())
}
