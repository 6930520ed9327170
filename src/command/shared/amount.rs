//! Amounts of US dollars and tokens, as people type them.

use teamwire_client::v1;

/// Reads an amount, such as `5 USD`, `$0.50`, `200k tokens`, or both with a comma between them.
pub(in crate::command) fn amount(text: &str) -> Result<v1::Budget, String> {
    let mut budget = v1::Budget::default();
    for part in text.split(',') {
        let part = part.trim();
        let lower = part.to_ascii_lowercase();
        let cost = lower.strip_suffix("usd").or_else(|| lower.strip_prefix('$'));
        let tokens = lower.strip_suffix("tokens").or_else(|| lower.strip_suffix("token"));
        let (field, found) = match (cost, tokens) {
            (Some(cost), _) => (&mut budget.cost_usd_micros, millionths(cost)),
            (None, Some(tokens)) => (&mut budget.tokens, number(tokens)),
            (None, None) => return Err(format!("\"{part}\" has no unit; write \"5 USD\" or \"200k tokens\"")),
        };
        if *field > 0 {
            return Err(format!("\"{text}\" has one unit twice"));
        }
        *field = found.filter(|found| *found > 0).ok_or_else(|| {
            format!("\"{part}\" is no amount; write \"5 USD\", \"0.50 USD\", \"10000 tokens\" or \"200k tokens\"")
        })?;
    }
    Ok(budget)
}

/// Reads an amount of US dollars with up to six digits behind the point, in millionths.
fn millionths(text: &str) -> Option<u64> {
    let (whole, rest) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    if rest.len() > 6 || !digits(whole) || !(rest.is_empty() || digits(rest)) {
        return None;
    }
    let rest: u64 = format!("{rest:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(rest)
}

/// Reads a number of tokens, in thousands with `k` and in millions with `m`.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix('k') {
        Some(number) => (number, 1_000),
        None => text.strip_suffix('m').map_or((text, 1), |number| (number, 1_000_000)),
    };
    let number = number.trim();
    if digits(number) { number.parse::<u64>().ok()?.checked_mul(unit) } else { None }
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_to_the_millionth_and_nonsense_is_refused() {
        let read = |text: &str| amount(text).ok().map(|budget| (budget.cost_usd_micros, budget.tokens));
        for (text, expected) in [
            ("5 USD", (5_000_000, 0)),
            ("5usd", (5_000_000, 0)),
            ("$0.50", (500_000, 0)),
            ("0.000001 USD", (1, 0)),
            ("10000 tokens", (0, 10_000)),
            ("200k tokens", (0, 200_000)),
            ("1 M tokens", (0, 1_000_000)),
            ("5 USD, 1M tokens", (5_000_000, 1_000_000)),
        ] {
            assert_eq!(read(text), Some(expected), "{text}");
        }
        let refused = [
            "",
            "5",
            "USD",
            "-5 USD",
            "5 EUR",
            "0 USD",
            "1e3 tokens",
            "5 USD, 6 USD",
            "0.0000001 USD",
            "99999999999999999999 tokens",
            "1_000 tokens",
        ];
        for text in refused {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
