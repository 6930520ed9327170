//! What a permission rule permits. The coordinator that stores rules, the runner that answers by them, and the commands that
//! show them share this code.
//!
//! A rule answers without asking anyone, so a use that is not fully understood matches no rule: it becomes a permission
//! request, as without rules.

mod command;
mod launcher;
mod path;

pub use self::command::{COMMAND_BYTES_MAX, PATTERN_BYTES_MAX, not_simple, simple_command};
use self::command::{Pattern, quoted};
use crate::{
    Reason, Refusal,
    name::Name,
    v1::{PermissionRule, ToolUse},
    visible::is_visible,
};

/// How many characters the name of a tool may have.
const TOOL_CHARS_MAX: usize = 200;

/// How many paths a use may have that a rule can match.
pub const PATHS_MAX: usize = 64;

/// How many bytes the command and the paths of a use may have together.
pub const USE_BYTES_MAX: usize = 16 * 1024;

/// Checks a rule, and returns it in the one form in which it is stored. What the coordinator sets is left out.
pub fn check(rule: &PermissionRule) -> Result<PermissionRule, Refusal> {
    let member = match rule.member.as_str() {
        "" => String::new(),
        name => Name::parse_member(name, "rule.member")?.to_string(),
    };
    let tool = rule.tool.trim_matches(' ');
    let is_line = !tool.chars().any(char::is_control) && tool.chars().count() <= TOOL_CHARS_MAX;
    if !is_visible(tool) || !is_line {
        return Err(wrong("tool", "Name the tool as permission requests do, such as Bash, in one line.".to_owned()));
    }
    let checked = PermissionRule { member, tool: tool.to_owned(), ..PermissionRule::default() };
    match (rule.command.as_str(), rule.path.as_str(), rule.any_use) {
        (command, "", false) if !command.is_empty() => {
            let pattern = Pattern::parse(command).map_err(|why| wrong("command", why))?;
            launcher::check(&pattern).map_err(|why| wrong("command", why))?;
            Ok(PermissionRule { command: pattern.to_string(), ..checked })
        }
        ("", path, false) if !path.is_empty() => {
            path::check(path).map_err(|why| wrong("path", why))?;
            Ok(PermissionRule { path: path.to_owned(), ..checked })
        }
        ("", "", true) => Ok(PermissionRule { any_use: true, ..checked }),
        _ => Err(wrong(
            "command",
            "Say what the rule permits: a command, or a path, or any use, and only one of them.".to_owned(),
        )),
    }
}

fn wrong(field: &str, why: String) -> Refusal {
    Refusal::new(Reason::InvalidField, why).field(format!("rule.{field}"))
}

/// Checks the bounds of what a program says that a tool would do.
pub fn check_use(what: &ToolUse) -> Result<(), Refusal> {
    let bytes = what.command.len() + what.directory.len() + what.paths.iter().map(String::len).sum::<usize>();
    if what.command.len() > COMMAND_BYTES_MAX || what.paths.len() > PATHS_MAX || bytes > USE_BYTES_MAX {
        let text = format!(
            "tool_use is too large for a rule: up to {COMMAND_BYTES_MAX} bytes of command, {PATHS_MAX} paths, and \
             {USE_BYTES_MAX} bytes in all. Leave it out."
        );
        return Err(Refusal::new(Reason::InvalidField, text).field("tool_use"));
    }
    Ok(())
}

/// Returns whether a rule permits this member to use a tool for this.
pub fn permits(rule: &PermissionRule, member: &str, tool: &str, what: &ToolUse) -> bool {
    let is_for = rule.member.is_empty() || rule.member.eq_ignore_ascii_case(member);
    if !is_for || rule.tool != tool || check_use(what).is_err() {
        return false;
    }
    match (what.command.as_str(), what.paths.as_slice()) {
        ("", []) => rule.any_use,
        ("", paths) => {
            !rule.path.is_empty() && paths.iter().all(|path| path::contains(&rule.path, &what.directory, path))
        }
        (command, []) if !rule.command.is_empty() => {
            let pattern = Pattern::parse(&rule.command).ok();
            pattern.zip(simple_command(command)).is_some_and(|(pattern, words)| pattern.matches(&words))
        }
        _ => false,
    }
}

/// Returns the rule that permits exactly this, for every member. Fails with a sentence that says why no rule can.
pub fn exact(tool: &str, what: Option<&ToolUse>) -> Result<PermissionRule, String> {
    let Some(what) = what else {
        return Err("The program says too little about this, or asks for more than the tool, so no rule can match it."
            .to_owned());
    };
    let rule = PermissionRule { tool: tool.to_owned(), ..PermissionRule::default() };
    let rule = match (what.command.as_str(), what.paths.as_slice()) {
        ("", []) => PermissionRule { any_use: true, ..rule },
        ("", [path]) => PermissionRule { path: path.clone(), ..rule },
        ("", paths) => {
            return Err(format!(
                "It is about {} files. `teamwire permission allow` can add a rule for a directory.",
                paths.len()
            ));
        }
        (command, _) => match not_simple(command) {
            None => PermissionRule { command: quoted(&simple_command(command).unwrap_or_default()), ..rule },
            Some(why) => return Err(format!("No rule can match this command: {why}.")),
        },
    };
    let rule = check(&rule).map_err(|refusal| refusal.message)?;
    // What is stored must permit what was asked for.
    match permits(&rule, "", tool, what) {
        true => Ok(rule),
        false => Err("No rule can match this exactly.".to_owned()),
    }
}

/// Says in one sentence what a rule permits. The caller must make control characters visible.
pub fn sentence(rule: &PermissionRule) -> String {
    let who = if rule.member.is_empty() { "Every member" } else { &rule.member };
    format!("{who} may use {} {}.", rule.tool, extent(rule))
}

/// Says for what a rule permits its tool: continues "may use Bash".
pub fn extent(rule: &PermissionRule) -> String {
    match (rule.command.as_str(), rule.path.as_str()) {
        ("", "") => "for anything that is neither a command nor a file".to_owned(),
        ("", "./") => "on every file in its working directory".to_owned(),
        ("", path) if path.ends_with('/') => format!("on every file in `{path}`"),
        ("", path) => format!("on the file `{path}`"),
        (command, _) => match command.strip_suffix(" *") {
            Some(words) => format!("to run `{words}` with any further words"),
            None => format!("to run exactly `{command}`"),
        },
    }
}

/// Returns what a tool would be used for, as text: the command, or a line for each path.
pub fn use_text(what: &ToolUse) -> String {
    if what.command.is_empty() { what.paths.join("\n") } else { what.command.clone() }
}

#[cfg(test)]
mod tests;
