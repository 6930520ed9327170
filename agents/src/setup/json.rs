//! Edits JSON settings in place. Comments, order and indentation stay.

use std::path::Path;

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode},
};
use serde_json::Value;

use super::{Intent, SERVER, SetupError, is_our_hook, is_our_server};

/// What belongs into a JSON file.
#[derive(Debug)]
pub(super) struct Additions {
    /// The MCP server, and the keys that lead to the object of all servers.
    pub(super) server: Option<(Vec<String>, CstInputValue)>,
    /// For each event, the group of hooks to append to its list.
    pub(super) hooks: Vec<(&'static str, CstInputValue)>,
}

/// Creates an object.
pub(super) fn object(fields: impl IntoIterator<Item = (&'static str, CstInputValue)>) -> CstInputValue {
    CstInputValue::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Creates an array.
pub(super) fn list(items: impl IntoIterator<Item = CstInputValue>) -> CstInputValue {
    CstInputValue::Array(items.into_iter().collect())
}

/// Returns the text of a file after an edit.
pub(super) fn edit(path: &Path, text: &str, additions: &Additions, intent: Intent) -> Result<String, SetupError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let file = File { path, root: parse(path, text)? };
    let root = file.root.object_value().ok_or_else(|| file.wrong("the file", "an object"))?;
    if intent == Intent::Set && file.has_all(&root, additions)? {
        return Ok(text.to_owned());
    }
    if let Some((at, _)) = &additions.server {
        file.remove_server(&root, at, intent)?;
    }
    if !additions.hooks.is_empty() {
        file.remove_hooks(&root)?;
    }
    if intent == Intent::Set {
        file.add(&root, additions)?;
    }
    Ok(file.root.to_string())
}

fn parse(path: &Path, text: &str) -> Result<CstRootNode, SetupError> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options).map_err(|error| SetupError::Unreadable {
        path: path.to_owned(),
        format: "JSON",
        detail: error.to_string(),
    })
}

struct File<'a> {
    path: &'a Path,
    root: CstRootNode,
}

