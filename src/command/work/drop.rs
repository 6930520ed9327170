//! `teamwire work drop`.

use clap::Args;
use teamwire_agents::work::{Left, Place, salvage};
use teamwire_proto::v1::MemberState;

use super::needed_here;
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
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Drop {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let member = &self.member;
        let place = needed_here(&format!("that the worktree of {member} belongs to")).await?;
        // Without a team, such as after `teamwire down`, nothing of it runs.
        if let Ok(caller) = context.caller(Who::Current)
            && let Ok(Some(known)) = caller.find_member(member).await
            && known.state() != MemberState::Exited
        {
            return Err(Failure::with_code(
                REFUSED,
                format!("{member} still works in its worktree. End it first: `teamwire shutdown {member} --wait`."),
            ));
        }
        let failed = |why: String| Failure::with_code(REFUSED, show::plain(&why));
        let Some(left) = Left::find(&place, member).await.map_err(failed)? else {
            return Err(Failure::with_code(REFUSED, format!("{member} has left no branch in this repository.")));
        };
        let place_of =
            left.worktree.as_ref().map_or_else(String::new, |path| format!(" and the worktree {}", path.display()));
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
    let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
    let index = directory.path().join("index");
    if let Some(worktree) = &left.worktree
        && let Some(of) = Place::find(worktree).await?
    {
        let kept = salvage::salvage(&of, member, "before it was dropped", &index).await?;
        if let Some(kept) = &kept
            && let [first, ..] = kept.left_out.as_slice()
        {
            return Err(format!(
                "{} has what cannot be kept: {first}. Move it out of there, or remove the worktree with git.",
                worktree.display()
            ));
        }
        if let Some(kept) = kept {
            return Ok(kept.reference);
        }
    } else {
        return salvage::keep_branch(place, member, &left.branch, "before it was dropped").await;
    }
    // Nothing is new: the newest salvage has it, or the base branch.
    let newest = salvage::list(place, Some(member)).await?.into_iter().next();
    match newest {
        Some(newest) => Ok(newest.reference),
        None => salvage::keep_branch(place, member, &left.branch, "before it was dropped").await,
    }
}
