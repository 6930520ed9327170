//! Decides whether a transaction can apply, and exactly what it will do, without changing anything.
//!
//! All transactions of a batch share one draft, which can only be discarded as a whole. So a transaction may write
//! nothing until it is certain that all of it will apply.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::{
    draft::Draft,
    tables::{self, DAY_MS, Result, Table},
};
use crate::store::{
    Bound, Check, Extent, Failed, Key, Namespace, Txn, WhenFull, Write,
    usage::{Growth, Usage, record_bytes},
};

/// The effect of a transaction on streams, after its checks passed.
#[derive(Default)]
pub(super) struct Plan<'t> {
    /// The sequence of each append; `None` if it is skipped.
    pub(super) appended: Vec<Option<u64>>,
    /// The entries that each removal will remove.
    pub(super) removed: Vec<Vec<u64>>,
    /// The resulting extents of the streams that change.
    pub(super) extents: HashMap<&'t str, Extent>,
    /// The resulting usage of the namespace.
    pub(super) usage: Usage,
}

/// Plans a transaction on a draft.
pub(super) fn plan<'t>(
    draft: &Draft<'_>,
    namespace: &Namespace,
    txn: &'t Txn,
    now_ms: u64,
) -> Result<std::result::Result<Plan<'t>, Failed>> {
    for check in &txn.checks {
        if let Some(failed) = failure(draft, namespace, check, now_ms)? {
            return Ok(Err(failed));
        }
    }
    let (growth, fresh, gone) = (Growth::default(), HashMap::new(), HashSet::new());
    let planned = Planner { draft, namespace, plan: Plan::default(), growth, fresh, gone }.run(&txn.writes)?;
    let before = draft.usage(namespace)?.on(now_ms / DAY_MS);
    Ok(planned.and_then(|(plan, growth)| {
        let usage = before.after(&growth);
        if txn.fits(before, usage) {
            Ok(Plan { usage, ..plan })
        } else {
            Err(Failed::OverQuota { held: before.bytes() })
        }
    }))
}

fn failure(draft: &Draft<'_>, namespace: &Namespace, check: &Check, now_ms: u64) -> Result<Option<Failed>> {
    Ok(match check {
        Check::Version { key, version } => {
            let current = draft.get(Table::Records, &tables::record(namespace, key.kind, &key.id))?;
            let found = match &current {
                Some(value) => Some(tables::split_number(value.bytes())?.0),
                None => None,
            };
            if found == *version {
                None
            } else {
                let current = current.map(|value| value.record()).transpose()?;
                Some(Failed::Version { key: key.clone(), current })
            }
        }
        Check::KeyUnused { key } => {
            // The clock never goes backwards, so there are no keys under a later day.
            let today = now_ms / DAY_MS;
            let mut used = None;
            for day in [today, today.saturating_sub(1)] {
                if let Some(value) = draft.get(Table::Replies, &tables::reply(day, namespace, key))? {
                    used = Some(Failed::KeyUsed { data: Bytes::copy_from_slice(value.bytes()) });
                    break;
                }
            }
            used
        }
        Check::Lease { name, alive } => {
            let until_ms = match draft.get(Table::Leases, &tables::named(namespace, name))? {
                Some(value) => tables::split_number(value.bytes())?.0,
                None => 0,
            };
            ((until_ms > now_ms) != *alive).then(|| Failed::Lease { name: name.clone() })
        }
    })
}

