//! `WorkStatus` and `WorkDiff`, and the lead's `WorkMerge`.

use std::{fmt::Write as _, io};

use rmcp::{handler::server::wrapper::Parameters, schemars::JsonSchema, tool, tool_router};
use serde::Deserialize;
use teamwire_client::v1;
use teamwire_proto::{
    v1::{MemberState, Role, WorkPart},
    word,
};

use super::{McpServer, text::failure};
use crate::{
    agent_text::escaped,
    work::{
        MemberWork, MergeOptions, Place, What, WorkError,
        merge::{CHECK_DEADLINE, Unmerged},
    },
};

/// How many bytes of a diff an agent gets at once.
const DIFF_BYTES_MAX: usize = 60 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct WorkStatus {
    /// Only this teammate. Default: all.
    #[serde(default)]
    member: String,
    /// Compare with this teammate's commits, or with this branch or commit. Default: the branch that the work began from.
    #[serde(default)]
    against: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct WorkDiff {
    /// The teammate.
    member: String,
    /// Only what this commit has, such as the one to review. Default: all, with changes that are not committed.
    #[serde(default)]
    commit: String,
    /// Only how many lines changed in which file.
    #[serde(default)]
    stat: bool,
    /// Where to go on reading, if an earlier answer says so.
    #[serde(default)]
    offset: usize,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct WorkMerge {
    /// The teammate.
    member: String,
    /// The branch to merge into. Default: the one that is checked out in your directory.
    #[serde(default)]
    into: String,
    /// Make one commit of its commits.
    #[serde(default)]
    squash: bool,
    /// A shell command that must succeed on the merged files, such as cargo test. Default: the repository's setting.
    #[serde(default)]
    check: String,
    /// Only up to this commit, such as one that was reviewed.
    #[serde(default)]
    commit: String,
}

#[tool_router(router = work_tools, vis = "pub(super)")]
impl McpServer {
    /// Show what teammates have changed in their git worktrees: branch, commits, files, and whether it would merge.
    /// As a teammate, you see your own work.
    #[tool(
        name = "WorkStatus",
        annotations(title = "Show what teammates changed", read_only_hint = true, open_world_hint = false)
    )]
    async fn work_status(&self, Parameters(status): Parameters<WorkStatus>) -> Result<String, String> {
        let place = self.place().await;
        let members = self.client.members().await.map_err(failure)?;
        let leads = self.leads().await;
        let is_asked = |member: &&v1::Member| match status.member.as_str() {
            "" if leads => member.role() != Role::Lead && member.state() != MemberState::Exited,
            "" => member.name.eq_ignore_ascii_case(&self.name),
            name => member.name.eq_ignore_ascii_case(name),
        };
        let typed = status.against.as_str();
        let against = MemberWork::against(&self.client, &members, place.as_ref(), typed).await.map_err(says)?;
        let mut lines = Vec::new();
        for member in members.iter().filter(is_asked) {
            let work = self.work_of(&member.name, place.as_ref()).summary(&against).await;
            let work = work.map_or_else(says, |work| word::work(&work));
            lines.push(format!("{}: {}", member.name, escaped(&work)));
        }
        match lines.is_empty() {
            true => Err("There is no such teammate. TeamStatus lists them.".to_owned()),
            false => Ok(lines.join("\n")),
        }
    }

    /// Read what a teammate has changed, as a diff. For the lead, and for a teammate that was asked to review the work.
    #[tool(name = "WorkDiff", annotations(title = "Read a diff", read_only_hint = true, open_world_hint = false))]
    async fn work_diff(&self, Parameters(diff): Parameters<WorkDiff>) -> Result<String, String> {
        let place = self.place().await;
        let part = if diff.stat { WorkPart::Stat } else { WorkPart::Diff };
        let what = What { part, commit: diff.commit.clone(), ..What::default() };
        let mut window = Window { skip: diff.offset, text: Vec::new(), bytes: 0 };
        self.work_of(&diff.member, place.as_ref()).write(&what, &mut window).await.map_err(says)?;
        let text = escaped(&String::from_utf8_lossy(&window.text));
        let end = diff.offset + window.text.len();
        Ok(match (window.bytes, end < window.bytes) {
            (0, _) => format!("{} has changed nothing.", diff.member),
            (bytes, true) => {
                format!("{text}\n[{end} of {bytes} bytes. To go on, call WorkDiff with \"offset\":{end}.]")
            }
            (_, false) => text,
        })
    }

    /// Merge a teammate's commits into a branch of the repository in your directory. If there are conflicts, nothing is
    /// merged, and the teammate gets a message with the paths. Changes that are not committed are not merged.
    #[tool(
        name = "WorkMerge",
        annotations(
            title = "Merge a teammate's work",
            read_only_hint = false,
            destructive_hint = false,
            open_world_hint = false
        )
    )]
    async fn work_merge(&self, Parameters(merge): Parameters<WorkMerge>) -> Result<String, String> {
        let place = Place::here().await.ok_or("Your directory is in no git repository.")?;
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let options = MergeOptions {
            into: given(&merge.into),
            squash: merge.squash,
            check: given(&merge.check),
            check_timeout: CHECK_DEADLINE,
            commit: merge.commit.clone(),
            tells_member: true,
        };
        let member = &merge.member;
        let report = self.work_of(member, Some(&place)).merge(&place, &options, |_| ()).await.map_err(says)?;
        let into = &report.into;
        match report.outcome {
            Ok(merged) if merged.was_merged_already => Ok(format!("{into} has all commits of {member} already.")),
            Ok(merged) => {
                let mut says = format!("Merged the work of {member} into {into}, at {}.", merged.commit);
                if report.work.uncommitted > 0 {
                    let files = word::count(report.work.uncommitted.into(), "file");
                    _ = write!(says, " {member} has not committed {files}, which are not merged.");
                }
                Ok(says)
            }
            Err(Unmerged::Conflicts(paths)) => Err(escaped(&format!(
                "Not merged: it conflicts with {into} in {}. {}",
                word::paths(&paths),
                if report.told_member { "The teammate got a message with the paths." } else { "Tell the teammate." }
            ))),
            Err(unmerged) => Err(escaped(&format!("Not merged. {unmerged}"))),
        }
    }

    /// Returns the repository of the process's directory, if the program shares it.
    async fn place(&self) -> Option<Place> {
        if self.over_http.is_some() { None } else { Place::here().await }
    }

    fn work_of<'a>(&'a self, member: &'a str, place: Option<&'a Place>) -> MemberWork<'a> {
        MemberWork { client: &self.client, member, place }
    }
}

fn says(error: WorkError) -> String {
    match error {
        WorkError::Call(error) => failure(error),
        WorkError::Here(why) => escaped(&why),
    }
}

/// Keeps a part of a text, and counts the rest.
struct Window {
    skip: usize,
    text: Vec<u8>,
    bytes: usize,
}

impl io::Write for Window {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let begin = self.skip.saturating_sub(self.bytes).min(data.len());
        let room = DIFF_BYTES_MAX - self.text.len();
        let end = data.len().min(begin + room);
        self.text.extend_from_slice(&data[begin..end]);
        self.bytes += data.len();
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
