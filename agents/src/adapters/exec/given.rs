//! What a program is given: lines of JSON, or a prompt.

use teamwire_client::Delivery;
use teamwire_proto::v1;

use crate::{
    agent_text::{self, AnswerWith},
    config::BatchInput,
    incarnation::Additions,
    line_protocol::input_lines::{self, Welcome},
};

/// How much text a prompt has that is an argument. Linux takes 128 KiB, with the welcome.
const ARGUMENT_BYTES_MAX: usize = 96 * 1024;

impl BatchInput {
    /// Returns a message as the program reads it.
    pub(super) fn message(self, delivery: &Delivery) -> String {
        match self {
            Self::Lines => input_lines::message(delivery).text,
            Self::PromptOnStdin | Self::PromptAsArgument => {
                let text =
                    agent_text::delivered_message(&delivery.message, delivery.delivery_count, AnswerWith::Command);
                format!("{text}\n")
            }
        }
    }

    /// Returns a claimed task as the program reads it.
    pub(super) fn task(self, claim: &v1::Claim) -> String {
        match self {
            Self::Lines => input_lines::task(claim).text,
            Self::PromptOnStdin | Self::PromptAsArgument => agent_text::claim(claim, AnswerWith::Command) + "\n",
        }
    }

    /// Returns how many of these messages fit into one batch, at least one.
    pub(super) fn fitting<'a>(self, messages: impl Iterator<Item = &'a Delivery>) -> usize {
        if self != Self::PromptAsArgument {
            return messages.count();
        }
        fit(messages.map(|delivery| self.message(delivery).len()))
    }

    /// Returns what is written to the program's input, and what is added to its command.
    pub(super) fn hand_over(self, welcome: &Welcome, input: String) -> (String, Additions) {
        match self {
            Self::Lines => (input, Additions::default()),
            Self::PromptOnStdin => (format!("{}\n\n{input}", welcome.text), Additions::default()),
            Self::PromptAsArgument => {
                let prompt = format!("{}\n\n{}", welcome.text, cut(input));
                (String::new(), Additions { after: vec![prompt.into()], ..Additions::default() })
            }
        }
    }
}

/// Returns how many texts of these sizes fit into one argument, at least one.
fn fit(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = |size: &usize| {
        bytes += size;
        bytes <= ARGUMENT_BYTES_MAX
    };
    sizes.take_while(fits).count().max(1)
}

/// Truncates a text that is too long for an argument.
fn cut(mut input: String) -> String {
    if input.len() > ARGUMENT_BYTES_MAX {
        input.truncate(input.floor_char_boundary(ARGUMENT_BYTES_MAX));
        input.push_str("\n[the rest is too long for an argument: `teamwire inbox` shows it]\n");
    }
    // An argument ends at a zero byte.
    input.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_holds_as_much_as_fits() {
        assert_eq!(fit([40_000, 40_000, 40_000, 10].into_iter()), 2);
        assert_eq!(fit([200_000].into_iter()), 1);
        assert!(cut("é".repeat(200_000)).len() < 100 * 1024);
        assert_eq!(cut("a\0b".to_owned()), "a\u{fffd}b");
    }
}
