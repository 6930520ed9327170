//! What a program's own session needs to continue: in another incarnation, and under another runner of the same member.
//!
//! A runner that is killed leaves a file, so that its successor resumes the session. It does so only for the same
//! member, program and directory, and only if the member was not ended in between. A member that has ended leaves no
//! file.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use teamwire_proto::v1;

use super::Incarnation;
use crate::config::{Mode, RunnerConfig};

/// The program's own session, as one process of the program leaves it to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProgramSession {
    /// Its id. `None` if there is none yet.
    pub(crate) id: Option<String>,
    /// `true` if the program has processed its first prompt, so that no later process of it gets that again.
    pub(crate) is_begun: bool,
    /// How many processes in a row were killed before they had resumed it.
    #[serde(default)]
    pub(crate) kills: u32,
    /// What the session has used, over all processes of the program.
    pub(crate) usage: v1::Usage,
}

/// The file of a member.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    address: String,
    team_id: String,
    incarnation: u64,
    command: Vec<String>,
    directory: PathBuf,
    /// The first prompt.
    prompt: String,
    session: ProgramSession,
    /// What the member has used in all of its lives. The coordinator may not know all of it yet.
    total_usage: v1::Usage,
}

impl Kept {
    fn new(config: &RunnerConfig, joined: &v1::JoinResponse, session: ProgramSession, total_usage: v1::Usage) -> Self {
        Self {
            address: config.address.clone(),
            team_id: joined.team.as_ref().map(|team| team.id.clone()).unwrap_or_default(),
            incarnation: joined.member.as_ref().map_or(0, |member| member.incarnation),
            command: config.command.iter().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            directory: config.working_directory(),
            prompt: config.agent.prompt.clone(),
            session,
            total_usage,
        }
    }

    /// Returns what the member has used, and the coordinator did not know when the member joined again. Zero if another
    /// runner came between: this one does not know what that has used.
    fn unreported(&self, joined: &v1::JoinResponse) -> v1::Usage {
        let is_same_team = joined.team.as_ref().is_some_and(|team| team.id == self.team_id);
        let is_next = |member: &&v1::Member| member.incarnation == self.incarnation + 1 && is_same_team;
        let member = joined.member.as_ref().filter(is_next);
        let known = |member: &v1::Member| member.total_usage.unwrap_or_default();
        member.map(|member| self.total_usage.since(known(member))).unwrap_or_default()
    }

    /// Returns the session that a later incarnation resumes. `None` if it belongs to another member, or to another
    /// program.
    fn session_for(self, later: &Self) -> Option<ProgramSession> {
        let is_same = self.session.id.is_some()
            && self.address == later.address
            && self.team_id == later.team_id
            && self.incarnation < later.incarnation
            && self.command == later.command
            && self.directory == later.directory;
        let is_begun = self.session.is_begun && self.prompt == later.prompt;
        is_same.then_some(ProgramSession { is_begun, ..self.session })
    }
}

impl ProgramSession {
    /// Returns the session that an earlier runner of the member has left. Without one, an empty session.
    pub(crate) fn left(config: &RunnerConfig, joined: &v1::JoinResponse) -> Self {
        if config.agent.starts_session {
            return Self::default();
        }
        let kept = path(config, joined).and_then(|path| read(&path));
        let later = Kept::new(config, joined, Self::default(), v1::Usage::default());
        kept.and_then(|kept| kept.session_for(&later)).unwrap_or_default()
    }

    /// Removes what a later runner of the member would resume.
    pub(crate) fn forget(config: &RunnerConfig, joined: &v1::JoinResponse) {
        let Some(path) = path(config, joined) else { return };
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the program's session is not forgotten");
        }
        // The directory stays as long as another member has a file there.
        _ = path.parent().map(fs::remove_dir);
    }
}

