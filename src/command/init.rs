//! `teamwire init`: writes a team's file for the agent programs on this machine.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _, stdin},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::Args;
use nix::unistd::{AccessFlags, access};
use serde_json::json;
use teamwire_agents::programs::{Installed, installed};
use teamwire_proto::name::Name;

use super::{
    Output,
    confirm::has_terminal,
    up::{FILE, check::parse},
};
use crate::{
    context::refuse_within_runner,
    failure::{Failure, REFUSED},
    show,
};

/// What the two agents are called unless you say otherwise, and what they are asked to do.
const AGENTS: [(&str, &str); 2] = [
    ("backend", "You write the code. Work on the tasks that are assigned to you, and tell the lead what you did."),
    ("reviewer", "You review what backend has done. Say what is wrong and why, and name the file and the line."),
];

/// Write a team file for the agent programs on this machine
///
/// Finds the agent programs that `teamwire programs --all` lists, such as Claude Code, Codex, Gemini CLI and opencode, and
/// asks each whether it is signed in. At a terminal, it then asks for three names: the team's and those of two agents. In a git repository, each agent gets a worktree and a branch, so
/// that agents do not disturb each other or you. Without any agent program, the team consists of the built-in echo agent,
/// to try everything else.
///
/// The command prints what to do next. It changes nothing that exists.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire init && teamwire up\n    teamwire init --yes --name acme")]
pub(super) struct Init {
    /// The file to write
    #[arg(value_name = "FILE", default_value = FILE)]
    file: PathBuf,
    /// The team's name [default: the name of the file's directory]
    #[arg(long = "name", value_name = "TEAM")]
    name: Option<String>,
    /// Take the default names, and do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub output: Output,
}

/// An agent of the team, and what it runs.
struct Agent {
    name: String,
    prompt: &'static str,
    program: Option<Installed>,
}

/// The git repository in which agents could work.
#[derive(Debug, PartialEq, Eq)]
enum Repository {
    None,
    /// Agents can have worktrees of it. `changed`: how many files are not committed.
    Ready {
        root: PathBuf,
        changed: usize,
    },
    /// There is no commit to begin with.
    Empty,
    /// This user may not write to it.
    ReadOnly,
}

impl Init {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        refuse_within_runner("A team file cannot be written here.")?;
        let there = || {
            let text = format!(
                "{} is there already. Edit it, or name another file: `teamwire init OTHER.toml`.",
                self.file.display()
            );
            Failure::with_code(REFUSED, text)
        };
        if fs::symlink_metadata(&self.file).is_ok() {
            return Err(there());
        }
        let directory = match self.file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => fs::canonicalize(parent),
            None => env::current_dir(),
        };
        let directory =
            directory.map_err(|error| Failure::local(&format!("Cannot write {}", self.file.display()), error))?;

        let programs = installed().await;
        if !self.output.json {
            anstream::println!("{}", found(&programs));
        }
        let asks = !self.yes && !self.output.json && has_terminal();
        let default = self.name.clone().unwrap_or_else(|| team_name(&directory));
        let team = if asks && self.name.is_none() { ask("Team", &default)? } else { default };
        let mut agents = Vec::new();
        for (at, (name, prompt)) in AGENTS.into_iter().enumerate() {
            let program = chosen(&programs, at).cloned();
            let what = program.as_ref().map_or("the echo agent", |found| &found.program.title);
            let name = if asks { ask(&format!("Name of an agent ({what})"), name)? } else { name.to_owned() };
            agents.push(Agent { name, prompt, program });
        }
        let repository = repository(&directory);
        let text = text(&team, &agents, &repository);
        // A name may be one that no team or member can have.
        parse(&self.file.display().to_string(), &text, &directory)?;

        let created = OpenOptions::new().write(true).create_new(true).open(&self.file);
        let mut file = created.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => there(),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Failure::with_code(
                REFUSED,
                format!(
                    "You may not write {}. Write the file elsewhere, such as `teamwire init ~/team.toml`: the agents then work there.",
                    self.file.display()
                ),
            ),
            _ => Failure::local(&format!("Cannot write {}", self.file.display()), error),
        })?;
        file.write_all(text.as_bytes())?;
        self.report(&team, &agents, &programs, &repository);
        Ok(())
    }

    fn report(&self, team: &str, agents: &[Agent], programs: &[Installed], repository: &Repository) {
        let file = self.file.display().to_string();
        let next = next(&file, agents, repository);
        if self.output.json {
            let programs: Vec<_> = programs
                .iter()
                .map(|program| {
                    json!({
                        "command": program.program.command, "version": program.version,
                        "tried": program.program.tried, "signed_in": program.is_signed_in,
                    })
                })
                .collect();
            let members: Vec<_> =
                agents.iter().map(|agent| json!({ "name": agent.name, "profile": profile(agent) })).collect();
            let worktree = match repository {
                Repository::Ready { root, .. } => Some(root.display().to_string()),
                _ => None,
            };
            show::line(&json!({
                "file": file, "team": team, "members": members, "programs": programs, "worktree": worktree, "next": next,
            }));
            return;
        }
        let who: Vec<String> = agents.iter().map(|agent| format!("{} ({})", agent.name, profile(agent))).collect();
        let place = match repository {
            Repository::Ready { root, .. } => format!("each in a git worktree of {}", root.display()),
            Repository::None => "in this directory, which is no git repository, so they share it".to_owned(),
            Repository::Empty => "in this directory, which they share, because the repository has no commit".to_owned(),
            Repository::ReadOnly => {
                "in this directory, which they share, because you may not write to its repository".to_owned()
            }
        };
        anstream::println!("Wrote {file}: team {team} with {}, {place}.", who.join(" and "));
        anstream::println!("{} {next}", show::paint(show::bold(), "Next:"));
    }
}