impl File<'_> {
    fn wrong(&self, part: &str, expected: &'static str) -> SetupError {
        SetupError::WrongType { path: self.path.to_owned(), part: part.to_owned(), expected }
    }

    /// Returns whether the file has all of it, and no older form of it.
    fn has_all(&self, root: &CstObject, additions: &Additions) -> Result<bool, SetupError> {
        if let Some((at, server)) = &additions.server {
            let found = self.servers(root, at)?.and_then(|servers| servers.get(SERVER)?.to_serde_value());
            if found != Some(to_value(server)) {
                return Ok(false);
            }
        }
        if additions.hooks.is_empty() {
            return Ok(true);
        }
        let Some(hooks) = self.child(root, "hooks")? else { return Ok(false) };
        for event in hooks.properties().iter().filter_map(|property| property.decoded_name()) {
            let groups = self.groups(&hooks, &event)?.map(|groups| groups.elements()).unwrap_or_default();
            let ours = groups.iter().filter(|group| hooks_of(group).iter().any(is_ours));
            let found: Vec<Value> = ours.filter_map(CstNode::to_serde_value).collect();
            let wanted = additions.hooks.iter().filter(|(of, _)| *of == event).map(|(_, group)| to_value(group));
            if found != wanted.collect::<Vec<_>>() {
                return Ok(false);
            }
        }
        Ok(additions.hooks.iter().all(|(event, _)| hooks.get(event).is_some()))
    }

    /// Returns the object of all servers.
    fn servers(&self, root: &CstObject, at: &[String]) -> Result<Option<CstObject>, SetupError> {
        let mut object = root.clone();
        for key in at {
            match self.child(&object, key)? {
                Some(child) => object = child,
                None => return Ok(None),
            }
        }
        Ok(Some(object))
    }

    /// Returns a child that must be an object if it is there.
    fn child(&self, object: &CstObject, key: &str) -> Result<Option<CstObject>, SetupError> {
        match object.get(key) {
            None => Ok(None),
            Some(property) => property.object_value().map(Some).ok_or_else(|| self.wrong(key, "an object")),
        }
    }

    fn groups(&self, hooks: &CstObject, event: &str) -> Result<Option<CstArray>, SetupError> {
        match hooks.get(event) {
            None => Ok(None),
            Some(property) => {
                property.array_value().map(Some).ok_or_else(|| self.wrong(&format!("hooks.{event}"), "a list"))
            }
        }
    }

    /// Removes the server, and the objects around it that are empty then.
    fn remove_server(&self, root: &CstObject, at: &[String], intent: Intent) -> Result<(), SetupError> {
        let Some(servers) = self.servers(root, at)? else { return Ok(()) };
        let Some(server) = servers.get(SERVER) else { return Ok(()) };
        let value = server.to_serde_value().unwrap_or_default();
        // opencode has the arguments in the same list.
        let (binary, first) = match &value["command"] {
            Value::Array(words) => (words.first(), words.get(1)),
            command => (Some(command), value["args"].get(0)),
        };
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        if !is_our_server(&text(binary), &text(first)) {
            let taken = SetupError::NameTaken { path: self.path.to_owned() };
            return if intent == Intent::Set { Err(taken) } else { Ok(()) };
        }
        server.remove();
        for depth in (1..=at.len()).rev() {
            let mut parent = root.clone();
            for key in &at[..depth - 1] {
                parent = self.child(&parent, key)?.unwrap_or(parent);
            }
            remove_if_empty(&parent, &at[depth - 1]);
        }
        Ok(())
    }

    /// Removes all hooks of ours, and the lists and objects around them that are empty then.
    fn remove_hooks(&self, root: &CstObject) -> Result<(), SetupError> {
        let Some(hooks) = self.child(root, "hooks")? else { return Ok(()) };
        let mut has_removed_any = false;
        for event in hooks.properties().iter().filter_map(|property| property.decoded_name()) {
            let Some(groups) = self.groups(&hooks, &event)? else { continue };
            let mut has_removed = false;
            for group in groups.elements() {
                let ours: Vec<CstNode> = hooks_of(&group).into_iter().filter(is_ours).collect();
                has_removed |= !ours.is_empty();
                let is_last = !ours.is_empty() && ours.len() == hooks_of(&group).len();
                ours.into_iter().for_each(CstNode::remove);
                if is_last {
                    group.remove();
                }
            }
            if has_removed
                && groups.elements().is_empty()
                && let Some(property) = hooks.get(&event)
            {
                property.remove();
            }
            has_removed_any |= has_removed;
        }
        if has_removed_any {
            remove_if_empty(root, "hooks");
        }
        Ok(())
    }

    fn add(&self, root: &CstObject, additions: &Additions) -> Result<(), SetupError> {
        if let Some((at, server)) = &additions.server {
            let mut object = root.clone();
            for key in at {
                object = object.object_value_or_create(key).ok_or_else(|| self.wrong(key, "an object"))?;
            }
            object.append(SERVER, server.clone());
        }
        if additions.hooks.is_empty() {
            return Ok(());
        }
        let hooks = root.object_value_or_create("hooks").ok_or_else(|| self.wrong("hooks", "an object"))?;
        for (event, group) in &additions.hooks {
            match self.groups(&hooks, event)? {
                Some(groups) => _ = groups.append(group.clone()),
                None => _ = hooks.append(event, list([group.clone()])),
            }
        }
        Ok(())
    }
}

fn remove_if_empty(parent: &CstObject, key: &str) {
    if let Some(property) = parent.get(key)
        && property.object_value().is_some_and(|object| object.properties().is_empty())
    {
        property.remove();
    }
}

/// Returns the hooks of a group.
fn hooks_of(group: &CstNode) -> Vec<CstNode> {
    let hooks = group.as_object().and_then(|group| group.get("hooks")?.array_value());
    hooks.map(|hooks| hooks.elements()).unwrap_or_default()
}

fn is_ours(hook: &CstNode) -> bool {
    hook.to_serde_value().is_some_and(|hook| hook["command"].as_str().is_some_and(is_our_hook))
}

fn to_value(value: &CstInputValue) -> Value {
    match value {
        CstInputValue::Null => Value::Null,
        CstInputValue::Bool(is) => Value::Bool(*is),
        CstInputValue::Number(number) => number.parse().map_or(Value::Null, Value::Number),
        CstInputValue::String(text) => Value::String(text.clone()),
        CstInputValue::Array(items) => items.iter().map(to_value).collect(),
        CstInputValue::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), to_value(value))).collect(),
    }
}
