//! The audit log: adding entries to its chains, listing and trimming them.

use std::time::Duration;

use teamwire_proto::{Refusal, name::Name, v1};

use super::{
    Coordinator,
    keys::{home_of, usual_keys},
    store_errors::{corrupt, unavailable},
};
use crate::{
    domain::{
        audit::{
            caller,
            chain::{self, Chain, Oldest, StoredEntry, Subject},
        },
        identity::{self, CallerCredentials},
        page::{self, Page, page_size},
        records::{ChainRecord, OperatorMarkRecord, RecordType},
        time::{milliseconds, ms},
    },
    store::{Entry, Key, Namespace, Range},
};

/// How many entries are read at once.
const CHUNK: usize = 1_024;

/// How many entries a page examines at most.
const EXAMINED_MAX: usize = 16_384;

/// How many chains are read at once. On Redis, reading some costs as much as reading all.
const CHAINS: usize = 16_384;

/// How much of its bound a chain that has reached it gives up, so that it is not trimmed for every entry: an eighth.
const FREED: u64 = 8;

/// How much longer than its retention an entry may stay, so that a chain gets a checkpoint once a day rather than once
/// a minute: a thirtieth.
const LATE: u64 = 30;

impl Coordinator {
    /// Describes a caller for the audit log, as it is now.
    pub async fn describe_caller(&self, who: &CallerCredentials) -> Result<v1::AuditCaller, Refusal> {
        Ok(self.decide(&home_of(who), &usual_keys(who), |tx| caller::describe(tx, who)).await?.value)
    }

    /// Adds entries to a chain, and keeps it within its bound. `batch`: if entries were added under this id before, it
    /// adds none.
    pub async fn append_to_audit(&self, chain: &Chain, batch: &str, entries: &[v1::AuditEntry]) -> Result<(), Refusal> {
        let audit = Namespace::audit();
        let done =
            self.decide(&audit, &[chain_key(chain)], |tx| chain::append_batch(tx, chain, batch, entries)).await?;
        let Some(record) = done.value else { return Ok(()) };
        if let Err(refusal) = self.trim_audit_chain(chain, &record, false).await {
            tracing::debug!(%chain, %refusal, "a chain of the audit log could not be trimmed yet");
        }
        Ok(())
    }

    /// Removes what exceeds the bounds of the chains of the audit log and, if `looks_for_old`, what is old. Looking takes
    /// a read of each chain.
    pub async fn trim_audit(&self, looks_for_old: bool) -> Result<(), Refusal> {
        for (chain, record) in self.all_chains().await? {
            self.trim_audit_chain(&chain, &record, looks_for_old).await?;
        }
        Ok(())
    }

    /// Returns how long old entries of the audit log may go unnoticed.
    pub fn audit_patience(&self) -> Duration {
        self.limits.audit_ttl / u32::try_from(LATE).unwrap_or(u32::MAX)
    }

    async fn trim_audit_chain(&self, chain: &Chain, record: &ChainRecord, looks_for_old: bool) -> Result<(), Refusal> {
        let max = self.limits.audit_chain_bytes_max;
        let mut excess = if record.bytes > max { record.bytes - (max - max / FREED) } else { 0 };
        if excess == 0 && !looks_for_old {
            return Ok(());
        }
        let ttl_ms = ms(self.limits.audit_ttl);
        let before_ms = self.now_ms().saturating_sub(ttl_ms);
        let before_first = record.first_sequence.saturating_sub(1);
        let is_late = |entries: &[Entry]| {
            entries.first().is_some_and(|first| StoredEntry::of(first).at_ms() + ttl_ms / LATE < before_ms)
        };
        // Most chains have nothing to trim, which one entry shows.
        if excess == 0 {
            let first = self.entries(&Namespace::audit(), &chain.stream(), Range::after(before_first, 1)).await?;
            if !is_late(&first) {
                return Ok(());
            }
        }
        loop {
            let entries = self.audit_entries(chain, before_first).await?;
            if excess == 0 && !is_late(&entries) {
                return Ok(());
            }
            let Some(oldest) = Oldest::choose(&entries, excess, before_ms) else { return Ok(()) };
            self.decide(&Namespace::audit(), &[chain_key(chain)], |tx| chain::trim(tx, chain, &oldest)).await?;
            excess = excess.saturating_sub(oldest.bytes);
        }
    }