struct Planner<'t, 'a, 'v> {
    draft: &'a Draft<'v>,
    namespace: &'a Namespace,
    plan: Plan<'t>,
    growth: Growth<'t>,
    /// The weights and lengths of entries that this transaction appends.
    fresh: HashMap<(&'t str, u64), (u64, usize)>,
    /// The entries that this transaction removes.
    gone: HashSet<(&'t str, u64)>,
}

impl<'t> Planner<'t, '_, '_> {
    fn run(mut self, writes: &'t [Write]) -> Result<std::result::Result<(Plan<'t>, Growth<'t>), Failed>> {
        for write in writes {
            self.growth.write(write, |key| stored_bytes(self.draft, self.namespace, key))?;
            match write {
                Write::Append { stream, data, weight, bound } => {
                    let appended = match self.append(stream, *weight, data.len(), bound.as_ref())? {
                        Ok(appended) => appended,
                        Err(failed) => return Ok(Err(failed)),
                    };
                    self.plan.appended.push(appended);
                }
                Write::Remove { stream, sequences } => {
                    let removed = self.remove(stream, sequences)?;
                    self.plan.removed.push(removed);
                }
                Write::SkipTo { stream, next } => {
                    let extent = self.extent(stream)?;
                    self.plan.extents.insert(stream, Extent { next: extent.next.max(*next), ..extent });
                }
                _ => (),
            }
        }
        Ok(Ok((self.plan, self.growth)))
    }

    fn append(
        &mut self,
        stream: &'t str,
        weight: u64,
        length: usize,
        bound: Option<&Bound>,
    ) -> Result<std::result::Result<Option<u64>, Failed>> {
        let mut extent = self.extent(stream)?;
        if let Some(bound) = bound {
            let full = extent.entries >= bound.entries_max || extent.weight.saturating_add(weight) > bound.weight_max;
            if full {
                return Ok(match bound.when_full {
                    WhenFull::Refuse => Err(Failed::Full { stream: stream.to_owned() }),
                    WhenFull::Skip => Ok(None),
                });
            }
        }
        let sequence = extent.next;
        extent.next += 1;
        extent.entries += 1;
        extent.weight = extent.weight.saturating_add(weight);
        self.plan.extents.insert(stream, extent);
        self.fresh.insert((stream, sequence), (weight, length));
        self.growth.append(length);
        Ok(Ok(Some(sequence)))
    }

    fn remove(&mut self, stream: &'t str, sequences: &[u64]) -> Result<Vec<u64>> {
        let mut removed = Vec::with_capacity(sequences.len());
        let mut freed = 0_u64;
        for &sequence in sequences {
            let Some((weight, length)) = self.entry(stream, sequence)? else { continue };
            if self.gone.insert((stream, sequence)) {
                removed.push(sequence);
                self.growth.remove(length);
                freed = freed.saturating_add(weight);
            }
        }
        if !removed.is_empty() {
            let mut extent = self.extent(stream)?;
            extent.entries = extent.entries.saturating_sub(removed.len() as u64);
            extent.weight = extent.weight.saturating_sub(freed);
            self.plan.extents.insert(stream, extent);
        }
        Ok(removed)
    }

    fn extent(&self, stream: &'t str) -> Result<Extent> {
        match self.plan.extents.get(stream) {
            Some(extent) => Ok(*extent),
            None => self.draft.extent(self.namespace, stream),
        }
    }

    /// Returns the weight and the length of an entry.
    fn entry(&self, stream: &'t str, sequence: u64) -> Result<Option<(u64, usize)>> {
        if let Some(entry) = self.fresh.get(&(stream, sequence)) {
            return Ok(Some(*entry));
        }
        match self.draft.get(Table::Entries, &tables::entry(self.namespace, stream, sequence))? {
            Some(value) => {
                let (weight, data) = tables::split_number(value.bytes())?;
                Ok(Some((weight, data.len())))
            }
            None => Ok(None),
        }
    }
}

/// Returns what a stored record counts; zero if there is none.
fn stored_bytes(draft: &Draft<'_>, namespace: &Namespace, key: &Key) -> Result<u64> {
    match draft.get(Table::Records, &tables::record(namespace, key.kind, &key.id))? {
        Some(value) => Ok(record_bytes(&key.id, tables::split_number(value.bytes())?.1.len())),
        None => Ok(0),
    }
}
