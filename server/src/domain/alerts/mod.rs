//! Alerts: what people are notified of while they are away, and when.
//!
//! In the configuration and the documentation they are called notifications; in the code, a notification is what a
//! store sends to coordinators, and a notice is what a coordinator sends to members.
//!
//! The operator's configuration has [rules](AlertRule). Each names [kinds](AlertKind) of things that wait for a person,
//! and how long they may wait. What waits is derived from the records that the other rules keep. So nothing is lost if a
//! coordinator is killed, and what was answered in time is never sent.
//!
//! For each rule and kind, a team has a slot ([`AlertsRecord`]): what was announced, and the one alert that is on its way.
//! An alert announces everything of its kind that waits, so three requests make one. What begins to wait while an alert
//! is on its way is announced by the next one, because an attempt may have arrived although it seemed to fail: every
//! attempt has the same id and the same body, so that a receiver can drop a repetition.
//!
//! The commit that begins an attempt is also its claim: only the coordinator that commits it sends. If that coordinator
//! dies, the claim ends, and another attempt follows.

mod kind;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::json;
use teamwire_proto::{
    visible::shown,
    word::{cut_middle, shorten},
};
use uuid::Uuid;

use self::kind::Waiting;
pub use self::kind::{AlertKind, KINDS};
use super::{
    records::{AlertSlot, AlertsRecord, OutgoingAlert, TeamRecord},
    time::{ms, timestamp},
    tx::{FULL_RETRY_MS, RuleError, Tx},
};

/// How long an alert is attempted, in milliseconds.
const ATTEMPTED_MS: u64 = 24 * 60 * 60 * 1_000;

/// The pause after the first failed attempt, which doubles with each further one, and the longest, in milliseconds.
const PAUSE_MS: u64 = 5_000;
const PAUSE_MAX_MS: u64 = 30 * 60 * 1_000;

/// How much longer than an attempt may take a coordinator's claim lasts.
const CLAIM_RESERVE: Duration = Duration::from_secs(30);

/// How soon to look again for what can begin unseen, in milliseconds.
const LOOK_AGAIN_MS: u64 = 4_000;

/// How many bytes of what a member wrote an alert has.
const CONTENT_BYTES_MAX: usize = 2 * 1_024;

/// How many characters of an error are kept.
const ERROR_CHARS_MAX: usize = 200;

/// What the operator wants people to be notified of.
#[derive(Clone, Debug, Default)]
pub struct AlertRules {
    /// The rules. Empty: people are notified of nothing.
    pub rules: Vec<AlertRule>,
    /// Where people reach the console, such as `https://HOST:PORT`. `None` if there is no console.
    pub console: Option<String>,
}

/// What one receiver is notified of.
#[derive(Clone, Debug)]
pub struct AlertRule {
    /// Identifies the rule among those of the configuration, also after a restart.
    pub id: String,
    /// Of what.
    pub kinds: Vec<&'static AlertKind>,
    /// How long something must have waited.
    pub after: Duration,
    /// Whether alerts have what members wrote: commands, plans, errors.
    pub content: bool,
    /// How long an attempt to deliver may take.
    pub timeout: Duration,
}

impl AlertRule {
    /// Makes a rule for a receiver, given by the words that identify it, with the defaults of the configuration. A rule for
    /// another receiver or other kinds has another id.
    pub fn new(receiver: &[&str], kinds: Vec<&'static AlertKind>) -> Self {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        let hash = blake3::hash(json!([receiver, names]).to_string().as_bytes());
        Self {
            id: hash.to_hex()[..16].to_owned(),
            kinds,
            after: Duration::from_secs(60),
            content: false,
            timeout: Duration::from_secs(10),
        }
    }

    /// Returns for how long a coordinator claims an alert that it is about to send.
    fn claim_ms(&self) -> u64 {
        ms(self.timeout + CLAIM_RESERVE)
    }
}

