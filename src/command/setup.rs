//! `teamwire setup`: makes the sessions of an agent program that a person starts members of a team.

use std::{
    env,
    fs::{self, DirBuilder},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use similar::TextDiff;
use teamwire_agents::setup::{self, AgentProgram, Intent, Invocation, Places, Program, SetupError, ToolClient};
use tempfile::NamedTempFile;

use super::confirm::Confirm;
use crate::{
    context::{ContextArgs, Who, refuse_within_runner},
    failure::{Failure, REFUSED},
    show,
    stable_path::stable_path,
};

/// How many symbolic links lead to a file at most.
const LINKS_MAX: usize = 40;

/// Let the agent sessions that you start yourself act as a member of your team
///
/// Adds teamwire's tools (an MCP server) and hooks to the settings of the program. The hooks pass your incoming
/// messages to the model. They only announce a long message, and the model reads it with CheckInbox. Before it changes
/// the files, the command shows a diff and asks for confirmation. Everything else in the files stays, except that a
/// file of a single line is split over several lines. --undo removes what was added, and also `hooks` or `mcpServers`
/// if nothing is left in it.
///
/// The sessions act as the identity that --as names, or as your current one. Choosing another identity later does not
/// change that. Do not start two such sessions at once unless you want them to share one inbox.
///
/// Claude Code gets messages at each prompt and tool call, at the end of each turn, and while it is idle. Codex and
/// Gemini CLI get them at the same points, except while they are idle: messages then wait for your next prompt. Codex
/// asks at its next start whether you trust the hooks; `codex exec` silently skips hooks that you have not trusted.
/// opencode, GitHub Copilot CLI, Cursor and Visual Studio Code get only the tools: their models read messages with
/// CheckInbox.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire setup claude\n    teamwire setup codex --as lead@acme --scope user\n    teamwire setup gemini --undo\n    teamwire setup vscode"
)]
pub(super) struct Setup {
    /// The program
    #[arg(value_parser = program_parser())]
    program: Program,
    /// Whether to change the settings of this project, or those of all your sessions
    #[arg(long, value_enum, default_value_t = Scope::Project)]
    scope: Scope,
    /// Remove what setup has added, whichever identity it was for
    #[arg(long)]
    undo: bool,
    /// Show the diff, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    /// Your sessions in this project: the Git repository around the working directory, or else that directory
    Project,
    /// All your sessions
    User,
}

/// Returns the parser of a program's name.
fn program_parser() -> impl TypedValueParser<Value = Program> {
    PossibleValuesParser::new(Program::all().map(Program::name))
        .map(|name| Program::named(&name).expect("one of the possible values"))
}

/// Returns the parser of the name of a program that has hooks.
pub(super) fn program_with_hooks_parser() -> impl TypedValueParser<Value = AgentProgram> {
    PossibleValuesParser::new(AgentProgram::ALL.map(AgentProgram::name))
        .map(|name| AgentProgram::named(&name).expect("one of the possible values"))
}

/// A file and what it should contain.
struct Change {
    path: PathBuf,
    before: Option<String>,
    after: Option<String>,
}

