//! Applies a planned transaction.

use std::ops::ControlFlow;

use redb::ReadableTable;

use super::{
    plan::Plan,
    tables::{self, DAY_MS, Open, Result, Tables},
};
use crate::store::{Namespace, Txn, Write};

/// Applies every write of a transaction, in order.
pub(super) fn apply(
    tables: &mut Tables<'_>,
    namespace: &Namespace,
    txn: &Txn,
    plan: &Plan<'_>,
    version: u64,
    now_ms: u64,
) -> Result<()> {
    let mut appended = plan.appended.iter();
    let mut removed = plan.removed.iter();
    for (stream, extent) in &plan.extents {
        tables.set_extent(namespace, stream, *extent);
    }
    tables.set_usage(namespace, plan.usage);
    for write in &txn.writes {
        match write {
            Write::Put { key, data } => {
                let value = tables::numbered(version, data);
                tables.records.insert(tables::record(namespace, key.kind, &key.id).as_slice(), value.as_slice())?;
            }
            Write::Delete { key } => {
                tables.records.remove(tables::record(namespace, key.kind, &key.id).as_slice())?;
            }
            Write::Append { stream, data, weight, .. } => {
                if let Some(sequence) = appended.next().copied().flatten() {
                    let value = tables::numbered(*weight, data);
                    tables.entries.insert(tables::entry(namespace, stream, sequence).as_slice(), value.as_slice())?;
                }
            }
            Write::Remove { stream, .. } => {
                for &sequence in removed.next().into_iter().flatten() {
                    tables.entries.remove(tables::entry(namespace, stream, sequence).as_slice())?;
                }
            }
            Write::RememberReply { key, data } => {
                tables.replies.insert(tables::reply(now_ms / DAY_MS, namespace, key).as_slice(), data.as_ref())?;
            }
            Write::Lease { name, ttl } => {
                let until_ms = now_ms.saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
                let value = until_ms.to_be_bytes();
                tables.leases.insert(tables::named(namespace, name).as_slice(), value.as_slice())?;
            }
            Write::EndLease { name } => {
                tables.leases.remove(tables::named(namespace, name).as_slice())?;
            }
            Write::DropNamespace => drop_namespace(tables, namespace)?,
            // The plan has raised the extent, and the writer raises the version and the clock.
            Write::Notify { .. } | Write::SkipTo { .. } | Write::Raise { .. } => (),
        }
    }
    Ok(())
}

fn drop_namespace(tables: &mut Tables<'_>, namespace: &Namespace) -> Result<()> {
    let prefix = tables::prefix(namespace);
    tables.clear_namespace(&prefix)?;
    let mut day = 0;
    while let Some(found) = first_day_from(&tables.replies, day)? {
        tables::clear(&mut tables.replies, &tables::reply(found, namespace, ""))?;
        day = found + 1;
    }
    Ok(())
}

fn first_day_from(replies: &Open<'_>, day: u64) -> Result<Option<u64>> {
    let from = day.to_be_bytes();
    match replies.range(from.as_slice()..)?.next() {
        Some(entry) => Ok(Some(tables::split_number(entry?.0.value())?.0)),
        None => Ok(None),
    }
}

/// Removes up to `limit` expired idempotency keys. Breaks when none are left.
pub(super) fn purge_replies(replies: &mut Open<'_>, now_ms: u64, limit: usize) -> Result<ControlFlow<()>> {
    let yesterday = (now_ms / DAY_MS).saturating_sub(1).to_be_bytes();
    let mut purged = 0;
    for entry in replies.extract_from_if(..yesterday.as_slice(), |_, _| true)?.take(limit) {
        entry?;
        purged += 1;
    }
    Ok(if purged < limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}
