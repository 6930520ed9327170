//! Placement: chooses the host that gets an order.

use std::collections::BTreeSet;

use teamwire_proto::{Reason, Refusal, name::Name, v1};

use crate::{
    domain::{
        records::{HostRecord, Life, TeamRecord},
        tx::{RuleError, Tx},
    },
    store::Leases,
};

/// How many hosts a refusal describes.
const DESCRIBED_MAX: usize = 8;

/// A host that may get an order.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name.
    pub name: Name,
    /// What it offers. `None` if it has not declared an offer yet.
    pub offer: Option<HostRecord>,
    /// How many of its slots are taken.
    pub slots_used: u32,
    /// Whether it is live and its lease has not run out.
    pub is_live: bool,
    /// Whether its life has ended.
    pub has_exited: bool,
}

impl Candidate {
    /// Returns the tags that members of a profile get.
    pub fn tags_of(&self, profile: &Name) -> BTreeSet<Name> {
        let profile = self.offer.as_ref().and_then(|offer| offer.profile(profile));
        profile.map(|profile| profile.tags.clone()).unwrap_or_default()
    }

    /// Returns how many slots are free.
    pub fn free(&self) -> u32 {
        self.offer.as_ref().map_or(0, |offer| offer.slots.saturating_sub(self.slots_used))
    }

    /// Returns why this host cannot take an order. `None` if it can.
    fn lacks(&self, profile: &Name, terms: &v1::SpawnTerms) -> Option<String> {
        if self.has_exited {
            return Some("has exited".to_owned());
        }
        if !self.is_live {
            return Some("is not live".to_owned());
        }
        let Some(offer) = &self.offer else { return Some("has not said what it offers yet".to_owned()) };
        if offer.profile(profile).is_none() {
            let known: Vec<&str> = offer.profiles.iter().map(|profile| profile.name.as_str()).collect();
            return Some(match known.as_slice() {
                [] => "has no profiles".to_owned(),
                known => format!("has no profile {profile}, but {}", known.join(", ")),
            });
        }
        for (key, value) in &terms.labels {
            match offer.labels.get(key) {
                Some(found) if found == value => {}
                Some(found) => return Some(format!("has the label {key}={found}, not {key}={value}")),
                None => return Some(format!("has no label {key}")),
            }
        }
        if terms.refused_by.iter().any(|refused| self.name.folded().eq_ignore_ascii_case(refused)) {
            return Some("has refused this order".to_owned());
        }
        match (offer.slots, self.free()) {
            (0, _) => Some("takes no orders at present".to_owned()),
            (slots, 0) => Some(format!("is full ({} of {slots} slots taken)", self.slots_used)),
            _ => None,
        }
    }
}

/// Lists the hosts of a team. `offers`: what each offers, in the order of the roster.
pub fn candidates(
    team: &TeamRecord,
    offers: impl IntoIterator<Item = Option<HostRecord>>,
    leases: &Leases,
) -> Vec<Candidate> {
    let has_lease = |name: &Name| leases.until_ms.get(name.folded()).is_some_and(|until_ms| *until_ms > leases.now_ms);
    team.hosts()
        .zip(offers)
        .map(|(host, offer)| Candidate {
            name: host.name.clone(),
            offer,
            slots_used: team.slots_used(&host.name),
            is_live: host.life == Life::Live && !host.revoked && has_lease(&host.name),
            has_exited: matches!(host.life, Life::Exited { .. }),
        })
        .collect()
}

/// Reads what the hosts of a team offer, and lists them. `leases`: as just read.
pub(super) fn read_candidates(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    leases: &Leases,
) -> Result<Vec<Candidate>, RuleError> {
    let hosts: Vec<String> = team.hosts().map(|host| host.name.folded().to_owned()).collect();
    tx.want::<HostRecord>(hosts.iter().cloned())?;
    let offers = hosts.iter().map(|id| Ok(tx.read::<HostRecord>(id)?.as_deref().cloned()));
    Ok(candidates(team, offers.collect::<Result<Vec<_>, RuleError>>()?, leases))
}

/// Chooses the host for an order: the one that the order names, or else the one with the most free slots. Of several
/// with equally many, chooses the first by name.
pub(super) fn place<'c>(
    candidates: &'c [Candidate],
    profile: &Name,
    terms: &v1::SpawnTerms,
) -> Result<&'c Candidate, Refusal> {
    let is_asked_for =
        |candidate: &&Candidate| terms.host.is_empty() || candidate.name.folded().eq_ignore_ascii_case(&terms.host);
    let asked: Vec<&Candidate> = candidates.iter().filter(is_asked_for).collect();
    let fitting = asked.iter().filter(|candidate| candidate.lacks(profile, terms).is_none());
    let best = fitting.min_by(|a, b| b.free().cmp(&a.free()).then_with(|| a.name.folded().cmp(b.name.folded())));
    best.copied().ok_or_else(|| none_fits(candidates, &asked, profile, terms))
}

