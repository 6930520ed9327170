//! What members' programs do and use.

use std::time::{Duration, SystemTime};

use teamwire_agents::visible::shown_line;
use teamwire_proto::{v1, word};

use super::{
    dim, paint,
    text::{date_and_time, plain},
    warning,
};

/// Prints a line of a member's activity.
pub(crate) fn activity_line(line: &v1::ActivityLine) {
    let at = paint(dim(), format!("[{}]", date_and_time(line.at.as_ref())));
    anstream::println!("{at} {}", shown_line(&line.text));
}

/// Prints a turn that has ended, with what the model wrote last.
pub(crate) fn turn(member: &str, turn: &v1::TurnEnded) {
    let mut facts = vec![format!("turn {} of life {}", turn.turn, turn.incarnation)];
    facts.push(format!("ended {}", date_and_time(turn.ended_at.as_ref())));
    if let Some(lasted) = lasted(turn) {
        facts.push(format!("took {}", word::age(lasted)));
    }
    facts.push(super::count(turn.tool_calls.into(), "tool call"));
    if let Some(used) = &turn.usage {
        let (tokens, cost) = (tokens(used), cost(used));
        if !tokens.is_empty() {
            facts.push(format!("{tokens} tokens in/out"));
        }
        if !cost.is_empty() {
            facts.push(cost);
        }
    }
    anstream::println!("{}", paint(dim(), format!("{}: {}", plain(member), facts.join(", "))));
    if !turn.cut_short.is_empty() {
        anstream::println!("{} {}", paint(warning(), "ended early:"), shown_line(&turn.cut_short));
    }
    for file in &turn.files {
        anstream::println!("{}", paint(dim(), format!("changed {}", shown_line(file))));
    }
    match turn.final_text.as_str() {
        "" => anstream::println!("{}", paint(dim(), "It wrote nothing after its last tool call.")),
        text => anstream::println!("\n{}", plain(text)),
    }
}

/// Returns how long a turn lasted. `None` if that is unknown.
fn lasted(turn: &v1::TurnEnded) -> Option<Duration> {
    let at = |at: Option<prost_types::Timestamp>| SystemTime::try_from(at?).ok();
    at(turn.ended_at)?.duration_since(at(turn.started_at)?).ok()
}

/// Returns what all members have used together, in all of their lives. `None` if nothing was reported.
pub(crate) fn usage_of_all(members: &[v1::Member]) -> Option<v1::Usage> {
    members.iter().filter_map(|member| member.total_usage).reduce(v1::Usage::plus)
}

/// Returns what was used, in words.
pub(crate) fn usage(usage: &v1::Usage) -> String {
    let mut parts = vec![super::count(usage.turns, "turn")];
    let cached = match usage.cached_input_tokens {
        0 => String::new(),
        cached => format!(" ({} cached)", short(cached)),
    };
    parts.push(format!("{} tokens in{cached}", short(usage.input_tokens)));
    parts.push(format!("{} out", short(usage.output_tokens)));
    if usage.cost_usd_micros > 0 {
        parts.push(dollars(usage.cost_usd_micros));
    }
    parts.join(", ")
}

/// Returns the tokens read and written, as `12.3k/456`. Empty means none.
pub(super) fn tokens(usage: &v1::Usage) -> String {
    if usage.input_tokens == 0 && usage.output_tokens == 0 {
        return String::new();
    }
    format!("{}/{}", short(usage.input_tokens), short(usage.output_tokens))
}

/// Returns a cost in US dollars. Empty if none was reported.
pub(super) fn cost(usage: &v1::Usage) -> String {
    if usage.cost_usd_micros == 0 { String::new() } else { dollars(usage.cost_usd_micros) }
}

/// Returns an amount with cents, or with as many digits as show that it is not zero.
fn dollars(micros: u64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    if micros >= 10_000 {
        // Half a cent more, so that the digits that are left out round it.
        let rounded = micros.saturating_add(5_000);
        return format!("${}.{:02}", rounded / 1_000_000, rounded % 1_000_000 / 10_000);
    }
    format!("${whole}.{rest:06}")
}

/// Returns a number with three digits: `999`, `12.3k`, `4.56M`.
fn short(number: u64) -> String {
    let (mut unit, mut size) = ("", 1);
    for (larger, name) in [(1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G")] {
        if number >= larger {
            (unit, size) = (name, larger);
        }
    }
    let (whole, thousandths) = (number / size, u128::from(number % size) * 1_000 / u128::from(size));
    match whole {
        _ if size == 1 => number.to_string(),
        0..10 => format!("{whole}.{:02}{unit}", thousandths / 10),
        10..100 => format!("{whole}.{}{unit}", thousandths / 100),
        _ => format!("{whole}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_amounts_are_never_zero() {
        let numbers = [0, 999, 1_000, 12_345, 456_789, 1_999_999, 7_000_000_000, u64::MAX].map(short);
        assert_eq!(numbers, ["0", "999", "1.00k", "12.3k", "456k", "1.99M", "7.00G", "18446744073G"]);
        let amounts = [1, 9_999, 10_000, 1_234_567, 1_995_000, u64::MAX].map(dollars);
        assert_eq!(amounts, ["$0.000001", "$0.009999", "$0.01", "$1.23", "$2.00", "$18446744073709.55"]);
    }

    #[test]
    fn a_line_stays_one_line_and_shows_what_is_hidden() {
        assert_eq!(shown_line("a\u{1b}[2J\n\tb\u{202e}é ❤\u{fe0f}"), "a\\u{1b}[2J\\n\\tb\\u{202e}é ❤\u{fe0f}");
    }

    #[test]
    fn the_usage_of_a_team_is_the_sum_of_its_members() {
        assert_eq!(usage_of_all(&[v1::Member::default()]), None);
        let member = |turns| {
            let total_usage =
                Some(v1::Usage { turns, input_tokens: 900, cost_usd_micros: 10_000, ..Default::default() });
            v1::Member { total_usage, ..Default::default() }
        };
        let sum = usage_of_all(&[member(1), v1::Member::default(), member(2)]).expect("a sum");
        assert_eq!(usage(&sum), "3 turns, 1.80k tokens in, 0 out, $0.02");
    }
}