/// Says which programs are there.
fn found(programs: &[Installed]) -> String {
    let describe = |program: &Installed| {
        let signed_in = match program.is_signed_in {
            Some(true) => ", signed in",
            Some(false) => ", not signed in",
            None => "",
        };
        format!("{}{signed_in}", show::plain(&program.description()))
    };
    match programs {
        [] => "Found no agent program on your PATH.".to_owned(),
        programs => format!("Found {}.", programs.iter().map(describe).collect::<Vec<_>>().join("; ")),
    }
}

/// Returns the program of an agent: those that were tried come first, and among them those that are signed in. Agents
/// take turns.
fn chosen(programs: &[Installed], at: usize) -> Option<&Installed> {
    let rank = |found: &Installed| (found.program.tried.is_none(), found.is_signed_in == Some(false));
    let best = programs.iter().map(rank).min()?;
    let usable: Vec<&Installed> = programs.iter().filter(|found| rank(found) == best).collect();
    Some(usable[at % usable.len()])
}

fn profile(agent: &Agent) -> &'static str {
    agent.program.as_ref().map_or("echo", |found| &found.program.command)
}

/// Says in one sentence what to do next.
fn next(file: &str, agents: &[Agent], repository: &Repository) -> String {
    let up = if file == FILE { "`teamwire up`".to_owned() } else { format!("`teamwire up {file}`") };
    let mut programs = agents.iter().filter_map(|agent| agent.program.as_ref());
    if let Some(Installed { program, .. }) = programs.find(|found| found.is_signed_in == Some(false)) {
        return format!("sign in to {} with `{}`, and then start the team with {up}.", program.title, program.sign_in);
    }
    if agents.iter().all(|agent| agent.program.is_none()) {
        return format!(
            "start the echo agents with {up}; for real ones, install Claude Code, Codex, Gemini CLI or opencode, delete {file}, \
             and run `teamwire init` again."
        );
    }
    match repository {
        Repository::Ready { changed: 0, .. } | Repository::None | Repository::ReadOnly => {
            format!("start the team with {up}.")
        }
        Repository::Ready { changed, .. } => format!(
            "commit {}, because agents begin with your last commit, and then start the team with {up}.",
            show::count(*changed as u64, "changed file")
        ),
        Repository::Empty => format!(
            "start the team with {up}; if each agent is to have its own worktree, commit first, delete {file}, and run \
             `teamwire init` again."
        ),
    }
}

/// Returns a name for the team of a directory.
fn team_name(directory: &Path) -> String {
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect();
    let name: String = name.trim_start_matches(['.', '_', '-']).chars().take(63).collect();
    if Name::parse(&name, "name").is_ok() { name } else { "team".to_owned() }
}

/// Asks for a name at the terminal. Enter takes the default.
fn ask(what: &str, default: &str) -> Result<String, Failure> {
    anstream::eprint!("{what} [{default}]: ");
    let mut answer = String::new();
    if stdin().read_line(&mut answer)? == 0 {
        return Err(Failure::with_code(REFUSED, "Not answered, so nothing was written."));
    }
    Ok(if answer.trim().is_empty() { default.to_owned() } else { answer.trim().to_owned() })
}

/// Looks at the git repository of a directory.
fn repository(directory: &Path) -> Repository {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(directory).args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        let output = git.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    };
    let (Some(root), Some(store)) = (git(&["rev-parse", "--show-toplevel"]), git(&["rev-parse", "--absolute-git-dir"]))
    else {
        return Repository::None;
    };
    if git(&["rev-parse", "--verify", "--quiet", "HEAD"]).is_none() {
        return Repository::Empty;
    }
    if access(Path::new(&store), AccessFlags::W_OK).is_err() {
        return Repository::ReadOnly;
    }
    // The file that is about to be written is not there yet.
    let changed = git(&["status", "--porcelain"]).map_or(0, |changes| changes.lines().count());
    Repository::Ready { root: root.into(), changed }
}

/// Composes the file.
fn text(team: &str, agents: &[Agent], repository: &Repository) -> String {
    let quoted = |text: &str| toml_edit::Value::from(text).to_string();
    let mut text = format!(
        "# A team of agents: `teamwire up` starts it, and `teamwire down` ends it. docs/team-file.md explains every key.\n\n\
         name = {}\n",
        quoted(team)
    );
    for agent in agents {
        text += &format!(
            "\n[[members]]\nname = {}\nprofile = {}\nprompt = {}\n",
            quoted(&agent.name),
            quoted(profile(agent)),
            quoted(agent.prompt)
        );
    }
    let mut written = Vec::new();
    for agent in agents {
        let name = profile(agent);
        if written.contains(&name) {
            continue;
        }
        written.push(name);
        text += &format!("\n[hosts.local.profiles.{name}]\n");
        match &agent.program {
            None => text += "command = [\"teamwire\", \"echo-teammate\"]\nclaim = true\n",
            Some(found) => {
                let passed: Vec<String> = found.program.variables.iter().map(|name| quoted(name)).collect();
                text += &format!("command = [{}]\npass_env = [{}]\n", quoted(name), passed.join(", "));
            }
        }
        if let Repository::Ready { root, .. } = repository {
            text += &format!("worktree = {}\n", quoted(&with_home(root)));
        }
    }
    text
}

/// Shortens a path in the home directory, so that the file fits other machines.
fn with_home(path: &Path) -> String {
    let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    match home.as_deref().and_then(|home| path.strip_prefix(home).ok()).filter(|rest| !rest.as_os_str().is_empty()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