impl Setup {
    pub(super) fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        refuse_within_runner("The settings of an agent program cannot be changed here.")?;
        let changes = self.changes(context)?;
        if changes.is_empty() {
            let state = if self.undo { "has no settings of teamwire" } else { "is set up already" };
            anstream::println!("{} {state}{}. Nothing was changed.", self.program.title(), self.where_to());
            return Ok(());
        }
        changes.iter().for_each(Change::print);
        if self.dry_run {
            return Ok(());
        }
        let files = show::count(changes.len() as u64, "file");
        self.confirm.ask(&format!("{files} will be changed as shown."), "")?;
        write(changes)?;
        self.report();
        Ok(())
    }

    fn changes(&self, context: &ContextArgs) -> Result<Vec<Change>, Failure> {
        let (scope, intent) = match (self.scope, self.undo) {
            (Scope::Project, false) => (setup::Scope::Project, Intent::Set),
            (Scope::Project, true) => (setup::Scope::Project, Intent::Undo),
            (Scope::User, false) => (setup::Scope::User, Intent::Set),
            (Scope::User, true) => (setup::Scope::User, Intent::Undo),
        };
        let ours = Invocation { binary: binary()?, flags: if self.undo { Vec::new() } else { flags(context)? } };
        let files = self.program.files(scope, &places()?, &ours);
        let changes = files.iter().map(|file| {
            let path = resolved(&file.path)?;
            let before = read(&path)?;
            let after =
                file.edit(before.as_deref(), intent).map_err(|error: SetupError| Failure::usage(error.to_string()))?;
            Ok(Change { path, before, after })
        });
        let changes: Vec<Change> = changes.collect::<Result<_, Failure>>()?;
        Ok(changes.into_iter().filter(|change| change.before != change.after).collect())
    }

    fn where_to(&self) -> &'static str {
        match self.scope {
            Scope::Project => " in this project",
            Scope::User => "",
        }
    }

    fn report(&self) {
        let title = self.program.title();
        if self.undo {
            anstream::println!(
                "Removed teamwire from {title}{}. Sessions that run keep it until they end.",
                self.where_to()
            );
            return;
        }
        anstream::println!("{title} has teamwire{} from its next session on.", self.where_to());
        let program = match self.program {
            Program::WithHooks(program) => program,
            Program::ToolsOnly(client) => {
                if client == ToolClient::Copilot {
                    anstream::println!("It reads a project's settings only if you trust the project.");
                }
                anstream::println!(
                    "It has no hooks that teamwire could use, so messages wait until the model reads them with CheckInbox: tell it to \
                     look into its inbox. The settings name this machine's path of teamwire, so do not commit them."
                );
                return;
            }
        };
        match program {
            AgentProgram::Claude => {}
            AgentProgram::Codex => anstream::println!(
                "At its next start it asks whether you trust the new hooks: choose \"Trust all\", or look at them with /hooks. \
                 Without that, no messages arrive by themselves. Codex reads a project's settings only if you trust the project."
            ),
            AgentProgram::Gemini => {
                anstream::println!("Gemini CLI reads a project's settings only if you trust the project.")
            }
        }
        if program != AgentProgram::Claude {
            anstream::println!("{title} cannot be woken while it is idle: then messages wait for your next prompt.");
        }
    }
}

impl Change {
    fn print(&self) {
        let (before, after) = (self.before.as_deref().unwrap_or(""), self.after.as_deref().unwrap_or(""));
        let path = self.path.display().to_string();
        let name = |text: &Option<String>| if text.is_some() { path.clone() } else { "/dev/null".to_owned() };
        let diff = TextDiff::from_lines(before, after);
        let diff = diff.unified_diff().header(&name(&self.before), &name(&self.after)).to_string();
        diff.lines().for_each(|line| anstream::println!("{}", show::plain(line)));
    }

    /// Writes the new text beside the file, with the file's mode; a new file is private. `None` if the file goes.
    fn prepare(&self) -> Result<Option<NamedTempFile>, Failure> {
        let Some(after) = &self.after else { return Ok(None) };
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let written = (|| {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            let mut file = NamedTempFile::new_in(directory)?;
            file.write_all(after.as_bytes())?;
            if let Ok(metadata) = fs::metadata(&self.path) {
                file.as_file().set_permissions(metadata.permissions())?;
            }
            file.as_file().sync_all()?;
            Ok(file)
        })();
        written.map(Some).map_err(|error| self.cannot_write(error))
    }

    /// Replaces the file with the prepared one.
    fn put(&self, prepared: Option<NamedTempFile>) -> Result<(), Failure> {
        if read(&self.path)? != self.before {
            return Err(Failure::with_code(
                REFUSED,
                format!("{} has changed in the meantime. Nothing was changed. Try again.", self.path.display()),
            ));
        }
        let put = match prepared {
            Some(file) => file.persist(&self.path).map(drop).map_err(|error| error.error),
            None => fs::remove_file(&self.path),
        };
        put.map_err(|error| self.cannot_write(error))
    }

