//! The command line as users see it: what `--help` shows.
//!
//! The help of a command shows what it does, examples, and its own arguments. The options that all commands share
//! appear only in `teamwire --help`.

use clap::{Command, CommandFactory as _};

use crate::command::Cli;

const EXAMPLES_FIRST: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}\n\n\
                              Every command also takes the options of `teamwire`, such as --as, --team and --address: see \
                              `teamwire --help`.";
const ARGUMENTS_FIRST: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}{after-help}";

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
    command.help_template(ARGUMENTS_FIRST).mut_subcommands(arrange)
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
