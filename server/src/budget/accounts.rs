//! The accounts of all credentials.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use teamwire_proto::name::Name;

use super::{
    account::Account,
    bounds::{Class, Rates, Shares},
    shared::{Refusals, SharedBudget},
};
use crate::domain::{records::ActsFor, secret::SecretHash};

/// How many accounts are kept before those that nothing uses, and that have their whole burst, are dropped.
pub(super) const ACCOUNTS_MAX: usize = 16_384;

/// Whose budget it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccountKey {
    /// A member of a team. Each of its lives has its own credential, so a member could otherwise renew its budget by
    /// joining again.
    Member { team: Name, member: Name },
    /// Any other credential.
    Credential(SecretHash),
    /// The console credentials that act for the same one, and the codes for them. `team`: `None` for the operator.
    ConsolesOf { team: Option<Name>, identity: ActsFor },
    /// The clients of an address that have shown no valid credential.
    Strangers(IpAddr),
}

/// The accounts of all credentials.
#[derive(Debug)]
pub struct Budgets {
    shared: Arc<SharedBudget>,
    accounts: Mutex<HashMap<AccountKey, Arc<Account>>>,
}

impl Budgets {
    /// Makes the budgets of a coordinator, which count refusals into `refusals`.
    pub fn new(rates: Rates, shares: Shares, refusals: Refusals) -> Self {
        Self { shared: Arc::new(SharedBudget::new(rates, shares, refusals)), accounts: Mutex::default() }
    }

    /// Returns the account of a valid credential. `leads`: whether it is now a lead's or the operator's.
    pub fn account(&self, payer: AccountKey, leads: bool) -> Arc<Account> {
        let mut accounts = self.accounts.lock();
        if accounts.len() >= ACCOUNTS_MAX && !accounts.contains_key(&payer) {
            let now = self.shared.now();
            accounts.retain(|_, account| Arc::strong_count(account) > 1 || !account.is_whole(now));
        }
        let is_of_strangers = matches!(payer, AccountKey::Strangers(_));
        let open = || Arc::new(Account::new(Arc::clone(&self.shared), is_of_strangers));
        let account = accounts.entry(payer).or_insert_with(open);
        account.set_leads(leads);
        Arc::clone(account)
    }

    /// Returns how many accounts are kept.
    pub fn len(&self) -> usize {
        self.accounts.lock().len()
    }

    /// Returns whether no account is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts a connection that was closed because of a budget.
    pub fn count(&self, class: Class) {
        self.shared.count(class);
    }
}