    /// Brings the text back that the file had before.
    fn take_back(self) {
        let back = Self { path: self.path, before: self.after, after: self.before };
        if let Err(failure) = back.prepare().and_then(|prepared| back.put(prepared)) {
            anstream::eprintln!("warning: {} stays changed: {}", back.path.display(), failure.message());
        }
    }

    fn cannot_write(&self, error: io::Error) -> Failure {
        Failure::local(&format!("Cannot write {}", self.path.display()), error)
    }
}

/// Makes all changes, or none.
fn write(changes: Vec<Change>) -> Result<(), Failure> {
    // What fails in the middle is then only a rename.
    let prepared: Vec<_> = changes.iter().map(Change::prepare).collect::<Result<_, _>>()?;
    let mut done = Vec::new();
    for (change, prepared) in changes.into_iter().zip(prepared) {
        if let Err(failure) = change.put(prepared) {
            done.into_iter().for_each(Change::take_back);
            return Err(failure);
        }
        done.push(change);
    }
    Ok(())
}

/// Returns the text of a file. `None` if there is none.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::local(&format!("Cannot read {}", path.display()), error)),
    }
}

/// Follows symbolic links, so that the file is replaced and not the link, even if there is no such file yet.
fn resolved(path: &Path) -> Result<PathBuf, Failure> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::canonicalize(&path) {
            Ok(path) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::local(&format!("Cannot read {}", path.display()), error)),
        }
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new(".")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(Failure::local(&format!("Cannot read {}", path.display()), "too many symbolic links"))
}

fn binary() -> Result<String, Failure> {
    let path = stable_path().map_err(|error| Failure::local("Cannot find the path of teamwire", error))?;
    Ok(path.display().to_string())
}

/// Returns the flags with which a program's session finds the identity, whatever its environment.
fn flags(context: &ContextArgs) -> Result<Vec<String>, Failure> {
    let caller = context.caller(Who::Pinned)?;
    let member = caller.member()?;
    let team = caller.team.as_deref().unwrap_or_default();
    let saved = context.saved_identity(member, Some(team))?;
    if saved.is_none_or(|saved| saved.credential != caller.credential) {
        return Err(Failure::usage(format!(
            "{member}@{team} is not one of your saved identities, so a session could not use it later. Join the team with \
             `teamwire join`, or choose another identity with --as."
        )));
    }
    let identity = vec!["--as".to_owned(), format!("{member}@{team}")];
    Ok([identity, context.location_flags()].concat())
}

/// Returns the settings of agent programs that start a teamwire which is no longer there: the program, the file and
/// that path.
pub(super) fn outdated() -> Vec<(Program, PathBuf, PathBuf)> {
    let Ok(places) = places() else { return Vec::new() };
    let ours = Invocation { binary: String::new(), flags: Vec::new() };
    let scopes = [setup::Scope::User, setup::Scope::Project];
    let all = Program::all().flat_map(|program| scopes.map(|scope| (program, scope)));
    let files = all
        .flat_map(|(program, scope)| program.files(scope, &places, &ours).into_iter().map(move |file| (program, file)));
    let found = files.filter_map(|(program, file)| {
        let text = fs::read_to_string(&file.path).ok()?;
        let gone = setup::binaries(&text).into_iter().find(|binary| !binary.exists())?;
        Some((program, file.path, gone))
    });
    found.collect()
}

fn places() -> Result<Places, Failure> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("HOME").ok_or_else(|| Failure::usage("HOME is not set, so the settings cannot be found."))?;
    let here = env::current_dir().map_err(|error| Failure::local("Cannot find the working directory", error))?;
    // A worktree and a submodule have a file there, which says where the repository is.
    let is_repository = |git: &Path| {
        git.join("HEAD").exists() || fs::read_to_string(git).is_ok_and(|text| text.starts_with("gitdir: "))
    };
    let repository = here.ancestors().find(|directory| is_repository(&directory.join(".git")));
    let project = repository.unwrap_or(&here).to_owned();
    let config = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    Ok(Places { claude: variable("CLAUDE_CONFIG_DIR"), codex: variable("CODEX_HOME"), config, home, project })
}