/// An alert that this coordinator, and no other, is to send now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedAlert {
    /// The rule that it follows.
    pub rule: String,
    /// The kind of what waits.
    pub kind: &'static str,
    /// Its id.
    pub id: Uuid,
    /// What to send, as JSON.
    pub body: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

/// What is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueAlerts {
    /// What the caller must send.
    pub claimed: Vec<ClaimedAlert>,
    /// What was attempted for so long that it is given up, with how the last attempt failed.
    pub given_up: Vec<(ClaimedAlert, String)>,
    /// When something will be due next, in milliseconds from now. `None` means never.
    pub next_ms: Option<u64>,
}

/// Makes the alerts that are due in a team, and claims those that are to be sent.
pub fn carry_out_due(tx: &mut Tx<'_>, rules: &AlertRules) -> Result<DueAlerts, RuleError> {
    let mut due = DueAlerts::default();
    let Some(team) = tx.read::<TeamRecord>("")? else { return Ok(due) };
    // What cannot be recorded cannot be sent just once.
    if tx.ctx.store_is_full {
        return Ok(DueAlerts { next_ms: Some(FULL_RETRY_MS), ..due });
    }
    // There is a slot for each rule and kind.
    tx.needs_no_room();
    let before = tx.read::<AlertsRecord>("")?.as_deref().cloned().unwrap_or_default();
    let mut record = before.clone();
    let now_ms = tx.ctx.now_ms;
    let mut found: BTreeMap<&str, Vec<Waiting>> = BTreeMap::new();
    let mut next = Vec::new();
    for rule in &rules.rules {
        for kind in &rule.kinds {
            let waiting = match found.remove(kind.name) {
                Some(waiting) => waiting,
                None => kind.waiting(tx, &team)?,
            };
            let name = AlertsRecord::slot(&rule.id, kind.name);
            let mut slot = record.slots.remove(&name).unwrap_or_default();
            let visit = Visit { rules, rule, kind, team: &team, waiting: &waiting };
            next.extend(visit.carry_out(tx, &mut slot, &mut due)?);
            next.extend(kind.begins_unseen().then_some(now_ms + LOOK_AGAIN_MS));
            if slot.outgoing.is_some() || !slot.announced.is_empty() {
                record.slots.insert(name, slot);
            }
            found.insert(kind.name, waiting);
        }
    }
    if record != before {
        // Slots of rules that no coordinator has any more. Another one may still have them.
        let kept_ms = ms(tx.ctx.limits.history_ttl);
        record.slots.retain(|_, slot| slot.made_ms + kept_ms > now_ms);
        tx.put("", &record);
    }
    due.next_ms = next.into_iter().min().map(|at_ms| at_ms.saturating_sub(now_ms));
    Ok(due)
}

/// A look at one slot.
struct Visit<'v> {
    rules: &'v AlertRules,
    rule: &'v AlertRule,
    kind: &'static AlertKind,
    team: &'v TeamRecord,
    waiting: &'v [Waiting],
}

