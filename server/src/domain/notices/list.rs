//! The list of a member's notices, which is bounded.

use std::collections::BTreeMap;

use teamwire_proto::{
    name::Name,
    v1::{self, DeadLetterCause, NoticeKind},
};

use crate::domain::{
    inbox::{Leaving, remove_from_inbox},
    records::{DueNoticesRecord, MemberRecord, NoticeSlot, NoticesRecord, ReceiptRecord, receipt_id},
    tx::{RuleError, Tx},
};

/// How many of the oldest slots each use of the list examines, so that processed notices leave it.
const EXAMINED: usize = 4;

/// Requires what the lists of several members need, all at once: each record that is missing makes the rule run again.
pub(super) fn prefetch(tx: &mut Tx<'_>, members: &[&MemberRecord]) -> Result<(), RuleError> {
    if members.len() < 2 {
        return Ok(());
    }
    tx.want::<NoticesRecord>(members.iter().map(|member| member.name.folded().to_owned()))?;
    let mut receipts = Vec::new();
    for member in members {
        let record = tx.read::<NoticesRecord>(member.name.folded())?;
        let slots = record.iter().flat_map(|record| record.slots.iter().take(EXAMINED + 1));
        receipts.extend(slots.filter_map(|slot| receipt_of(slot, &member.name)));
    }
    tx.want::<ReceiptRecord>(receipts)
}

/// The notices of a member that is being changed.
pub(super) struct NoticeList {
    member: Name,
    slots: Vec<NoticeSlot>,
    /// When the first waiting notice was due as the list was loaded.
    due_ms: Option<u64>,
}

impl NoticeList {
    pub(super) fn load(tx: &mut Tx<'_>, member: &Name) -> Result<Self, RuleError> {
        let slots = tx.read::<NoticesRecord>(member.folded())?.map_or_else(Vec::new, |record| record.slots.clone());
        let due_ms = first_due(&slots);
        Ok(Self { member: member.clone(), slots, due_ms })
    }

    /// Takes the slot of a kind and thing out of the list. Its `sent` is a notice that is unprocessed.
    pub(super) fn take(&mut self, tx: &mut Tx<'_>, kind: i32, about: &str) -> Result<NoticeSlot, RuleError> {
        let place = self.slots.iter().position(|slot| slot.kind == kind && slot.about == about);
        let mut slot = match place {
            Some(place) => self.slots.remove(place),
            None => NoticeSlot { kind, about: about.to_owned(), ..NoticeSlot::default() },
        };
        let oldest = self.slots.len().min(EXAMINED);
        let examined = self.slots[..oldest].iter().chain([&slot]);
        tx.want::<ReceiptRecord>(examined.filter_map(|slot| receipt_of(slot, &self.member)))?;
        self.drop_processed(tx, oldest)?;
        // The commit checks that the notice is still unprocessed.
        if let Some(receipt) = receipt_of(&slot, &self.member)
            && tx.read::<ReceiptRecord>(&receipt)?.is_some()
        {
            slot.sent = None;
        }
        Ok(slot)
    }

    /// Adds a slot as the one that was last used.
    pub(super) fn put_back(&mut self, slot: NoticeSlot) {
        self.slots.push(slot);
    }

    /// Returns the kinds and things of up to `limit` notices that have waited until `now_ms`.
    pub(super) fn due(&self, now_ms: u64, limit: usize) -> Vec<(i32, String)> {
        let is_due = |slot: &&NoticeSlot| slot.waiting.as_ref().is_some_and(|waiting| waiting.due_ms <= now_ms);
        self.slots.iter().filter(is_due).take(limit).map(|slot| (slot.kind, slot.about.clone())).collect()
    }

    /// Deletes the notice of a kind and thing that waits, if there is one.
    pub(super) fn drop_waiting(&mut self, tx: &mut Tx<'_>, kind: NoticeKind, about: &str) {
        let slot = self.slots.iter_mut().find(|slot| slot.kind == i32::from(kind) && slot.about == about);
        if let Some(waiting) = slot.and_then(|slot| slot.waiting.take()) {
            tx.delete::<v1::Message>(&waiting.message_id.to_string());
        }
    }

