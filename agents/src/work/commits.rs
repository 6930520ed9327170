//! Makes commits, and changes refs.

use super::place::Place;

/// Who makes a commit, and when.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    name: String,
    email: String,
    /// The author, if that is someone else.
    author: Option<(String, String)>,
    date: Option<&'static str>,
}

impl Identity {
    /// Returns the one of teamwire.
    pub(super) fn own() -> Self {
        Self { name: "teamwire".to_owned(), email: "teamwire@localhost".to_owned(), author: None, date: None }
    }

    /// Returns the user's, if it is configured.
    pub(super) async fn users(place: &Place) -> Result<Self, String> {
        Ok(match (place.setting("user.name").await?, place.setting("user.email").await?) {
            (Some(name), Some(email)) => Self { name, email, ..Self::own() },
            _ => Self::own(),
        })
    }

    /// Names another author, written as `Name <address>`.
    pub(super) fn by(self, author: Option<&str>) -> Self {
        let author = author.map(|author| match author.split_once('<') {
            Some((name, email)) => (name.trim().to_owned(), email.trim_end().trim_end_matches('>').to_owned()),
            None => (author.trim().to_owned(), self.email.clone()),
        });
        Self { author, ..self }
    }

    /// Always takes the same time, so that the same files make the same commit.
    pub(super) fn at_the_epoch(self) -> Self {
        Self { date: Some("@0 +0000"), ..self }
    }
}

/// Makes a commit, without hooks and signatures. Returns its id.
pub(super) async fn commit_tree(
    place: &Place,
    tree: &str,
    parents: &[impl AsRef<str>],
    message: &str,
    who: &Identity,
) -> Result<String, String> {
    let mut arguments = vec!["commit-tree", tree];
    arguments.extend(parents.iter().flat_map(|parent| ["-p", parent.as_ref()]));
    let (author, email) = who.author.as_ref().map_or((&who.name, &who.email), |(name, email)| (name, email));
    let mut git = place
        .git()
        .with_setting("i18n.commitEncoding=UTF-8")
        .with_variable("GIT_AUTHOR_NAME", author)
        .with_variable("GIT_AUTHOR_EMAIL", email)
        .with_variable("GIT_COMMITTER_NAME", &who.name)
        .with_variable("GIT_COMMITTER_EMAIL", &who.email);
    if let Some(date) = who.date {
        git = git.with_variable("GIT_AUTHOR_DATE", date).with_variable("GIT_COMMITTER_DATE", date);
    }
    let id = place.named(&arguments, git.bytes(&arguments, message.as_bytes()).await)?;
    Ok(String::from_utf8_lossy(&id).trim().to_owned())
}

/// Changes refs, all or none, without logs.
pub(super) async fn update_refs(place: &Place, commands: &str) -> Result<(), String> {
    let update = ["update-ref", "--no-deref", "--stdin"];
    let git = place.git().with_setting("core.logAllRefUpdates=false");
    place.named(&update, git.bytes(&update, commands.as_bytes()).await).map(drop)
}
