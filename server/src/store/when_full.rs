//! Which transactions a full store still applies.

use super::{Check, Key, Txn, Write};

/// The most that a transaction may put into a full store if it removes nothing.
const PUT_WHEN_FULL_BYTES_MAX: usize = 16 * 1024;

impl Txn {
    /// Returns whether a full store still applies this transaction, so that members can continue to read, make room,
    /// and end what they began. Repeating such transactions cannot fill the store further. They are:
    /// - those that end a lease, drop the namespace or are marked with [`Txn::ends_something`], whatever else they
    ///   write, because each ends something once;
    /// - of those that neither append nor remember a reply, nor raise a sequence or the clock: those that remove or
    ///   delete something, those that renew a lease and put up to 16 KiB, and those that put up to 16 KiB and only
    ///   replace records whose versions they check.
    pub fn applies_when_full(&self) -> bool {
        let any = |is: fn(&Write) -> bool| self.writes.iter().any(is);
        if self.ends_something || any(|write| matches!(write, Write::EndLease { .. } | Write::DropNamespace)) {
            return true;
        }
        let grows = |write: &Write| {
            matches!(
                write,
                Write::Append { .. } | Write::SkipTo { .. } | Write::Raise { .. } | Write::RememberReply { .. }
            )
        };
        if any(grows) {
            return false;
        }
        any(|write| matches!(write, Write::Remove { .. } | Write::Delete { .. })) || self.puts_little()
    }

    /// Returns whether the transaction changes nothing but leases.
    pub(super) fn changes_leases_only(&self) -> bool {
        self.writes
            .iter()
            .all(|write| matches!(write, Write::Lease { .. } | Write::EndLease { .. } | Write::Notify { .. }))
    }

    fn puts_little(&self) -> bool {
        let renews = self.writes.iter().any(|write| matches!(write, Write::Lease { .. }));
        let replaces = |key: &Key| {
            self.checks.iter().any(|check| matches!(check, Check::Version { key: of, version: Some(_) } if of == key))
        };
        let mut bytes = 0;
        for write in &self.writes {
            let Write::Put { key, data } = write else { continue };
            bytes += data.len();
            if bytes > PUT_WHEN_FULL_BYTES_MAX || !(renews || replaces(key)) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::conformance::{append, delete, put, remember, remove};

    #[test]
    fn transactions_that_cannot_fill_a_full_store_are_recognized() {
        let key = Key::new("member", "x");
        let applies =
            |checks: &[Check], writes| Txn { checks: checks.to_vec(), writes, ..Txn::default() }.applies_when_full();
        let current = [Check::Version { key: key.clone(), version: Some(7) }];
        let absent = [Check::Version { key: key.clone(), version: None }];
        let lease = || Write::Lease { name: "l".to_owned(), ttl: Duration::ZERO };
        let end = || Write::EndLease { name: "l".to_owned() };
        let long: &'static str = "x".repeat(PUT_WHEN_FULL_BYTES_MAX + 1).leak();

        assert!(applies(&[], vec![]));
        assert!(applies(&[], vec![remove("s", &[1]), put(&key, "receipt")]));
        assert!(applies(&[], vec![delete(&key)]));
        assert!(applies(&[], vec![Write::DropNamespace]));
        assert!(applies(&[], vec![lease()]));
        assert!(applies(&absent, vec![put(&key, "session"), lease()]));
        assert!(applies(&current, vec![put(&key, "cursor")]));
        assert!(applies(&[], vec![put(&key, long), append("history", "left"), end()]));

        assert!(
            Txn { writes: vec![append("history", "stopped")], ends_something: true, ..Txn::default() }
                .applies_when_full()
        );

        assert!(!applies(&[], vec![put(&key, "")]));
        assert!(!applies(&absent, vec![put(&key, "")]));
        assert!(!applies(&current, vec![put(&Key::new("member", "y"), "")]));
        assert!(!applies(&current, vec![put(&key, long)]));
        assert!(!applies(&[], vec![put(&key, long), lease()]));
        assert!(!applies(&[], vec![append("s", ""), lease()]));
        assert!(!applies(&[], vec![remove("s", &[1]), append("s", "")]));
        assert!(!applies(&[], vec![remove("s", &[1]), remember("k", "")]));
    }
}