    /// Empties the list.
    pub(super) fn clear(&mut self, tx: &mut Tx<'_>) {
        for waiting in self.slots.drain(..).filter_map(|slot| slot.waiting) {
            tx.delete::<v1::Message>(&waiting.message_id.to_string());
        }
    }

    /// Stores the list, after it has made room for what was added.
    pub(super) fn save(mut self, tx: &mut Tx<'_>) -> Result<(), RuleError> {
        self.slots.retain(|slot| slot.sent.is_some() || slot.waiting.is_some());
        self.make_room(tx)?;
        let due_ms = first_due(&self.slots);
        if due_ms != self.due_ms {
            let due = tx.read::<DueNoticesRecord>("")?;
            let mut due = due.as_deref().cloned().unwrap_or_default();
            match due_ms {
                Some(due_ms) => due.due_ms.insert(self.member.folded().to_owned(), due_ms),
                None => due.due_ms.remove(self.member.folded()),
            };
            tx.put("", &due);
        }
        match self.slots.is_empty() {
            true => tx.delete::<NoticesRecord>(self.member.folded()),
            false => tx.put(self.member.folded(), &NoticesRecord { slots: self.slots }),
        }
        Ok(())
    }

    /// Drops slots beyond the bound: those of processed notices, then unimportant ones, then the oldest of the kind that
    /// has the most, so that a flood of one kind pushes out no other. A notice that was in the inbox is only in the
    /// history then.
    fn make_room(&mut self, tx: &mut Tx<'_>) -> Result<(), RuleError> {
        let slots_max = tx.ctx.limits.inbox_notices_max;
        if self.slots.len() <= slots_max {
            return Ok(());
        }
        // The last one is new.
        let last = self.slots.len() - 1;
        tx.want::<ReceiptRecord>(self.slots[..last].iter().filter_map(|slot| receipt_of(slot, &self.member)))?;
        self.drop_processed(tx, last)?;
        while self.slots.len() > slots_max {
            let slot = self.slots.remove(self.first_to_drop());
            if let Some(sent) = slot.sent
                && let Some(sequence) = tx.place_in_inbox(&self.member, sent.message_id)?
            {
                let leaving = Leaving::withdrawn(sequence, sent.message_id);
                remove_from_inbox(tx, &self.member, &[leaving], Some(DeadLetterCause::InboxFull));
            }
            if let Some(waiting) = slot.waiting {
                tx.delete::<v1::Message>(&waiting.message_id.to_string());
            }
        }
        Ok(())
    }

    /// Returns the place of the slot that makes room for the last one.
    fn first_to_drop(&self) -> usize {
        let (_, before) = self.slots.split_last().expect("more slots than the bound");
        let has_unimportant = before.iter().any(|slot| !slot.important);
        let may_go = |slot: &&NoticeSlot| !has_unimportant || !slot.important;
        let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
        before.iter().filter(may_go).for_each(|slot| *counts.entry(slot.kind).or_default() += 1);
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(kind, _)| kind);
        before.iter().position(|slot| may_go(&slot) && Some(slot.kind) == most).unwrap_or(0)
    }

    /// Drops processed notices from the first `count` slots. Their receipts must be loaded; a receipt never goes away
    /// while this matters, so the commit need not check them.
    fn drop_processed(&mut self, tx: &Tx<'_>, count: usize) -> Result<(), RuleError> {
        for slot in &mut self.slots[..count] {
            if let Some(receipt) = receipt_of(slot, &self.member)
                && tx.peek::<ReceiptRecord>(&receipt)?.is_some()
            {
                slot.sent = None;
            }
        }
        self.slots.retain(|slot| slot.sent.is_some() || slot.waiting.is_some());
        Ok(())
    }
}

fn first_due(slots: &[NoticeSlot]) -> Option<u64> {
    slots.iter().filter_map(|slot| slot.waiting.as_ref()).map(|waiting| waiting.due_ms).min()
}

fn receipt_of(slot: &NoticeSlot, member: &Name) -> Option<String> {
    slot.sent.as_ref().map(|sent| receipt_id(sent.message_id, member))
}
