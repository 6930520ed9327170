//! Hands an agent's session to a person at a terminal, and takes it back.
//!
//! The runner listens on a Unix socket of its user. A person's command connects and says who it is ([`Hello`]). The
//! runner ends the turn and its program, and answers with what to start instead ([`Answer::Ready`]). The session belongs
//! to that connection: when it closes, however that happens, the runner resumes the session. So a killed terminal gives
//! it back.

mod desk;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use self::desk::{Desk, Guest};

/// What a command says first, as a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Who wants the session: a name for people.
    pub holder: String,
    /// Whether to take it from another holder.
    pub steal: bool,
}

/// What the runner answers, as lines of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The session is not handed over, for this reason. The connection ends.
    Refused(String),
    /// What to start instead of the runner's program.
    Ready(Start),
    /// The session must be given back: end the program. The reason is for people.
    Over(String),
}

/// A program to start at the terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables to add to its environment.
    pub environment: Vec<(String, String)>,
    /// Its working directory.
    pub directory: PathBuf,
}

/// The variable that marks the processes of a person who has the session. Its value is random.
pub(crate) const MARK_VARIABLE: &str = "TEAMWIRE_ATTACHED";

/// How many characters the name of a socket has before its suffix.
const NAME_CHARS: usize = 32;

/// Returns the socket of a member's runner. `root`: the directory of all such sockets. `team_id`: the team's id.
pub fn socket(root: &Path, team_id: &str, member: &str) -> PathBuf {
    // A socket's path is short, and neither a team's id nor a name is.
    let name = blake3::hash(format!("{team_id}/{}", member.to_ascii_lowercase()).as_bytes()).to_hex();
    root.join(format!("{}.sock", &name[..NAME_CHARS]))
}
