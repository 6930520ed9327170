//! What members report of their models: in total or, if the configuration allows names, for each member.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::atomic::AtomicU64,
};

use parking_lot::Mutex;
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use teamwire_proto::{name::Name, v1};

use crate::store::Namespace;

/// What the tokens are that members have used.
const TOKEN_KINDS: [&str; 3] = ["input", "cached_input", "output"];

/// The team and the member of the series that counts all members beyond the bound. No name has parentheses.
const OTHER: &str = "(other)";

type UsageLabels = Vec<(&'static str, String)>;

/// How far a counter counts: a number reported that no program can have reached must not make it begin again.
const COUNT_MAX: u64 = 1 << 53;

/// A counter of US dollars.
type Dollars = Counter<f64, AtomicU64>;

/// Counters of what members have used.
#[derive(Default)]
pub(crate) struct Usage {
    /// The most members that have their own series. If 0, all share one, without names.
    members_max: usize,
    all_turns: Counter,
    all_cost_usd: Dollars,
    turns: Family<UsageLabels, Counter>,
    cost_usd: Family<UsageLabels, Dollars>,
    /// By kind, too.
    tokens: Family<UsageLabels, Counter>,
    named: Mutex<Named>,
}

/// The members that have their own series.
#[derive(Default)]
struct Named {
    /// Their labels, by team and folded name.
    teams: HashMap<Namespace, HashMap<String, UsageLabels>>,
    has_warned: bool,
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Usage").field("members_max", &self.members_max).finish_non_exhaustive()
    }
}

impl Usage {
    /// Creates the counters. Up to `members_max` members get their own series; all others share one.
    pub(super) fn new(members_max: usize) -> Self {
        let usage = Self { members_max, ..Self::default() };
        if members_max == 0 {
            usage.count(None, v1::Usage::default());
        }
        usage
    }

    /// Adds the counters to a registry, which adds the full stop to each help text.
    pub(super) fn register(&self, registry: &mut Registry) {
        let turns = "Turns of models, as members report them";
        let cost = "Cost of models in US dollars, as members report it";
        registry.register("tokens", "Tokens used by kind, as members report them", self.tokens.clone());
        match self.members_max {
            0 => {
                registry.register("turns", turns, self.all_turns.clone());
                registry.register("cost_usd", cost, self.all_cost_usd.clone());
            }
            _ => {
                registry.register("turns", turns, self.turns.clone());
                registry.register("cost_usd", cost, self.cost_usd.clone());
            }
        }
    }

    /// Counts what a member has used. With the first report, which a program makes before its first turn, its series
    /// begin at zero.
    pub(crate) fn add(&self, team: &Name, member: &Name, used: v1::Usage) {
        if self.members_max == 0 {
            return self.count(None, used);
        }
        // Held while counting, so that no series is created again just after it was removed.
        let mut named = self.named.lock();
        let labels = named.labels(team, member, self.members_max);
        self.count(Some(&labels), used);
    }

    /// Counts under these labels, or if `None`, under no names.
    fn count(&self, labels: Option<&UsageLabels>, used: v1::Usage) {
        #[allow(clippy::cast_precision_loss)]
        let dollars = used.cost_usd_micros as f64 / 1e6;
        match labels {
            Some(labels) => {
                count_up(&self.turns.get_or_create(labels), used.turns);
                self.cost_usd.get_or_create(labels).inc_by(dollars);
            }
            None => {
                count_up(&self.all_turns, used.turns);
                self.all_cost_usd.inc_by(dollars);
            }
        }
        let none = UsageLabels::new();
        let tokens = [used.input_tokens, used.cached_input_tokens, used.output_tokens];
        for (kind, tokens) in TOKEN_KINDS.into_iter().zip(tokens) {
            count_up(&self.tokens.get_or_create(&with_kind(labels.unwrap_or(&none), kind)), tokens);
        }
    }

    /// Removes the series of a team's members that are no longer on its roster. An empty roster: the team is deleted.
    pub(crate) fn retain_members(&self, namespace: &Namespace, roster: &[Name]) {
        let mut named = self.named.lock();
        let Some(members) = named.teams.get_mut(namespace) else { return };
        members.retain(|folded, labels| {
            let is_there = roster.iter().any(|name| name.folded() == folded);
            if !is_there {
                self.remove(labels);
            }
            is_there
        });
        named.teams.retain(|_, members| !members.is_empty());
    }

    /// Removes the series of teams that no longer exist.
    pub(crate) fn retain_teams(&self, is_there: impl Fn(&Namespace) -> bool) {
        self.named.lock().teams.retain(|namespace, members| {
            let is_there = is_there(namespace);
            if !is_there {
                members.values().for_each(|labels| self.remove(labels));
            }
            is_there
        });
    }

    fn remove(&self, labels: &UsageLabels) {
        self.turns.remove(labels);
        self.cost_usd.remove(labels);
        for kind in TOKEN_KINDS {
            self.tokens.remove(&with_kind(labels, kind));
        }
    }
}

