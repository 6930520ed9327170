//! What models cost, for programs that report tokens and no cost.

use teamwire_proto::v1::Usage;

/// The most that a million tokens may cost, in US dollars.
const USD_MAX: f64 = 100_000.0;

/// What a model costs. Prices are in millionths of a US dollar for a million tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Price {
    /// The model's name, or the beginning of names before a `*`.
    model: String,
    input: u64,
    cached_input: u64,
    output: u64,
}

/// The prices of models, as the operator has configured them. The first that fits a model counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices(Vec<Price>);

impl Prices {
    /// Parses lines such as `gpt-5.2* 1.25 0.125 10`: a model, and the US dollars for a million tokens of its input, of its
    /// cached input, and of its output.
    ///
    /// # Errors
    ///
    /// Fails with the first line that has another form.
    pub fn parse(lines: &[String]) -> Result<Self, String> {
        lines.iter().map(|line| Price::parse(line).ok_or_else(|| line.clone())).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the cost of these tokens in millionths of a US dollar. `None` if the price of the model is not known.
    pub fn cost(&self, model: &str, tokens: Usage) -> Option<u64> {
        self.0.iter().find(|price| price.is_of(model)).map(|price| price.cost(tokens))
    }

    /// Returns what was used, with its cost if the program has reported none and the price of its model is known.
    pub fn complete(&self, model: &str, used: Usage) -> Usage {
        let cost = self.cost(model, used).filter(|_| used.cost_usd_micros == 0);
        cost.map_or(used, |cost_usd_micros| Usage { cost_usd_micros, ..used })
    }
}

impl Price {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let model = words.next()?.to_lowercase();
        let mut usd = || {
            let usd: f64 = words.next()?.parse().ok()?;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            (0.0..=USD_MAX).contains(&usd).then(|| (usd * 1e6).round() as u64)
        };
        let price = Self { model, input: usd()?, cached_input: usd()?, output: usd()? };
        words.next().is_none().then_some(price)
    }

    fn is_of(&self, model: &str) -> bool {
        let model = model.to_lowercase();
        match self.model.strip_suffix('*') {
            // A `*` alone fits even a model that is not known.
            Some(beginning) => model.starts_with(beginning),
            None => model == self.model,
        }
    }

    /// Returns the cost in millionths of a US dollar.
    fn cost(&self, used: Usage) -> u64 {
        let fresh = used.input_tokens.saturating_sub(used.cached_input_tokens);
        let of = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let sum = of(fresh, self.input)
            + of(used.cached_input_tokens, self.cached_input)
            + of(used.output_tokens, self.output);
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(lines: &[&str]) -> Result<Prices, String> {
        Prices::parse(&lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_first_price_that_fits_completes_what_a_program_does_not_report() {
        let prices = prices(&["gpt-5.2 2 1 8", "GPT-5* 1.25 0.125 10"]).unwrap();
        let used =
            Usage { input_tokens: 1_000_000, cached_input_tokens: 400_000, output_tokens: 100_000, ..Usage::default() };
        let cost = |model: &str| prices.complete(model, used).cost_usd_micros;
        assert_eq!(cost("gpt-5.2"), 1_200_000 + 400_000 + 800_000);
        assert_eq!(cost("gpt-5.2-codex"), 750_000 + 50_000 + 1_000_000);
        assert_eq!((cost("other"), cost("")), (0, 0));
        let reported = Usage { cost_usd_micros: 7, ..used };
        assert_eq!(prices.complete("gpt-5.2", reported), reported, "the program knows better");
        let one = Usage { output_tokens: 1, ..Usage::default() };
        assert_eq!(prices.complete("gpt-5.2", one).cost_usd_micros, 8);
    }

    #[test]
    fn a_line_of_another_form_is_refused() {
        for line in ["", "m", "m 1 2", "m 1 2 3 4", "m 1 2 -3", "m 1 2 NaN", "m 1 2 inf", "m 1 2 1e9", "m one 2 3"] {
            assert_eq!(prices(&["a 1 1 1", line]), Err(line.to_owned()), "{line:?}");
        }
    }

    #[test]
    fn a_star_alone_fits_what_is_not_known() {
        let prices = prices(&["known 1 1 1", "* 2 2 2"]).unwrap();
        let used = Usage { input_tokens: 1_000_000, ..Usage::default() };
        let cost = |model: &str| prices.complete(model, used).cost_usd_micros;
        assert_eq!((cost("known"), cost("other"), cost("")), (1_000_000, 2_000_000, 2_000_000));
    }
}
