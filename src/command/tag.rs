//! `teamwire tag`: shows and sets the tags of a member.

use clap::Args;
use teamwire_client::v1;

use super::{Output, id::find_member};
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// Show or set the tags of a member
///
/// A message to @TAG goes to all members that have the tag, and one to @any:TAG goes to one of them: `teamwire send @api
/// "The schema has changed"`. Tags belong to the member's name, and outlive restarts. New members can get tags at once,
/// with `teamwire spawn --tag`, `teamwire invite --tag`, or from a host's profile. Only the lead and the operator can set
/// tags.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire tag backend api database\n    teamwire tag backend --remove database\n    teamwire tag backend"
)]
pub(super) struct Tag {
    /// The member
    member: String,
    /// Tags to add
    #[arg(value_name = "TAG")]
    add: Vec<String>,
    /// A tag to remove; may be repeated
    #[arg(long, value_name = "TAG")]
    remove: Vec<String>,
    #[command(flatten)]
    pub output: Output,
}

impl Tag {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let member = if self.add.is_empty() && self.remove.is_empty() {
            find_member(&caller, &self.member).await?
        } else {
            let (add, remove) = (bare(&self.add), bare(&self.remove));
            let request = v1::SetTagsRequest { team: String::new(), member: self.member.clone(), add, remove };
            caller.client.set_tags(request).await?.member.ok_or_else(show::incomplete)?
        };
        if self.output.json {
            show::line(&show::json("Member", &member));
            return Ok(());
        }
        let name = show::paint(show::bold(), &member.name);
        match member.tags.as_slice() {
            [] => anstream::println!("{name} has no tags."),
            tags => anstream::println!("{name} has: {}.", tags.join(", ")),
        }
        Ok(())
    }
}

/// Returns tags without the @ that people may write, as they do in a recipient.
fn bare(tags: &[String]) -> Vec<String> {
    tags.iter().map(|tag| tag.strip_prefix('@').unwrap_or(tag).to_owned()).collect()
}