    /// Writes an entry if the operator's credential is another one than before.
    pub async fn note_operator(&self) -> Result<(), Refusal> {
        let fingerprint = self.operator_fingerprint();
        let keys = [Key::new(OperatorMarkRecord::KIND, "")];
        self.decide(&Namespace::audit(), &keys, |tx| chain::note_operator(tx, fingerprint.clone())).await.map(drop)
    }

    /// Returns the fingerprint of the operator's credential.
    pub fn operator_fingerprint(&self) -> String {
        self.operator.borrow().fingerprint()
    }

    /// See `AuditService.ListAuditChains`.
    pub async fn list_audit_chains(
        &self,
        who: &CallerCredentials,
        request: &v1::ListAuditChainsRequest,
    ) -> Result<v1::ListAuditChainsResponse, Refusal> {
        let mut page = Page::new(page_size(request.page_size)?);
        let mut after = page::position(&request.page_token)?.unwrap_or_default();
        self.decide(&Namespace::directory(), &[], |tx| identity::operator(tx, who)).await?;
        let team = team_named(&request.team)?;
        'chains: loop {
            let found = self.scan_chains(&after).await?;
            let is_all = found.len() < CHAINS;
            for (name, record) in found {
                let is_wanted = |of: &Chain| team.as_ref().is_none_or(|team| of.team() == Some(team.folded()));
                if let Some(chain) = Chain::parse(&name).filter(is_wanted)
                    && !page.add(show_chain(&chain, &record))
                {
                    break 'chains;
                }
                after = name;
            }
            if is_all {
                return Ok(v1::ListAuditChainsResponse { chains: page.into_items(), next_page_token: String::new() });
            }
        }
        Ok(v1::ListAuditChainsResponse { chains: page.into_items(), next_page_token: page::token(after) })
    }

    /// See `AuditService.ListAuditEntries`.
    pub async fn list_audit_entries(
        &self,
        who: &CallerCredentials,
        request: &v1::ListAuditEntriesRequest,
    ) -> Result<v1::ListAuditEntriesResponse, Refusal> {
        let mut page = Page::new(page_size(request.page_size)?);
        let position = page::position(&request.page_token)?.unwrap_or_default();
        let (from, mut after) = match position.rsplit_once(' ') {
            Some((chain, sequence)) => {
                let from = Chain::parse(chain).ok_or_else(page::unknown_token)?;
                (Some(from), sequence.parse().map_err(|_| page::unknown_token())?)
            }
            None if position.is_empty() => (None, 0),
            None => return Err(page::unknown_token()),
        };
        let (team, created_ms) = self.audited(who, request).await?;
        let since_ms = request.since.as_ref().map_or(0, milliseconds).max(created_ms);
        let mut examined = 0;
        let mut covered = position;
        for chain in self.chains_of(team.as_ref(), &request.chain).await? {
            let name = chain.to_string();
            if from.as_ref().is_some_and(|from| from.to_string() > name) {
                continue;
            }
            if from.as_ref() != Some(&chain) {
                after = 0;
            }
            loop {
                let entries = self.audit_entries(&chain, after).await?;
                for entry in &entries {
                    let stored = StoredEntry::of(entry);
                    let is_wanted = stored.entry.is_none() || stored.at_ms() >= since_ms;
                    let shown = || show_entry(&chain, entry.sequence, stored, request.with_proofs);
                    if examined >= EXAMINED_MAX || (is_wanted && !page.add(shown())) {
                        let next_page_token = page::token(covered);
                        return Ok(v1::ListAuditEntriesResponse { records: page.into_items(), next_page_token });
                    }
                    covered = format!("{name} {}", entry.sequence);
                    after = entry.sequence;
                    examined += 1;
                }
                if entries.len() < CHUNK {
                    break;
                }
            }
        }
        Ok(v1::ListAuditEntriesResponse { records: page.into_items(), next_page_token: String::new() })
    }

    /// Returns the team whose entries a caller may list, and since when; `None`: all teams.
    async fn audited(
        &self,
        who: &CallerCredentials,
        request: &v1::ListAuditEntriesRequest,
    ) -> Result<(Option<Name>, u64), Refusal> {
        if who.credential.team().is_none() || request.with_proofs {
            self.decide(&Namespace::directory(), &[], |tx| identity::operator(tx, who)).await?;
            return Ok((team_named(&request.team)?, 0));
        }
        let (_, team, caller) = self.caller(who, &request.team).await?;
        caller.lead_only("read the audit log")?;
        // An earlier team of this name does not concern its lead.
        Ok((Some(team.name.clone()), team.created_ms))
    }

    /// Returns the chains of a team, or all, in the order of their names. `named`: only this one, unless it is empty.
    async fn chains_of(&self, team: Option<&Name>, named: &str) -> Result<Vec<Chain>, Refusal> {
        let is_wanted = |chain: &Chain| named.is_empty() || chain.to_string() == named;
        if let Some(team) = team {
            let chains = [Subject::Access, Subject::Privileged].map(|subject| Chain::new(subject, Some(team)));
            return Ok(chains.into_iter().filter(is_wanted).collect());
        }
        if let Some(chain) = Chain::parse(named) {
            return Ok(vec![chain]);
        }
        Ok(self.all_chains().await?.into_iter().map(|(chain, _)| chain).filter(is_wanted).collect())
    }

    /// Returns all chains, in the order of their names.
    async fn all_chains(&self) -> Result<Vec<(Chain, ChainRecord)>, Refusal> {
        let mut chains = Vec::new();
        let mut after = String::new();
        loop {
            let found = self.scan_chains(&after).await?;
            let last = found.last().map(|(name, _)| name.clone()).filter(|_| found.len() == CHAINS);
            chains.extend(found.into_iter().filter_map(|(name, record)| Some((Chain::parse(&name)?, record))));
            match last {
                Some(last) => after = last,
                None => return Ok(chains),
            }
        }
    }

    async fn scan_chains(&self, after: &str) -> Result<Vec<(String, ChainRecord)>, Refusal> {
        let audit = Namespace::audit();
        let found = self.store.scan(&audit, ChainRecord::KIND, after, CHAINS).await.map_err(unavailable)?;
        let decode = |(name, record): (String, crate::store::Record)| {
            let record = ChainRecord::decode(&record.data).map_err(|error| corrupt(&audit, &error))?;
            Ok((name, record))
        };
        found.into_iter().map(decode).collect()
    }

    async fn audit_entries(&self, chain: &Chain, after: u64) -> Result<Vec<Entry>, Refusal> {
        self.entries(&Namespace::audit(), &chain.stream(), Range::after(after, CHUNK)).await
    }
}

fn chain_key(chain: &Chain) -> Key {
    Key::new(ChainRecord::KIND, chain.to_string())
}

fn team_named(named: &str) -> Result<Option<Name>, Refusal> {
    if named.is_empty() { Ok(None) } else { Name::parse(named, "team").map(Some) }
}

fn show_chain(chain: &Chain, record: &ChainRecord) -> v1::AuditChain {
    v1::AuditChain {
        name: chain.to_string(),
        team: chain.team().unwrap_or_default().to_owned(),
        first_sequence: record.first_sequence,
        last_sequence: record.last_sequence,
        hash: hex::decode(&record.hash).unwrap_or_default(),
        bytes: record.bytes,
    }
}

fn show_entry(chain: &Chain, sequence: u64, stored: StoredEntry, with_proofs: bool) -> v1::AuditRecord {
    let proof = |bytes: bytes::Bytes| if with_proofs { bytes.to_vec() } else { Vec::new() };
    v1::AuditRecord {
        chain: chain.to_string(),
        sequence,
        entry: stored.entry,
        encoded: proof(stored.encoded),
        hash: proof(stored.hash),
    }
}
