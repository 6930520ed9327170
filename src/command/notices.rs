//! `teamwire notices`: shows or sets which notices a member gets.

use clap::{Args, ValueEnum};
use teamwire_client::v1;
use teamwire_proto::v1::NoticeLevel;

use super::{Output, id::find_member};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::Failure,
    show,
};

/// Show or set which of the coordinator's notices you get
///
/// Without LEVEL, the command shows the current level. You get important notices at every level: for example, that a
/// member is lost, that a program crashed, or that a request expired. A notice that a member is idle, or that it exited
/// normally, is not important. While a notice is unprocessed, a newer one of the same kind about the same thing
/// replaces it, and its count covers both.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire notices important\n    teamwire notices digest --of backend")]
pub(super) struct Notices {
    /// The level to set
    #[arg(value_enum)]
    level: Option<Level>,
    /// Show or set another member's level (setting it: lead and operator only)
    #[arg(long, value_name = "MEMBER")]
    of: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    /// All notices
    All,
    /// Only important ones
    Important,
    /// Important ones at once, and the others together in one notice every few minutes
    Digest,
}

impl From<Level> for NoticeLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::All => Self::All,
            Level::Important => Self::Important,
            Level::Digest => Self::Digest,
        }
    }
}

impl Notices {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        if self.of.is_none() {
            caller.member()?;
        }
        let member = match self.level {
            Some(level) => self.set(&caller, level).await?,
            None => find_member(&caller, self.of.as_deref().map_or_else(|| caller.member(), Ok)?).await?,
        };
        if self.output.json {
            show::line(&show::json("Member", &member));
            return Ok(());
        }
        let gets = match member.notice_level() {
            NoticeLevel::Unspecified | NoticeLevel::All => "all notices",
            NoticeLevel::Important => "only important notices",
            NoticeLevel::Digest => "important notices at once and the others in a digest",
        };
        anstream::println!("{} gets {gets}.", show::paint(show::bold(), &member.name));
        Ok(())
    }

    async fn set(&self, caller: &Caller, level: Level) -> Result<v1::Member, Failure> {
        let request = v1::SetNoticeLevelRequest {
            member: self.of.clone().unwrap_or_default(),
            level: NoticeLevel::from(level).into(),
            ..v1::SetNoticeLevelRequest::default()
        };
        caller.client.set_notice_level(request).await?.member.ok_or_else(show::incomplete)
    }
}
