//! Keeps `docs/cli.md`, `docs/cli.schema.json` and `docs/config.schema.json` current: these tests compare them with the
//! sources, and with `UPDATE_DOCS=1`, as set by `cargo xtask generate`, rewrite them.

use std::{env, fs, path::Path};

use clap::{Arg, Command, CommandFactory as _, builder::Resettable};
use clap_markdown::MarkdownOptions;
use regex::Regex;

use crate::command::Cli;
use crate::{config, show};

#[test]
fn the_command_reference_is_current() {
    let options = MarkdownOptions::new().title("Command reference".to_owned()).show_footer(false);
    let markdown = clap_markdown::help_markdown_command_custom(&complete(Cli::command()), &options);
    let markdown = markdown.replace(
        "This document contains the help content for the `teamwire` command-line program.",
        "The text of `--help`. Every command also takes the options of [`teamwire`](#teamwire) itself.",
    );
    // A second usage is on a second line, indented by 7, which a code span must not contain.
    let second_usage = Regex::new(r"\n {7}(\S)").unwrap();
    let markdown = second_usage.replace_all(&markdown, "` or `teamwire $1");
    // A usage from `override_usage` already begins with the program's name, and the generator adds it again.
    let markdown = markdown.replace("`teamwire teamwire ", "`teamwire ");
    let lines: Vec<_> = markdown.lines().map(str::trim_end).collect();
    let note = "<!-- Generated from src/command/ by `cargo xtask generate`. Do not edit. -->";
    check("cli.md", &format!("{note}\n\n{}\n", lines.join("\n").replace("\n\n\n", "\n").trim_end()));
}

#[test]
fn the_configuration_schema_is_current() {
    check("config.schema.json", &format!("{:#}\n", config::schema::schema()));
}

#[test]
fn the_schema_of_json_output_is_current() {
    check("cli.schema.json", &format!("{:#}\n", show::schema::schema()));
}

#[test]
fn the_schema_describes_every_command_with_json() {
    let mut missing = Vec::new();
    let mut pending = vec![(String::new(), Cli::command())];
    while let Some((path, command)) = pending.pop() {
        let takes_json = command.get_arguments().any(|arg| arg.get_long() == Some("json"));
        if takes_json && !show::schema::commands().any(|known| known == path) {
            missing.push(path.clone());
        }
        let children = command.get_subcommands().map(|child| (format!("{path} {}", child.get_name()), child.clone()));
        pending.extend(children.map(|(path, child)| (path.trim_start().to_owned(), child)));
    }
    assert!(missing.is_empty(), "src/show/schema.rs does not describe what these print with --json: {missing:?}");
}

/// Adds what the Markdown generator leaves out, the environment variables, and removes what it should not show, hidden
/// defaults.
fn complete(command: Command) -> Command {
    let argument = |arg: Arg| {
        let arg = if arg.is_hide_default_value_set() { arg.default_value(Resettable::Reset) } else { arg };
        let Some(variable) = arg.get_env().map(|variable| variable.display().to_string()) else { return arg };
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        if help.contains(&variable) { arg } else { arg.long_help(format!("{help} [env: {variable}]")) }
    };
    command.mut_args(argument).mut_subcommands(complete)
}

fn check(name: &str, current: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, current).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == current, "docs/{name} is out of date. Run `cargo xtask generate` and commit the result.");
}
