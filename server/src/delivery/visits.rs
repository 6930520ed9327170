//! When a worker visits each team: when something is due, soon after something has changed, and otherwise less and less
//! often.
//!
//! A coordinator knows at once what it commits itself. What others commit, it learns from notifications, which are part
//! of the commits. So visits of teams in which nothing happens find nothing, and may be far apart.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use crate::{notify::Changes, store::Namespace};

/// How soon a team is visited again at the earliest.
pub(super) const EACH_MIN: Duration = Duration::from_millis(500);

/// Over how much time coordinators spread their visits of a team in which something is due.
const SPREAD: Duration = Duration::from_millis(250);

/// The shortest and the longest pause between two readings of the list of teams.
const LIST: Duration = Duration::from_secs(10);
const LIST_MAX: Duration = Duration::from_secs(10 * 60);

/// How many times as long as a reading of the list the pause after it is at least.
const LIST_PAUSE_FACTOR: u32 = 1_000;

/// A tick this late means that this coordinator was away. The store's clock this far ahead means that it was set.
pub(super) const AWAY: Duration = Duration::from_secs(5);

/// The teams, and when each is visited next.
#[derive(Debug)]
pub(super) struct Visits {
    /// How soon a team is visited after something has changed.
    pause: Duration,
    /// How long a team goes without a visit at most.
    pause_max: Duration,
    /// When the list of teams is read next.
    list_at: Instant,
    teams: HashMap<Namespace, Team>,
    /// The teams that wait for a visit, in the order of their visits.
    order: BTreeSet<(Instant, Namespace)>,
}

#[derive(Debug)]
struct Team {
    /// When it is visited next.
    at: Instant,
    /// The longest pause after the next visit.
    pause_max: Duration,
    /// The store's latest time for the team, and when it was read. A cluster has more than one clock.
    clock: Option<(u64, Instant)>,
}

impl Visits {
    /// Makes visits without teams. `pause`: how soon a team is visited after something has changed. `pause_max`: how long it
    /// goes without a visit at most.
    pub(super) fn new(pause: Duration, pause_max: Duration) -> Self {
        Self { pause, pause_max, list_at: Instant::now(), teams: HashMap::new(), order: BTreeSet::new() }
    }

    /// Has teams visited that have changed: now those in which something may be due because of a commit made here, soon
    /// the others.
    pub(super) fn learn(&mut self, changes: Changes, now: Instant) {
        if changes.any {
            self.all_changed(now);
            self.list_at = now;
        }
        changes.teams.into_iter().for_each(|namespace| self.changed(namespace, now));
        changes.due_here.into_iter().for_each(|namespace| self.visit_by(namespace, now));
    }

    /// Returns whether it is time to read the list of teams. New teams are learned of from notifications, too.
    pub(super) fn needs_list(&self, now: Instant) -> bool {
        self.list_at <= now
    }

    /// Keeps exactly these teams. New ones are visited now. `took`: how long the list took to read.
    pub(super) fn list(&mut self, listed: Vec<Namespace>, now: Instant, took: Duration) {
        self.list_at = now + took + (took * LIST_PAUSE_FACTOR).clamp(LIST, LIST_MAX);
        let mut before = std::mem::take(&mut self.teams);
        self.order.clear();
        for namespace in listed {
            let team = before.remove(&namespace).unwrap_or_else(|| self.new_team(now));
            self.order.insert((team.at, namespace.clone()));
            self.teams.insert(namespace, team);
        }
    }

    /// Returns whether a team is known.
    pub(super) fn has(&self, namespace: &Namespace) -> bool {
        self.teams.contains_key(namespace)
    }

    fn changed(&mut self, namespace: Namespace, now: Instant) {
        let pause = jittered(self.pause);
        self.visit_by(namespace, now + pause);
    }

    fn all_changed(&mut self, now: Instant) {
        let teams: Vec<_> = self.teams.keys().cloned().collect();
        teams.into_iter().for_each(|namespace| self.changed(namespace, now));
    }

    fn new_team(&self, at: Instant) -> Team {
        Team { at, pause_max: self.pause, clock: None }
    }

    fn visit_by(&mut self, namespace: Namespace, at: Instant) {
        let new = self.new_team(at);
        let team = self.teams.entry(namespace.clone()).or_insert(new);
        team.pause_max = self.pause;
        self.order.remove(&(team.at, namespace.clone()));
        team.at = team.at.min(at);
        self.order.insert((team.at, namespace));
    }

    /// Returns the teams to visit, up to a number. Each must [rest](Self::rest) next.
    pub(super) fn take_ready(&mut self, now: Instant, count: usize) -> Vec<Namespace> {
        let ready = std::iter::from_fn(|| match self.order.first() {
            Some((at, _)) if *at <= now => self.order.pop_first().map(|(_, namespace)| namespace),
            _ => None,
        });
        ready.take(count).collect()
    }

    /// Has a team wait for its next visit. `due`: when something will be due if nothing changes; `None` means never.
    pub(super) fn rest(&mut self, namespace: &Namespace, now: Instant, due: Option<Duration>) {
        let Some(team) = self.teams.get_mut(namespace) else { return };
        let pause = match due.map(|due| due.max(EACH_MIN.min(self.pause))) {
            // Neither before it is due, which would take another visit, nor much later.
            Some(due) if due < team.pause_max => due + rand::random_range(Duration::ZERO..SPREAD),
            _ => jittered(team.pause_max),
        };
        team.pause_max = (team.pause_max * 2).min(self.pause_max);
        self.order.remove(&(team.at, namespace.clone()));
        team.at = now + pause;
        self.order.insert((team.at, namespace.clone()));
    }

