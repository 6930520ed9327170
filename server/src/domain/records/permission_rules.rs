//! The permission rules of a team.

use serde::{Deserialize, Serialize};
use teamwire_proto::{name::Name, v1};

use super::record_type::stored_as_json;
use crate::domain::{actor::Actor, time::timestamp};

/// A team's permission rules. Id: "".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRulesRecord {
    /// The id of the rule that was added last. Ids are not used again.
    pub last_id: u64,
    /// The rules, in the order of their ids.
    pub rules: Vec<RuleRecord>,
}

stored_as_json!(PermissionRulesRecord, "permission-rules");

/// A permission rule. See `PermissionRule` of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRecord {
    /// Its id.
    pub id: u64,
    /// The member that it is for. `None` means every member.
    pub member: Option<Name>,
    /// The tool.
    pub tool: String,
    /// What the tool may be used for.
    pub extent: Extent,
    /// Who added it.
    pub added_by: Actor,
    /// When.
    pub added_ms: u64,
}

/// What a tool may be used for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// To run these words.
    Command(String),
    /// On this file, or on everything in this directory.
    Path(String),
    /// For anything that is neither.
    AnyUse,
}

impl RuleRecord {
    /// Makes the record of a rule that was checked.
    pub fn new(id: u64, rule: &v1::PermissionRule, added_by: Actor, added_ms: u64) -> Self {
        let extent = match (rule.command.as_str(), rule.path.as_str()) {
            ("", "") => Extent::AnyUse,
            ("", path) => Extent::Path(path.to_owned()),
            (command, _) => Extent::Command(command.to_owned()),
        };
        let member = Name::parse(&rule.member, "rule.member").ok();
        Self { id, member, tool: rule.tool.clone(), extent, added_by, added_ms }
    }

    /// Returns the protocol form.
    pub fn show(&self) -> v1::PermissionRule {
        let mut rule = v1::PermissionRule {
            id: self.id,
            member: self.member.as_ref().map(Name::to_string).unwrap_or_default(),
            tool: self.tool.clone(),
            added_by: Some((&self.added_by).into()),
            added_at: Some(timestamp(self.added_ms)),
            ..v1::PermissionRule::default()
        };
        match &self.extent {
            Extent::Command(command) => rule.command.clone_from(command),
            Extent::Path(path) => rule.path.clone_from(path),
            Extent::AnyUse => rule.any_use = true,
        }
        rule
    }

    /// Returns whether it permits the same as another rule.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.member, &self.tool, &self.extent) == (&other.member, &other.tool, &other.extent)
    }
}
