//! `teamwire work drop`.

use clap::Args;
use teamwire_agents::work::{Left, Place, salvage};
use teamwire_proto::{Reason, v1::MemberState};

use super::{failure, needed_here};
use crate::{
    command::{Output, confirm::Confirm},
    context::{ContextArgs, Who},
    failure::{Failure, REFUSED},
    show,
};

/// Remove the worktree and the branch of a member that has exited
///
/// First keeps everything in them, with files that are not committed, new files and commits that only the logs know, as a
/// commit, and prints its ref: `teamwire work restore REF` brings it back. Runs in the repository that the worktree
/// belongs to.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire work drop backend")]
pub(super) struct Drop {
    /// The member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// Also lose what cannot be kept: files that git ignores, repositories within the worktree, new files over 50 MiB
    #[arg(long)]
    discard: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Drop {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let member = &self.member;
        let place = needed_here(&format!("that the worktree of {member} belongs to")).await?;
        // Without a team, such as after `teamwire down`, none of its processes run.
        let known = match context.caller(Who::Current) {
            Ok(caller) => match caller.find_member(member).await {
                Err(Failure::Call(error)) if error.reason() == Some(Reason::TeamNotFound) => None,
                Err(failure) if failure.is_no_coordinator_here() => None,
                known => known?,
            },
            Err(_) => None,
        };
        if known.is_some_and(|known| known.state() != MemberState::Exited) {
            return Err(Failure::with_code(
                REFUSED,
                format!("{member} still works in its worktree. End it first: `teamwire shutdown {member} --wait`."),
            ));
        }
        let failed = |why: String| failure(why.into());
        let Some(left) = Left::find(&place, member).await.map_err(failed)? else {
            return Err(Failure::with_code(REFUSED, format!("{member} has left no branch in this repository.")));
        };
        let place_of =
            left.worktree.as_ref().map_or_else(String::new, |path| format!(" and the worktree {}", path.display()));
        let lost = left_out(&left).await.map_err(failed)?;
        if !lost.is_empty() && !self.discard {
            return Err(Failure::with_code(
                REFUSED,
                format!(
                    "The worktree has what cannot be kept: {}. Move what you need out of it, then add --discard.",
                    show::plain(&lost.join("; "))
                ),
            ));
        }
        self.confirm
            .ask(&format!("This removes the branch {}{place_of}, after keeping what is in them.", left.branch), "")?;
        let kept = keep(&place, &left, member).await.map_err(failed)?;
        left.remove().await.map_err(failed)?;
        match self.output.json {
            true => show::line(&serde_json::json!({"member": member, "branch": left.branch, "ref": kept})),
            false => anstream::println!("Removed. To bring it back: teamwire work restore {kept}"),
        }
        Ok(())
    }
}

/// Keeps what the member has left. Returns the ref that holds it.
async fn keep(place: &Place, left: &Left, member: &str) -> Result<String, String> {
    let why = "before it was dropped";
    if let Some(worktree) = &left.worktree
        && let Some(of) = Place::find(worktree).await?
    {
        let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
        if let Some(kept) = salvage::salvage(&of, member, why, &directory.path().join("index")).await? {
            return Ok(kept.reference);
        }
        // Nothing is new: the newest salvage has it, or the base branch.
        if let Some(newest) = salvage::list(place, Some(member)).await?.into_iter().next() {
            return Ok(newest.reference);
        }
    }
    salvage::keep_branch(place, member, &left.branch, why).await
}

/// Returns what is in the worktree and cannot be kept, in words.
async fn left_out(left: &Left) -> Result<Vec<String>, String> {
    let Some(worktree) = &left.worktree else { return Ok(Vec::new()) };
    let Some(of) = Place::find(worktree).await? else { return Ok(Vec::new()) };
    let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
    salvage::left_out(&of, &directory.path().join("index")).await
}
