//! Names of teams and members, and the forms in which a recipient may be written.

use std::{fmt, hash};

use serde::{Deserialize, Serialize};

use crate::{Reason, Refusal};

/// The most characters that a name may have.
pub const NAME_CHARS_MAX: usize = 63;

/// The name under which a team's lead can always be addressed, whatever its own name.
pub const LEAD_ALIAS: &str = "team-lead";

/// Names that no member can bear: those of senders that are not members, and the lead's alias.
pub const RESERVED: [&str; 3] = ["operator", "coordinator", LEAD_ALIAS];

/// What no tag can be, so that `@any:TAG` is not mistaken for a tag, nor a tag for everyone.
const NO_TAGS: [&str; 2] = ["any", "all"];

/// The name of a team, a member or a tag: 1 to 63 characters, `[A-Za-z0-9][A-Za-z0-9._-]*`. Keeps how it was written.
/// Comparison is case-insensitive.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name {
    written: String,
    folded: String,
}

impl Name {
    /// Checks the text of a name that was given in the request's field `field`.
    pub fn parse(text: &str, field: &str) -> Result<Self, Refusal> {
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let goes_on_well = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if !starts_well || !goes_on_well || text.len() > NAME_CHARS_MAX {
            let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
            return Err(Refusal::new(
                Reason::InvalidName,
                format!(
                    "\"{shown}\" is not a name. Use 1 to {NAME_CHARS_MAX} letters, digits, '.', '_' or '-', beginning \
                     with a letter or a digit."
                ),
            )
            .field(field));
        }
        Ok(Self { written: text.to_owned(), folded: text.to_ascii_lowercase() })
    }

    /// Checks the text of a name that a member wants to bear.
    pub fn parse_member(text: &str, field: &str) -> Result<Self, Refusal> {
        let name = Self::parse(text, field)?;
        let addresses = match name.folded() {
            reserved if !RESERVED.contains(&reserved) => return Ok(name),
            LEAD_ALIAS => "always addresses the team's lead, whatever its name",
            _ => "is reserved for messages that no member sends",
        };
        let text = format!("No member can be named \"{name}\": it {addresses}. Choose another name.");
        Err(Refusal::new(Reason::InvalidName, text).field(field))
    }

    /// Checks the text of a tag.
    pub fn parse_tag(text: &str, field: &str) -> Result<Self, Refusal> {
        let tag = Self::parse(text, field)?;
        if !NO_TAGS.contains(&tag.folded()) {
            return Ok(tag);
        }
        let text = format!("\"{tag}\" cannot be a tag: a recipient could be misread. Choose another word.");
        Err(Refusal::new(Reason::InvalidName, text).field(field))
    }

    /// Returns the name as first written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns the form in which names are compared and stored as keys.
    pub fn folded(&self) -> &str {
        &self.folded
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.folded == other.folded
    }
}

impl Eq for Name {}

impl hash::Hash for Name {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.folded.hash(state);
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.folded.cmp(&other.folded)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl TryFrom<String> for Name {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        Self::parse(&text, "name")
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.written
    }
}

/// A recipient as it was written: `name` or `name@team`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The part before the `@`. May be [`LEAD_ALIAS`].
    pub member: Name,
    /// The part after it.
    pub team: Option<Name>,
}

impl Address {
    /// Checks the text of a recipient that was given in the request's field `field`.
    pub fn parse(text: &str, field: &str) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Err(Refusal::new(
                Reason::MissingRecipient,
                "A recipient is required. Name a member of your team, or `team-lead`.",
            )
            .field(field));
        }
        if text.starts_with('@') {
            let text = "Only a message can go to the members that have a tag. Name one member here.";
            return Err(Refusal::new(Reason::InvalidName, text).field(field));
        }
        let (member, team) = match text.split_once('@') {
            Some((member, team)) => (member, Some(Name::parse(team, field)?)),
            None => (text, None),
        };
        Ok(Self { member: Name::parse(member, field)?, team })
    }

    /// Returns whether the address means the lead, whatever the lead's name.
    pub fn is_lead_alias(&self) -> bool {
        self.member.folded() == LEAD_ALIAS
    }
}

/// Who a message goes to, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// `name`, `name@team` or `team-lead`.
    Member,
    /// `@TAG`: the members that have the tag.
    Tagged(Name),
    /// `@any:TAG`: one of them.
    AnyTagged(Name),
}

impl Recipient {
    /// Reads which form a message's recipient has, which was given in the request's field `field`. Does not check an
    /// [`Address`].
    pub fn parse(text: &str, field: &str) -> Result<Self, Refusal> {
        let Some(tag) = text.strip_prefix('@') else { return Ok(Self::Member) };
        match tag.split_once(':') {
            None => Ok(Self::Tagged(Name::parse_tag(tag, field)?)),
            Some((any, tag)) if any.eq_ignore_ascii_case("any") => Ok(Self::AnyTagged(Name::parse_tag(tag, field)?)),
            Some(_) => {
                let text = "Write @TAG for all members that have a tag, or @any:TAG for one of them.";
                Err(Refusal::new(Reason::InvalidName, text).field(field))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_case_insensitive_and_shown_as_written() {
        let name = Name::parse("Back-End.1", "name").expect("a name");
        assert_eq!(name, Name::parse("back-end.1", "name").expect("a name"));
        assert_eq!(name.as_str(), "Back-End.1");
    }

    #[test]
    fn an_invalid_name_is_refused_with_its_field() {
        for text in ["", ".a", "-a", "_a", "a b", "a/b", "a@b", "ä", "a\n", "a\0", &"a".repeat(64)] {
            let refusal = Name::parse(text, "recipient").expect_err(text);
            assert_eq!((refusal.reason, refusal.field.as_deref()), (Reason::InvalidName, Some("recipient")));
        }
        assert!(Name::parse(&"a".repeat(63), "name").is_ok());
    }

    #[test]
    fn a_member_cannot_have_a_reserved_name() {
        for name in ["Operator", "coordinator", "Team-Lead"] {
            assert_eq!(Name::parse_member(name, "name").expect_err("reserved").reason, Reason::InvalidName);
        }
        assert!(Name::parse_member("operators", "name").is_ok());
    }

    #[test]
    fn a_recipient_names_a_member_or_a_tag() {
        let tag = |text| Name::parse(text, "tag").expect("a tag");
        let parse = |text| Recipient::parse(text, "recipient");
        assert_eq!(parse("ann@team"), Ok(Recipient::Member));
        assert_eq!(parse("@API"), Ok(Recipient::Tagged(tag("api"))));
        assert_eq!(parse("@Any:api"), Ok(Recipient::AnyTagged(tag("api"))));
        for text in ["@", "@any", "@all", "@any:", "@any:any", "@some:api", "@a b", "@@api", "@any:a:b"] {
            assert_eq!(parse(text).expect_err(text).reason, Reason::InvalidName, "{text}");
        }
        let refusal = Address::parse("@api", "recipient").expect_err("no member");
        assert!(refusal.message.contains("Only a message"), "{refusal}");
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_refused(text in ".*") {
            match Name::parse(&text, "name") {
                Ok(name) => prop_assert!(
                    name.as_str() == text && name.as_str().bytes().all(|b| b.is_ascii_graphic())
                ),
                Err(refusal) => prop_assert_eq!(refusal.reason, Reason::InvalidName),
            }
            let _ = Address::parse(&text, "recipient");
        }
    }
}
