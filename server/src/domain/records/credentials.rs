//! Join tokens, observers' credentials, and signing in to the console.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use teamwire_proto::{id::RequestId, name::Name};

use super::record_type::stored_as_json;
use crate::domain::{actor::Actor, secret::SecretHash};

/// A join token; id: its public part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JoinTokenRecord {
    /// The hash of its secret.
    pub secret: SecretHash,
    /// The one name that it may be used for.
    pub member: Option<Name>,
    /// How many joins are left.
    pub uses_left: u32,
    /// When it expires.
    pub expires_ms: u64,
    /// Members that join with it must have a plan approved before they may work on tasks.
    pub plan_mode_required: bool,
    /// Whether it admits hosts instead of teammates.
    pub is_for_host: bool,
    /// The tags that members get who join with it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<Name>,
    /// The order that it was issued for. It is valid as long as that order is pending.
    pub order: Option<RequestId>,
    /// When it was issued.
    pub created_ms: u64,
    /// Who issued it.
    pub created_by: Actor,
    /// When a member or a host last joined with it, if one has.
    pub last_used_ms: Option<u64>,
    /// Whether it was revoked.
    pub revoked: bool,
}

stored_as_json!(JoinTokenRecord, "token");

/// An observer's credential; id: its public part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObserverRecord {
    /// The hash of its secret.
    pub secret: SecretHash,
    /// When it expires.
    pub expires_ms: u64,
    /// When it was issued.
    pub created_ms: u64,
    /// Who issued it.
    pub created_by: Actor,
    /// When a call last presented it, give or take a minute, if one has.
    pub last_used_ms: Option<u64>,
    /// Whether it was revoked.
    pub revoked: bool,
}

stored_as_json!(ObserverRecord, "observer");

/// Whom a person that signs in acts for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActsFor {
    /// The operator. Such records are in the directory.
    Operator,
    /// A member.
    Member(Name),
    /// The observer's credential with this id.
    Observer(String),
}

impl ActsFor {
    /// Returns the id of its [`SignInsRecord`].
    pub fn key(&self) -> String {
        match self {
            Self::Operator => "operator".to_owned(),
            Self::Member(name) => format!("member/{}", name.folded()),
            Self::Observer(id) => format!("observer/{id}"),
        }
    }
}

/// What a person signs in for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignInPurpose {
    /// To use the console.
    #[default]
    Console,
    /// To give an agent program a member's tools.
    Tools {
        /// Whether a lead's tools are among them.
        leads: bool,
    },
}

/// A code for signing in; id: its public part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SignInCodeRecord {
    /// The hash of its secret.
    pub secret: SecretHash,
    /// Whom the console credential will act for.
    pub acts_for: ActsFor,
    /// The hash of the credential that created it. The sign-in is valid as long as that credential is.
    pub proof: SecretHash,
    /// Whether the console credential can only read.
    pub read_only: bool,
    /// What the console credential is for.
    pub purpose: SignInPurpose,
    /// When it expires.
    pub expires_ms: u64,
    /// Whether it was used.
    pub used: bool,
}

stored_as_json!(SignInCodeRecord, "code");

/// A console credential or a tool credential; id: its public part, which is that of its code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConsoleRecord {
    /// The hash of its secret.
    pub secret: SecretHash,
    /// Whom it acts for.
    pub acts_for: ActsFor,
    /// See [`SignInCodeRecord::proof`].
    pub proof: SecretHash,
    /// Whether it can only read.
    pub read_only: bool,
    /// What it is for.
    pub purpose: SignInPurpose,
    /// When the person signed in.
    pub created_ms: u64,
    /// When it expires. `None` if it ends with the life that it acts for.
    pub expires_ms: Option<u64>,
    /// When a call last presented it, give or take a minute, if one has.
    pub last_used_ms: Option<u64>,
    /// Whether it was revoked.
    pub revoked: bool,
}

stored_as_json!(ConsoleRecord, "console");

/// The codes and console credentials of a member, an observer or the operator, the oldest first; id: [`ActsFor::key`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SignInsRecord {
    /// The codes that were created last.
    pub codes: Vec<String>,
    /// The console credentials that were not revoked. Some may have expired.
    pub live: Vec<String>,
    /// The tool credentials that were not revoked. Some may belong to earlier lives.
    pub tools: Vec<String>,
    /// The console and tool credentials that were revoked last.
    pub revoked: Vec<String>,
}

stored_as_json!(SignInsRecord, "sign-ins");
