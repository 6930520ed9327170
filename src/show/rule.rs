//! Permission rules.

use teamwire_proto::{
    permission_rule::{extent, sentence},
    v1,
};

use super::{one_line, table};

/// Says in one sentence what a rule permits.
pub(crate) fn rule_sentence(rule: &v1::PermissionRule) -> String {
    one_line(&sentence(rule))
}

/// Prints a table of rules.
pub(crate) fn rules(rules: &[v1::PermissionRule]) {
    let rows = rules.iter().map(|rule| {
        vec![
            rule.id.to_string(),
            if rule.member.is_empty() { "(every member)".to_owned() } else { rule.member.clone() },
            one_line(&rule.tool),
            rule.added_by.as_ref().map_or("?", |by| by.name.as_str()).to_owned(),
            one_line(&extent(rule)),
        ]
    });
    table(&["rule", "member", "tool", "added by", "permits it"], rows.collect());
}
