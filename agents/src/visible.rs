//! Marks characters that a reader does not see but a model reads.
//!
//! Hidden are control characters, line and paragraph separators, everything that changes the direction of text, tags
//! (an invisible copy of ASCII), and all other characters without a shape, except those that a language or an emoji
//! needs ([`is_hidden`](teamwire_proto::visible::is_hidden)). Each kind of output has one function, and all of them go through [`replace_hidden`]:
//!
//! | output | function | a hidden character becomes |
//! |---|---|---|
//! | what an agent reads | [`agent_text`](crate::agent_text) | `&#x202E;` |
//! | a line of JSON | [`json_line`] | `\\u202e`, which every JSON parser decodes to the character |
//! | what a person reads at a terminal, and a log | [`shown`], [`shown_line`] | `\\u{202e}` |
//!
//! The console has its own, in `console/src/lib/text.ts`. `proto/testdata/hostile_text.json` has texts to test them
//! with.

use std::fmt::Write as _;

use serde_json::Value;
pub use teamwire_proto::visible::{replace_hidden, shown};

/// Returns a JSON value as one line without its end, in which every hidden character is written as an escape. It has
/// the same meaning for every JSON parser.
pub fn json_line(value: &Value) -> String {
    replace_hidden(&value.to_string(), |c, out| {
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// Returns a text for a terminal or a log as one line, in which line breaks and tabs are escapes, too.
pub fn shown_line(text: &str) -> String {
    replace_hidden(text, |c, out| out.extend(c.escape_default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn marked(text: &str) -> String {
        replace_hidden(text, |c, out| out.push_str(&format!("<{:X}>", u32::from(c))))
    }

    #[test]
    fn ordinary_text_of_every_script_stays_as_it_is() {
        for text in [
            "plain, déjà vu, 任务, ελληνικά, עברית, العربية",
            "می\u{200C}خواهم",
            "क्\u{200D}ष ക്\u{200D}",
            "ភាសា\u{200B}ខ្មែរ",
            "❤\u{FE0F} 👩\u{200D}❤\u{FE0F}\u{200D}👨 1\u{FE0F}\u{20E3} 👍🏽 🇩🇪 ☺\u{FE0E}",
            "ᠮ\u{180B}",
        ] {
            assert_eq!(marked(text), text);
        }
    }

    #[test]
    fn characters_that_hide_or_reorder_text_are_marked() {
        for (text, shown) in [
            ("a\u{85}b\u{1b}[2J", "a<85>b<1B>[2J"),
            ("\u{202E}a\u{2066}b\u{200F}\u{61C}", "<202E>a<2066>b<200F><61C>"),
            ("a\u{E0041}\u{E007F}\u{E0100}\u{E01EF}", "a<E0041><E007F><E0100><E01EF>"),
            ("a\u{200B}b\u{200C}c\u{200D}d\u{FEFF}e\u{2060}\u{AD}", "a<200B>b<200C>c<200D>d<FEFF>e<2060><AD>"),
            ("❤\u{FE0F}\u{FE0F}\u{FE00}", "❤\u{FE0F}<FE0F><FE00>"),
            ("می\u{200C}\u{200C}\u{200D}", "می\u{200C}<200C><200D>"),
            ("A\u{FE0F} 1\u{FE0F} \u{200D}", "A<FE0F> 1<FE0F> <200D>"),
            ("é\u{200B}任\u{200D}务\u{FE0F}د\u{AD}", "é<200B>任<200D>务<FE0F>د<AD>"),
            ("👩\u{200D}x 👩\u{200D}", "👩<200D>x 👩<200D>"),
            ("\u{3164}\u{115F}\u{34F}\u{2028}", "<3164><115F><34F><2028>"),
        ] {
            assert_eq!(marked(text), shown);
        }
    }

    #[test]
    fn a_line_of_json_escapes_what_is_hidden_and_means_the_same() {
        let value = json!({"k\u{202E}": "a\u{85}\u{E0041}\u{7f}\"\\ ❤\u{FE0F}"});
        let line = json_line(&value);
        assert_eq!(line, "{\"k\\u202e\":\"a\\u0085\\udb40\\udc41\\u007f\\\"\\\\ ❤\u{FE0F}\"}");
        assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), value);
    }

    #[test]
    fn hostile_texts_are_shown_as_the_corpus_expects_and_round_trip_as_json() {
        let corpus: Value = serde_json::from_str(include_str!("../../proto/testdata/hostile_text.json")).expect("JSON");
        let cases = corpus["texts"].as_array().expect("texts");
        assert!(cases.len() > 20, "{}", cases.len());
        for case in cases {
            let text = case["text"].as_str().expect("a text");
            let expected = case["shown"].as_str().unwrap_or(text);
            assert_eq!(shown(text), expected, "{}", case["name"]);
            let line = json_line(&json!(text));
            assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), json!(text), "{}", case["name"]);
            assert!(!line.chars().any(char::is_control), "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_line_of_json_reads_back(text in any::<String>(), odd in "[\u{80}-\u{9f}\u{200B}-\u{202E}\u{FE00}-\u{FE0F}❤a]{0,20}") {
            let value = json!({ "text": text, "odd": odd });
            let line = json_line(&value);
            prop_assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), value);
            prop_assert!(!line.chars().any(char::is_control));
        }
    }
}