impl Named {
    /// Returns the labels of a member's series, which may be the shared one.
    fn labels(&mut self, team: &Name, member: &Name, members_max: usize) -> UsageLabels {
        let count: usize = self.teams.values().map(HashMap::len).sum();
        let members = self.teams.entry(Namespace::team(team)).or_default();
        match members.entry(member.folded().to_owned()) {
            Entry::Occupied(labels) => labels.get().clone(),
            Entry::Vacant(free) if count < members_max => free.insert(labels(team.as_str(), member.as_str())).clone(),
            Entry::Vacant(_) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(
                        members_max,
                        "metrics_members_max members have their own usage metrics: further ones are counted together"
                    );
                }
                labels(OTHER, OTHER)
            }
        }
    }
}

fn labels(team: &str, member: &str) -> UsageLabels {
    vec![("team", team.to_owned()), ("member", member.to_owned())]
}

fn with_kind(labels: &UsageLabels, kind: &str) -> UsageLabels {
    let mut labels = labels.clone();
    labels.push(("kind", kind.to_owned()));
    labels
}

fn count_up(counter: &Counter, by: u64) {
    counter.inc_by(by.min(COUNT_MAX.saturating_sub(counter.get())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    fn name(text: &str) -> Name {
        Name::parse(text, "name").expect("a name")
    }

    fn namespace(team: &str) -> Namespace {
        Namespace::team(&name(team))
    }

    fn add(metrics: &Metrics, team: &str, member: &str, turns: u64) {
        metrics.usage.add(&name(team), &name(member), v1::Usage { turns, ..v1::Usage::default() });
    }

    /// Returns the labels and values of the series whose names begin with `teamwire_` and one of these.
    fn series(metrics: &Metrics, names: &[&str]) -> Vec<String> {
        let text = metrics.encode().expect("text");
        let samples = text.lines().filter_map(|line| line.strip_prefix("teamwire_"));
        let mut found: Vec<String> = samples
            .filter_map(|line| names.iter().find_map(|name| line.strip_prefix(name)))
            .map(str::to_owned)
            .collect();
        found.sort_unstable();
        found
    }

    const ALL: [&str; 3] = ["turns_total", "tokens_total", "cost_usd_total"];

    #[test]
    fn a_counter_never_begins_again() {
        let metrics = Metrics::new(1);
        for turns in [1, u64::MAX, 7] {
            add(&metrics, "acme", "ann", turns);
        }
        assert_eq!(series(&metrics, &["turns_total"]), [format!(r#"{{team="acme",member="ann"}} {COUNT_MAX}"#)]);
    }

    #[test]
    fn members_beyond_the_bound_share_a_series_until_others_leave() {
        let metrics = Metrics::new(2);
        assert_eq!(series(&metrics, &ALL), [""; 0]);
        add(&metrics, "acme", "Ann", 1);
        add(&metrics, "acme", "bob", 2);
        add(&metrics, "acme", "cid", 4);
        add(&metrics, "else", "dan", 4);
        add(&metrics, "ACME", "ann", 10);
        let (ann, bob) = (r#"{team="acme",member="Ann"} 11"#, r#"{team="acme",member="bob"} 2"#);
        let other = r#"{team="(other)",member="(other)"} "#;
        assert_eq!(series(&metrics, &["turns_total"]), [&format!("{other}8"), ann, bob]);
        assert_eq!(series(&metrics, &ALL).len(), 15);

        metrics.usage.retain_members(&namespace("acme"), &[name("ANN"), name("cid")]);
        add(&metrics, "acme", "cid", 5);
        let cid = r#"{team="acme",member="cid"} 5"#;
        assert_eq!(series(&metrics, &["turns_total"]), [&format!("{other}8"), ann, cid]);
    }

    #[test]
    fn a_deleted_team_leaves_no_series() {
        let metrics = Metrics::new(9);
        add(&metrics, "acme", "ann", 1);
        add(&metrics, "else", "ann", 1);
        metrics.usage.retain_teams(|found| *found == namespace("else"));
        assert_eq!(series(&metrics, &["turns_total"]), [r#"{team="else",member="ann"} 1"#]);
        metrics.usage.retain_members(&namespace("else"), &[]);
        assert_eq!(series(&metrics, &ALL), [""; 0]);
        assert!(metrics.usage.named.lock().teams.is_empty());
    }

    #[test]
    fn without_names_the_totals_begin_at_zero() {
        let metrics = Metrics::default();
        assert_eq!(series(&metrics, &["turns_total"]), [" 0"]);
        add(&metrics, "acme", "ann", 3);
        metrics.usage.retain_teams(|_| false);
        assert_eq!(series(&metrics, &["turns_total"]), [" 3"]);
        assert_eq!(series(&metrics, &ALL).len(), 5);
    }
}