    /// Records the store's time for a team, and returns whether it has advanced much more than this machine's clock since
    /// the last call. A jump is noticed once, not in each team.
    pub(super) fn has_jumped(&mut self, namespace: &Namespace, now_ms: u64, at: Instant) -> bool {
        let Some(team) = self.teams.get_mut(namespace) else { return false };
        let Some((before_ms, before)) = team.clock.replace((now_ms, at)) else { return false };
        let has_jumped = Duration::from_millis(now_ms.saturating_sub(before_ms)) > at.duration_since(before) + AWAY;
        if has_jumped {
            self.teams.values_mut().for_each(|team| team.clock = None);
        }
        has_jumped
    }
}

/// Spreads visits over time, differently at each coordinator.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.8..1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const EACH_MAX: Duration = Duration::from_secs(30);

    fn visits() -> Visits {
        Visits::new(EACH_MAX, seconds(3_600))
    }

    fn team(name: &str) -> Namespace {
        Namespace::from_stored(name)
    }

    /// Visits whatever is ready until a time, finding that nothing will be due. Returns how many visits there were.
    fn visit_until(visits: &mut Visits, until: Instant) -> usize {
        let mut count = 0;
        while let Some((at, _)) = visits.order.first().filter(|(at, _)| *at <= until).cloned() {
            for namespace in visits.take_ready(at, 16) {
                visits.rest(&namespace, at, None);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn a_team_without_changes_is_visited_less_and_less_often() {
        let (mut visits, now) = (visits(), Instant::now());
        visits.list(vec![team("a")], now, Duration::ZERO);
        assert!((8..=11).contains(&visit_until(&mut visits, now + seconds(2 * 3_600))));
        assert!((20..=32).contains(&visit_until(&mut visits, now + seconds(26 * 3_600))));
        let later = now + seconds(26 * 3_600);
        visits.changed(team("a"), later);
        assert!((2..=4).contains(&visit_until(&mut visits, later + seconds(120))), "it is visited as a new one");
    }

    #[test]
    fn the_list_is_read_after_a_pause_in_proportion_and_when_any_team_may_have_changed() {
        let (mut visits, now) = (visits(), Instant::now());
        assert!(visits.needs_list(now));
        visits.list(vec![team("a")], now, Duration::from_millis(20));
        assert!(!visits.needs_list(now + seconds(19)));
        assert!(visits.needs_list(now + seconds(21)));
        visits.learn(Changes { any: true, ..Changes::default() }, now + seconds(1));
        assert!(visits.needs_list(now + seconds(1)));
    }

    #[test]
    fn a_team_is_visited_when_something_is_due_and_right_after_a_change_here() {
        let (mut visits, now) = (visits(), Instant::now());
        visits.list(vec![team("a"), team("b")], now, Duration::ZERO);
        assert_eq!(visits.take_ready(now, 16), [team("a"), team("b")]);
        visits.rest(&team("a"), now, Some(seconds(10)));
        visits.rest(&team("b"), now, None);
        let early = now + seconds(10) - Duration::from_millis(1);
        assert_eq!(visits.take_ready(early, 16), [], "a visit before would be one more");
        let due = now + seconds(10) + SPREAD;
        assert_eq!(visits.take_ready(due, 16), [team("a")]);
        visits.rest(&team("a"), due, Some(Duration::ZERO));
        assert_eq!(visits.take_ready(due, 16), [], "it rests a little");
        visits.visit_by(team("b"), due);
        visits.changed(team("b"), due);
        assert_eq!(visits.take_ready(due, 16), [team("b")]);
    }

    #[test]
    fn a_change_elsewhere_brings_a_visit_within_the_usual_time() {
        let (mut visits, now) = (visits(), Instant::now());
        visits.list(vec![team("a"), team("b")], now, Duration::ZERO);
        let idle = now + seconds(5 * 3_600);
        visit_until(&mut visits, idle);
        visits.changed(team("a"), idle);
        visits.changed(team("new"), idle);
        let ready = visits.take_ready(idle + EACH_MAX, 16);
        assert!(ready.contains(&team("a")) && ready.contains(&team("new")), "{ready:?}");
        visits.all_changed(idle);
        assert!(visits.take_ready(idle + EACH_MAX, 16).contains(&team("b")));
        visits.list(vec![team("a")], idle, Duration::ZERO);
        assert!(visits.has(&team("a")) && !visits.has(&team("b")));
    }

    /// Found by the fault `clock-forward`: members whose leases had run out only by the new time were declared lost.
    #[test]
    fn only_a_clock_that_jumps_ahead_is_noticed() {
        let (mut visits, began) = (visits(), Instant::now());
        visits.list(vec![team("a"), team("b")], began, Duration::ZERO);
        assert!(!visits.has_jumped(&team("b"), 1_000_000, began));
        let mut jumped = |ms, s| visits.has_jumped(&team("a"), ms, began + seconds(s));
        assert!(!jumped(1_000_000, 0), "there is nothing to compare with yet");
        assert!(!jumped(1_030_500, 30));
        assert!(!jumped(1_030_500, 40), "it stands still");
        assert!(!jumped(1_020_000, 50), "it was set back");
        assert!(jumped(4_630_000, 60));
        assert!(!jumped(4_640_000, 70), "once");
        assert!(!visits.has_jumped(&team("b"), 4_650_000, began + seconds(80)), "not in another team, too");
        assert!(visits.has_jumped(&team("b"), 4_670_000, began + seconds(90)));
    }
}
