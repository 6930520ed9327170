//! Marks characters that a reader does not see but a model reads.
//!
//! Hidden are control characters, line and paragraph separators, everything that changes the direction of text, tags (an
//! invisible copy of ASCII), and all other characters without a shape, such as variation selectors of the supplement and
//! zero-width spaces in Latin text. Ordinary text keeps what it needs:
//! - a zero-width joiner, non-joiner, space or soft hyphen directly behind a visible character outside of ASCII, as in
//!   Persian, the Indic scripts, Thai and Khmer;
//! - a joiner behind an emoji's variation selector;
//! - a text or emoji variation selector (U+FE0E, U+FE0F) directly behind a visible character outside of ASCII, and in keycaps;
//! - the variation selectors of Mongolian.
//!
//! A second such character in a row is hidden again: runs of them can carry a text of any length.

use std::fmt::Write as _;

use serde_json::Value;
use teamwire_proto::visible::has_no_shape;

/// Returns a JSON value as one line without its end, in which every hidden character is written as an escape. It has the
/// same meaning for every JSON parser.
pub fn json_line(value: &Value) -> String {
    replace_hidden(&value.to_string(), |c, out| {
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// Returns a text in which `write` replaces every hidden character.
pub fn replace_hidden(text: &str, mut write: impl FnMut(char, &mut String)) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match is_hidden(c, before, chars.peek().copied()) {
            true => write(c, &mut out),
            false => out.push(c),
        }
        before = Some(c);
    }
    out
}

/// Returns whether a character is hidden between its neighbors.
fn is_hidden(c: char, before: Option<char>, after: Option<char>) -> bool {
    let follows_foreign =
        before.is_some_and(|before| !before.is_ascii() && !has_no_shape(before) && !before.is_whitespace());
    match c {
        '\u{200D}' => !follows_foreign && !matches!(before, Some('\u{FE0E}' | '\u{FE0F}')),
        '\u{200B}' | '\u{200C}' | '\u{AD}' => !follows_foreign,
        '\u{FE0F}' if after == Some('\u{20E3}') => !matches!(before, Some('0'..='9' | '#' | '*')),
        '\u{FE0E}' | '\u{FE0F}' | '\u{180B}'..='\u{180D}' | '\u{180F}' => !follows_foreign,
        _ => has_no_shape(c),
    }
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
    fn what_hides_or_turns_text_is_marked() {
        for (text, shown) in [
            ("a\u{85}b\u{1b}[2J", "a<85>b<1B>[2J"),
            ("\u{202E}a\u{2066}b\u{200F}\u{61C}", "<202E>a<2066>b<200F><61C>"),
            ("a\u{E0041}\u{E007F}\u{E0100}\u{E01EF}", "a<E0041><E007F><E0100><E01EF>"),
            ("a\u{200B}b\u{200C}c\u{200D}d\u{FEFF}e\u{2060}\u{AD}", "a<200B>b<200C>c<200D>d<FEFF>e<2060><AD>"),
            ("❤\u{FE0F}\u{FE0F}\u{FE00}", "❤\u{FE0F}<FE0F><FE00>"),
            ("می\u{200C}\u{200C}\u{200D}", "می\u{200C}<200C><200D>"),
            ("A\u{FE0F} 1\u{FE0F} \u{200D}", "A<FE0F> 1<FE0F> <200D>"),
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
