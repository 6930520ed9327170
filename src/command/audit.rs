//! `teamwire audit`: shows and verifies the audit log.

use std::time::SystemTime;

use clap::Args;
use serde_json::json;
use teamwire_client::v1;
use teamwire_proto::audit_chain;

use super::{Output, waiting::Wait};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::{Failure, REFUSED},
    show,
};

/// How many times a chain is read again that seems to be broken: it may have been trimmed while it was read.
const READS_MAX: usize = 3;

/// Show or verify the audit log: who used which powers, and who was refused
///
/// Shows invitations, joins, forced stops, changes of the lead, teams created and deleted, orders to hosts, credentials
/// created and revoked, sign-ins, backups, and calls that the caller was not allowed to make. Only the operator and a
/// team's lead can use this command. The log of a team remains when the team is deleted.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire audit --since 24h\n    teamwire --team acme audit --all --json > acme.jsonl\n    teamwire audit --verify"
)]
pub(super) struct Audit {
    /// Only entries from the last DURATION, such as 90s, 30m or 24h
    #[arg(long, value_name = "DURATION")]
    since: Option<Wait>,
    /// How many of the newest entries to show
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
    limit: usize,
    /// Show all entries
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Recompute the hashes of all chains, say where one breaks, and print the newest hash of each (operator only)
    ///
    /// Keep these hashes elsewhere. If someone rewrites older entries, the log no longer contains these hashes.
    #[arg(long, conflicts_with_all = ["since", "limit", "all"])]
    verify: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Audit {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::NamedOrOperator).or_else(|_| context.caller(Who::Current))?;
        if self.verify { self.verify(&caller).await } else { self.list(&caller).await }
    }

    async fn list(&self, caller: &Caller) -> Result<(), Failure> {
        let since = self.since.and_then(|Wait(period)| SystemTime::now().checked_sub(period));
        let request = v1::ListAuditEntriesRequest { since: since.map(Into::into), ..Default::default() };
        let mut records = caller.client.list_all_audit_entries(request, usize::MAX).await?.records;
        // They come chain by chain.
        records.sort_by_key(|record| record.entry.as_ref().and_then(|entry| entry.at).map(|at| (at.seconds, at.nanos)));
        let first = if self.all { 0 } else { records.len().saturating_sub(self.limit) };
        let records = &records[first..];
        if self.output.json {
            records.iter().for_each(|record| show::line(&show::json("AuditRecord", record)));
        } else if records.is_empty() {
            anstream::println!("The audit log has no such entries.");
        } else {
            show::audit(records);
        }
        Ok(())
    }

    async fn verify(&self, caller: &Caller) -> Result<(), Failure> {
        let chains =
            caller.client.list_all_audit_chains(v1::ListAuditChainsRequest::default(), usize::MAX).await?.chains;
        let (mut rows, mut broken) = (Vec::new(), Vec::new());
        for chain in chains {
            let breaks = verify(caller, &chain).await?;
            let head = chain.hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let (first, last) = (chain.first_sequence, chain.last_sequence);
            if self.output.json {
                show::line(&json!({
                    "chain": chain.name, "first_sequence": first, "last_sequence": last, "head": head,
                    "intact": breaks.is_none(), "error": breaks.as_ref().map(ToString::to_string),
                }));
            } else {
                let state = if breaks.is_some() { show::paint(show::warning(), "broken") } else { "intact".to_owned() };
                rows.push(vec![chain.name.clone(), format!("{first} to {last}"), state, head]);
            }
            broken.extend(breaks.map(|breaks| format!("{}: {breaks}.", chain.name)));
        }
        if !self.output.json && rows.is_empty() {
            anstream::println!("The audit log is empty.");
        } else if !self.output.json {
            show::table(&["chain", "entries", "state", "newest hash"], rows);
        }
        if broken.is_empty() {
            return Ok(());
        }
        Err(Failure::with_code(REFUSED, format!("The audit log was changed. {}", broken.join(" "))))
    }
}

/// Verifies a chain. Returns where it breaks.
async fn verify(caller: &Caller, chain: &v1::AuditChain) -> Result<Option<audit_chain::Break>, Failure> {
    let request = v1::ListAuditEntriesRequest { chain: chain.name.clone(), with_proofs: true, ..Default::default() };
    let mut breaks = None;
    for _ in 0..READS_MAX {
        let records = caller.client.list_all_audit_entries(request.clone(), usize::MAX).await?.records;
        breaks = audit_chain::verify(chain, &records).err();
        if breaks.is_none() {
            break;
        }
    }
    Ok(breaks)
}