impl Incarnation<'_> {
    /// Reports what the runner of the life before has left unreported.
    pub(super) fn take_over_usage(&mut self) {
        let kept = path(self.config, &self.joined).and_then(|path| read(&path));
        let kept = kept.filter(|kept| kept.address == self.config.address);
        let left = kept.map(|kept| kept.unreported(&self.joined)).unwrap_or_default();
        if !left.is_none() {
            self.report_left_usage(left);
            // This runner may be killed as well, before the report arrives.
            self.keep_program_session();
        }
    }

    /// Keeps the program's session for a later runner of the member.
    pub(crate) fn keep_program_session(&self) {
        if let (Some(telemetry), Some(id)) = (&self.telemetry, &self.carried.session.id) {
            telemetry.conversation(id);
        }
        let Some(path) = path(self.config, &self.joined) else { return };
        let kept = Kept::new(self.config, &self.joined, self.carried.session.clone(), self.total_usage());
        // A runner that another one has replaced must not bring its session back.
        let is_replaced =
            read(&path).is_some_and(|other| other.address == kept.address && other.incarnation > kept.incarnation);
        if !is_replaced && let Err(error) = write(&path, &kept) {
            tracing::warn!(%error, "the program's session is not kept, so a later runner will not resume it");
        }
    }
}

/// Returns the file of a member. `None` if no session is kept.
fn path(config: &RunnerConfig, joined: &v1::JoinResponse) -> Option<PathBuf> {
    let directory = config.agent.sessions.as_ref().filter(|_| matches!(config.mode, Mode::Agent(_)))?;
    let (team, member) = (joined.team.as_ref()?, joined.member.as_ref()?);
    Some(directory.join(format!("{}@{}.json", member.name, team.name).to_ascii_lowercase()))
}

/// Reads a file. `None` if it is missing or damaged.
fn read(path: &Path) -> Option<Kept> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Replaces a file as a whole. Only its owner has access.
fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(Path::new(".")))?;
    let new = path.with_extension("new");
    let mut file = fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(kept)?)?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_incarnation_with_the_same_program_and_directory_resumes() {
        let session = ProgramSession { id: Some("s".to_owned()), is_begun: true, ..ProgramSession::default() };
        let kept = |incarnation, change: fn(&mut Kept)| {
            let mut kept = Kept {
                address: "http://a".to_owned(),
                team_id: "t".to_owned(),
                incarnation,
                command: vec!["claude".to_owned()],
                directory: "/work".into(),
                prompt: "begin".to_owned(),
                session: session.clone(),
                total_usage: v1::Usage::default(),
            };
            change(&mut kept);
            kept
        };
        let resumed = |later: Kept| kept(2, |_| {}).session_for(&later);
        assert_eq!(resumed(kept(3, |_| {})), Some(session.clone()));
        assert_eq!(resumed(kept(1, |_| {})), None, "the team was created again");
        assert_eq!(resumed(kept(3, |later| later.address = "http://b".to_owned())), None);
        assert_eq!(resumed(kept(3, |later| later.team_id = "u".to_owned())), None);
        assert_eq!(resumed(kept(3, |later| later.command.push("--model".to_owned()))), None);
        assert_eq!(resumed(kept(3, |later| later.directory = "/other".into())), None);
        let prompted = resumed(kept(3, |later| later.prompt = "another".to_owned())).expect("resumed");
        assert!(!prompted.is_begun, "a new prompt is handed over");
    }

    #[test]
    fn a_later_life_reports_what_its_coordinator_does_not_know() {
        let used = |input_tokens| v1::Usage { input_tokens, ..v1::Usage::default() };
        let joined = |incarnation, known| v1::JoinResponse {
            member: Some(v1::Member { incarnation, total_usage: known, ..v1::Member::default() }),
            team: Some(v1::Team { id: "t".to_owned(), ..v1::Team::default() }),
            ..v1::JoinResponse::default()
        };
        let kept = Kept {
            address: String::new(),
            team_id: "t".to_owned(),
            incarnation: 2,
            command: Vec::new(),
            directory: PathBuf::new(),
            prompt: String::new(),
            session: ProgramSession::default(),
            total_usage: used(30),
        };
        assert_eq!(kept.unreported(&joined(3, None)), used(30));
        assert_eq!(kept.unreported(&joined(3, Some(used(10)))), used(20));
        assert_eq!(kept.unreported(&joined(3, Some(used(30)))), used(0));
        assert_eq!(kept.unreported(&joined(4, Some(used(10)))), used(0), "another life came between");
        let other = v1::Team { id: "u".to_owned(), ..v1::Team::default() };
        let again = v1::JoinResponse { team: Some(other), ..joined(3, None) };
        assert_eq!(kept.unreported(&again), used(0), "the team was created again");
    }
}
