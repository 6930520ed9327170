//! Applies a planned transaction.

use super::{
    draft::Draft,
    plan::Plan,
    tables::{self, DAY_MS, Table},
};
use crate::store::{Namespace, Txn, Write};

/// Applies every write of a transaction to a draft, in order, except that of dropping the namespace.
pub(super) fn apply(
    draft: &mut Draft<'_>,
    namespace: &Namespace,
    txn: &Txn,
    plan: &Plan<'_>,
    version: u64,
    now_ms: u64,
) {
    let mut appended = plan.appended.iter();
    let mut removed = plan.removed.iter();
    for (stream, extent) in &plan.extents {
        draft.set_extent(namespace, stream, *extent);
    }
    draft.set_usage(namespace, plan.usage);
    for write in &txn.writes {
        match write {
            Write::Put { key, data } => {
                let value = tables::numbered(version, data);
                draft.put(Table::Records, &tables::record(namespace, key.kind, &key.id), value);
            }
            Write::Delete { key } => {
                draft.remove(Table::Records, &tables::record(namespace, key.kind, &key.id));
            }
            Write::Append { stream, data, weight, .. } => {
                if let Some(sequence) = appended.next().copied().flatten() {
                    let value = tables::numbered(*weight, data);
                    draft.put(Table::Entries, &tables::entry(namespace, stream, sequence), value);
                }
            }
            Write::Remove { stream, .. } => {
                for &sequence in removed.next().into_iter().flatten() {
                    draft.remove(Table::Entries, &tables::entry(namespace, stream, sequence));
                }
            }
            Write::RememberReply { key, data } => {
                draft.put(Table::Replies, &tables::reply(now_ms / DAY_MS, namespace, key), data.to_vec());
            }
            Write::Lease { name, ttl } => {
                let until_ms = now_ms.saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
                draft.put(Table::Leases, &tables::named(namespace, name), tables::joined([until_ms]));
            }
            Write::EndLease { name } => draft.remove(Table::Leases, &tables::named(namespace, name)),
            // The plan has raised the extent, the writer raises the version and the clock, and the checkpointer drops
            // the namespace.
            Write::Notify { .. } | Write::SkipTo { .. } | Write::Raise { .. } | Write::DropNamespace => (),
        }
    }
}