impl Visit<'_> {
    /// Returns when something will be due next in the slot. `None` means never.
    fn carry_out(&self, tx: &mut Tx<'_>, slot: &mut AlertSlot, due: &mut DueAlerts) -> Result<Option<u64>, RuleError> {
        let now_ms = tx.ctx.now_ms;
        let waits = |key: &String| self.waiting.iter().any(|waiting| waiting.key == *key);
        slot.announced.retain(waits);
        slot.outgoing.take_if(|outgoing| !outgoing.covers.iter().any(waits));
        let outgoing = match &mut slot.outgoing {
            Some(outgoing) => outgoing,
            None => {
                let mut new = self.waiting.iter().filter(|waiting| !slot.announced.contains(&waiting.key)).peekable();
                let Some(first) = new.peek().copied() else { return Ok(None) };
                let due_ms = first.since_ms + ms(self.rule.after);
                if due_ms > now_ms {
                    return Ok(Some(due_ms));
                }
                let covers: BTreeSet<String> = new.map(|waiting| waiting.key.clone()).collect();
                slot.announced.extend(covers.iter().cloned());
                slot.made_ms = now_ms;
                let id = tx.new_uuid();
                let body = self.body(tx, id, first)?;
                slot.outgoing.insert(OutgoingAlert {
                    id,
                    body,
                    covers,
                    attempts: 0,
                    due_ms: now_ms,
                    error: String::new(),
                })
            }
        };
        if outgoing.due_ms > now_ms {
            return Ok(Some(outgoing.due_ms));
        }
        let claimed = ClaimedAlert {
            rule: self.rule.id.clone(),
            kind: self.kind.name,
            id: outgoing.id,
            body: outgoing.body.clone(),
            attempt: outgoing.attempts + 1,
        };
        if now_ms >= slot.made_ms + ATTEMPTED_MS {
            due.given_up.push((claimed, outgoing.error.clone()));
            slot.outgoing = None;
            return Ok(Some(now_ms));
        }
        outgoing.attempts += 1;
        outgoing.due_ms = now_ms + self.rule.claim_ms();
        due.claimed.push(claimed);
        Ok(Some(outgoing.due_ms))
    }

    /// Composes what is sent. `first`: the oldest thing that no alert has announced.
    fn body(&self, tx: &mut Tx<'_>, id: Uuid, first: &Waiting) -> Result<String, RuleError> {
        let (team, count) = (&self.team.name, self.waiting.len());
        let mut data = json!({
            "team": team.as_str(),
            "count": count,
            "since": timestamp(first.since_ms).to_string(),
            "text": self.kind.text(team, count, first.member.as_ref()),
        });
        if let Some(member) = &first.member {
            data["member"] = member.as_str().into();
        }
        if !first.request_id.is_empty() {
            data["request_id"] = first.request_id.as_str().into();
        }
        if let Some(console) = &self.rules.console {
            data["link"] = self.link(console, first).into();
        }
        if self.rule.content {
            // A character that its reader does not see could turn a command into another one.
            let content = shown(&self.kind.content(tx, first)?);
            data["content"] = cut_middle(&content, CONTENT_BYTES_MAX).into();
        }
        let at = timestamp(tx.ctx.now_ms).to_string();
        Ok(json!({ "id": message_id(id), "type": self.kind.name, "timestamp": at, "data": data }).to_string())
    }

    /// Returns the link to what waits. The page keeps its state behind the `#`, which browsers send to no server.
    fn link(&self, console: &str, first: &Waiting) -> String {
        let (page, selected) = self.kind.page(first);
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("team", self.team.name.as_str()).extend_pairs(selected);
        format!("{}/#/{page}?{}", console.trim_end_matches('/'), query.finish())
    }
}

/// Returns the id of an alert as its receiver sees it.
pub fn message_id(id: Uuid) -> String {
    format!("msg_{}", id.simple())
}

/// Records how an attempt ended: `error` says how it failed. Changes nothing if the alert is over.
pub fn settle(tx: &mut Tx<'_>, alert: &ClaimedAlert, error: Option<&str>) -> Result<(), RuleError> {
    let Some(record) = tx.read::<AlertsRecord>("")? else { return Ok(()) };
    tx.needs_no_room();
    let mut record = AlertsRecord::clone(&record);
    let Some(slot) = record.slots.get_mut(&AlertsRecord::slot(&alert.rule, alert.kind)) else { return Ok(()) };
    let Some(outgoing) = slot.outgoing.as_mut().filter(|outgoing| outgoing.id == alert.id) else { return Ok(()) };
    match error {
        None => slot.outgoing = None,
        // The claim has ended, and another attempt has begun.
        Some(_) if outgoing.attempts != alert.attempt => return Ok(()),
        Some(error) => {
            let doublings = outgoing.attempts.saturating_sub(1).min(16);
            outgoing.due_ms = tx.ctx.now_ms + (PAUSE_MS << doublings).min(PAUSE_MAX_MS);
            outgoing.error = shorten(error, ERROR_CHARS_MAX);
        }
    }
    tx.put("", &record);
    Ok(())
}
