//! The command line as users see it: what `--help` shows.
//!
//! The help of a command shows what it does, examples, and its own arguments. The options that all commands share
//! appear only in `teamwire --help`.

use clap::{Command, CommandFactory as _};

use crate::command::Cli;

const EXAMPLES_FIRST: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}\n\n\
                              Every command also takes the options of `teamwire`, such as --as, --team and --address: see \
                              `teamwire --help`.";

/// The commands by who needs them, the everyday ones first.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Every day",
        &[
            "init", "up", "down", "status", "send", "inbox", "requests", "approve", "reject", "task", "logs", "last",
            "console",
        ],
    ),
    (
        "To lead a team",
        &[
            "team",
            "invite",
            "spawn",
            "tag",
            "attach",
            "interrupt",
            "transcript",
            "work",
            "budget",
            "shutdown",
            "hosts",
            "message",
            "history",
            "doctor",
        ],
    ),
    (
        "To be a member, or to run one",
        &["run", "programs", "join", "leave", "setup", "plan", "permission", "notices", "subscribe", "host"],
    ),
    ("To choose who you are", &["whoami", "identities", "use"]),
    (
        "To run a coordinator",
        &["serve", "stop", "restart", "open", "health", "backup", "restore", "certs", "access", "operator", "audit"],
    ),
    ("For shells and agent programs", &["completions", "man", "mcp", "hook", "update", "help"]),
];

/// Returns the command line with the help of every command as users see it.
pub(crate) fn command() -> Command {
    arranged(Cli::command())
}

/// Returns the same for manual pages, which need none about `help`.
pub(crate) fn without_help_command() -> Command {
    arranged(Cli::command().disable_help_subcommand(true).mut_subcommands(without_help))
}

fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn arranged(mut command: Command) -> Command {
    // Gives the subcommands the options of `teamwire` itself, so that they can be hidden there.
    command.build();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}\n\nSee `teamwire COMMAND --help` for a command, \
         and `teamwire --help` for the options that every command takes.{{after-help}}",
        groups(&command)
    );
    command.help_template(template).mut_subcommands(arrange)
}

/// Lists the commands in groups.
fn groups(command: &Command) -> String {
    let line = |name: &&str| {
        let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
        // The rest is in the command's own help.
        let brief = about
            .as_deref()
            .map(|about| about.split([':', ';', '(']).next().unwrap_or(about).trim_end())
            .unwrap_or_default();
        format!("  {name:<13}{brief}\n")
    };
    let group =
        |(heading, names): &(&str, &[&str])| format!("{heading}:\n{}\n", names.iter().map(line).collect::<String>());
    GROUPS.iter().map(group).collect()
}

fn arrange(command: Command) -> Command {
    command
        .help_template(EXAMPLES_FIRST)
        .mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg })
        .mut_subcommands(arrange)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(command: &Command, path: &str, check: &mut impl FnMut(&Command, &str)) {
        for child in command.get_subcommands().filter(|child| !child.is_hide_set() && child.get_name() != "help") {
            let path = format!("{path} {}", child.get_name());
            check(child, &path);
            visit(child, &path, check);
        }
    }

    #[test]
    fn every_command_is_in_one_group_and_fits_on_a_line() {
        let command = command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut all: Vec<&str> = shown.map(Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
        for line in groups(&command).lines() {
            assert!(line.len() <= 110 && !line.ends_with(' '), "{line}");
        }
    }

    #[test]
    fn every_command_shows_examples_before_its_arguments() {
        visit(&command(), "teamwire", &mut |command, path| {
            if command.has_subcommands() {
                return;
            }
            let help = command.clone().render_long_help().to_string();
            let example = help.find("\n    teamwire").unwrap_or_else(|| panic!("`{path}` has no example"));
            assert!(help[example..].contains(command.get_name()), "the examples of `{path}` do not show it");
            let arguments = help.find("\nArguments:").or(help.find("\nOptions:")).unwrap_or(help.len());
            assert!(example < arguments, "{help}");
            assert!(!help.contains("\nContext:"), "`{path}` repeats the options of `teamwire`");
        });
    }

    #[test]
    fn every_example_parses() {
        visit(&command(), "teamwire", &mut |shown, path| {
            let Some(examples) = shown.get_after_long_help().or(shown.get_after_help()) else { return };
            for line in examples.to_string().replace("\\\n", "").lines().filter_map(|line| line.strip_prefix("    ")) {
                let Some(start) = line.find("teamwire ") else { continue };
                let typed = &line[start..];
                let typed = [" | ", " && ", " > ", " < "]
                    .iter()
                    .fold(typed, |typed, end| typed.split(end).next().unwrap_or(typed));
                let words = shlex::split(typed).unwrap_or_else(|| panic!("{path}: {typed}"));
                if let Err(error) = command().try_get_matches_from(words) {
                    panic!("the example `{typed}` of `{path}` does not parse: {error}");
                }
            }
        });
    }
}
