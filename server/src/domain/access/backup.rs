//! Who may back up the store.

use teamwire_proto::{Reason, Refusal, credential::Credential};

use crate::domain::{
    identity::{self, CallerCredentials},
    tx::{RuleError, Tx},
};

/// Refuses everyone but the operator. A person signed in as the operator is refused, too: a backup has what no page
/// shows, such as the hashes of all credentials.
pub fn may_back_up(tx: &mut Tx<'_>, who: &CallerCredentials) -> Result<(), RuleError> {
    identity::operator(tx, who)?;
    if matches!(who.credential, Credential::Operator { .. }) {
        return Ok(());
    }
    let text = "A console credential cannot make a backup. On the coordinator's machine, run `teamwire backup FILE`.";
    Err(Refusal::new(Reason::NotPermitted, text).into())
}