fn none_fits(all: &[Candidate], asked: &[&Candidate], profile: &Name, terms: &v1::SpawnTerms) -> Refusal {
    let names = |hosts: &[&Candidate]| {
        let names: Vec<&str> = hosts.iter().take(DESCRIBED_MAX).map(|host| host.name.as_str()).collect();
        names.join(", ")
    };
    let mut present: Vec<&Candidate> = all.iter().filter(|host| !host.has_exited).collect();
    let text = match (all, asked) {
        ([], _) => {
            "The team has no host. Invite one with `teamwire invite --host`, and start it there with `teamwire host \
                    --join -`."
                .to_owned()
        }
        _ if present.is_empty() => {
            let all: Vec<&Candidate> = all.iter().collect();
            format!(
                "All hosts have exited: {}. Start one again with `teamwire host`, or invite another with `teamwire invite --host`.",
                names(&all)
            )
        }
        (_, []) => format!("There is no host \"{}\". The hosts are: {}.", terms.host, names(&present)),
        (_, asked) => {
            // Those that can be waited for come first, and those that have exited not at all, except the one that was
            // asked for.
            present.sort_by_key(|host| !host.is_live);
            let asked = if terms.host.is_empty() { present.as_slice() } else { asked };
            let described = asked
                .iter()
                .take(DESCRIBED_MAX)
                .filter_map(|host| host.lacks(profile, terms).map(|lacks| format!("{} {lacks}", host.name)));
            let described: Vec<String> = described.collect();
            let more = asked.len().saturating_sub(DESCRIBED_MAX);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            format!("No host can start it: {}{more}. See `teamwire hosts`.", described.join("; "))
        }
    };
    Refusal::new(Reason::NoHostFits, text).field("host")
}

#[cfg(test)]
mod tests {
    use crate::domain::records::ProfileRecord;

    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text, "name").unwrap()
    }

    fn host(called: &str, slots: u32, slots_used: u32, labels: &[(&str, &str)]) -> Candidate {
        let profile = ProfileRecord {
            name: name("claude"),
            description: String::new(),
            start_deadline_ms: None,
            tags: BTreeSet::new(),
        };
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let offer = Some(HostRecord { labels, profiles: vec![profile], slots, platform: String::new() });
        Candidate { name: name(called), offer, slots_used, is_live: true, has_exited: false }
    }

    fn terms(labels: &[(&str, &str)]) -> v1::SpawnTerms {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        v1::SpawnTerms { profile: "claude".to_owned(), labels, ..v1::SpawnTerms::default() }
    }

    fn placed(hosts: &[Candidate], terms: &v1::SpawnTerms) -> Result<String, String> {
        let profile = name(&terms.profile);
        place(hosts, &profile, terms).map(|host| host.name.to_string()).map_err(|refusal| refusal.message)
    }

    #[test]
    fn the_most_free_slots_win_and_names_break_ties() {
        let hosts = [host("c", 4, 2, &[]), host("b", 8, 4, &[]), host("a", 4, 0, &[]), host("D", 9, 9, &[])];
        assert_eq!(placed(&hosts, &terms(&[])), Ok("a".to_owned()));
        assert_eq!(placed(&hosts[..2], &terms(&[])), Ok("b".to_owned()));
    }

    #[test]
    fn labels_and_names_restrict_the_choice() {
        let hosts = [host("a", 4, 0, &[("gpu", "h100")]), host("b", 1, 0, &[("gpu", "a100")]), host("c", 4, 0, &[])];
        assert_eq!(placed(&hosts, &terms(&[("gpu", "a100")])), Ok("b".to_owned()));
        let asked = v1::SpawnTerms { host: "C".to_owned(), ..terms(&[]) };
        assert_eq!(placed(&hosts, &asked), Ok("c".to_owned()));
        let refused = v1::SpawnTerms { refused_by: vec!["a".to_owned()], ..terms(&[]) };
        assert_eq!(placed(&hosts, &refused), Ok("c".to_owned()));
    }

    #[test]
    fn the_refusal_says_what_each_host_lacks() {
        let away = Candidate { is_live: false, ..host("a", 4, 0, &[]) };
        let new = Candidate { offer: None, ..host("b", 4, 0, &[]) };
        let hosts =
            [away, new, host("c", 2, 2, &[("gpu", "a100")]), host("d", 0, 0, &[("gpu", "a100")]), host("e", 1, 0, &[])];
        let text = placed(&hosts, &terms(&[("gpu", "a100")])).unwrap_err();
        assert_eq!(
            text,
            "No host can start it: b has not said what it offers yet; c is full (2 of 2 slots taken); d takes no orders at present; \
             e has no label gpu; a is not live. See `teamwire hosts`."
        );
        let codex = v1::SpawnTerms { profile: "codex".to_owned(), ..terms(&[]) };
        assert!(placed(&hosts, &codex).unwrap_err().contains("c has no profile codex, but claude"));
        let elsewhere = v1::SpawnTerms { host: "x".to_owned(), ..terms(&[]) };
        assert_eq!(placed(&hosts, &elsewhere).unwrap_err(), "There is no host \"x\". The hosts are: a, b, c, d, e.");
        assert!(placed(&[], &terms(&[])).unwrap_err().starts_with("The team has no host."));
    }

    #[test]
    fn the_refusal_leaves_out_hosts_that_have_exited() {
        let gone = Candidate { is_live: false, has_exited: true, ..host("a", 4, 0, &[]) };
        let full = host("b", 1, 1, &[]);
        let text = placed(&[gone.clone(), full.clone()], &terms(&[])).unwrap_err();
        assert_eq!(text, "No host can start it: b is full (1 of 1 slots taken). See `teamwire hosts`.");
        let asked = v1::SpawnTerms { host: "a".to_owned(), ..terms(&[]) };
        assert!(placed(&[gone.clone(), full], &asked).unwrap_err().contains("a has exited"));
        assert!(placed(&[gone], &terms(&[])).unwrap_err().starts_with("All hosts have exited: a."));
    }
}
