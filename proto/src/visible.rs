//! Which characters a reader sees.

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{DefaultIgnorableCodePoint, ExtendedPictographic, GeneralCategory, Script},
};

/// Returns whether a text has a character that a reader sees by itself.
///
/// Marks, which only change the character before them, do not count, and neither do spaces and other blanks.
pub fn is_visible(text: &str) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new();
    let is_mark = |c| matches!(category.get(c), GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark);
    text.chars().any(|c| !has_no_shape(c) && !is_blank(c) && !is_mark(c))
}

/// Returns whether a character is a control character or a line separator, changes the direction of text, or shows
/// nothing.
///
/// Spaces have a shape: a reader sees their width. Variation selectors and joiners have none, although they can change
/// the characters beside them.
pub fn has_no_shape(c: char) -> bool {
    c.is_control()
        // Separators of lines and paragraphs, and the marks of interlinear annotations.
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FFF9}'..='\u{FFFB}')
        || !c.is_ascii() && CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// Returns whether a character may end a line: in a terminal, in a browser, or for a program.
pub fn ends_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns whether a reader does not see a character between its neighbors, so that it must be marked. `before`: the
/// character before it, unless that was marked.
///
/// A character without a shape is marked, except where a language or an emoji needs it:
/// - a joiner or non-joiner behind a letter or sign of a script that joins letters, as in Persian and the Indic
///   scripts;
/// - a zero-width space behind a letter or sign of a script that does not separate words, as in Thai and Khmer;
/// - the variation selectors of Mongolian, behind a Mongolian letter;
/// - a text or emoji variation selector behind an emoji, and in keycaps; and a joiner between two emoji.
///
/// A second such character in a row is marked: runs of them can carry a text of any length.
pub fn is_hidden(c: char, before: Option<char>, after: Option<char>) -> bool {
    let script =
        before.filter(|before| !has_no_shape(*before)).map(|before| CodePointMapData::<Script>::new().get(before));
    let is_emoji = |c: Option<char>| c.is_some_and(|c| CodePointSetData::new::<ExtendedPictographic>().contains(c));
    match c {
        '\u{200D}' if is_emoji(after) => {
            !is_emoji(before) && !matches!(before, Some('\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}'))
        }
        '\u{200C}' | '\u{200D}' => !script.is_some_and(|script| JOINING.contains(&script)),
        '\u{200B}' => !script.is_some_and(|script| WITHOUT_SPACES.contains(&script)),
        '\u{180B}'..='\u{180D}' | '\u{180F}' => script != Some(Script::Mongolian),
        '\u{FE0F}' if after == Some('\u{20E3}') => !matches!(before, Some('0'..='9' | '#' | '*')),
        '\u{FE0E}' | '\u{FE0F}' => !is_emoji(before),
        _ => has_no_shape(c),
    }
}

/// The scripts whose letters join, or form conjuncts, so that texts need joiners and non-joiners.
const JOINING: [Script; 22] = [
    Script::Arabic,
    Script::Syriac,
    Script::Mandaic,
    Script::Nko,
    Script::Mongolian,
    Script::Devanagari,
    Script::Bengali,
    Script::Gurmukhi,
    Script::Gujarati,
    Script::Oriya,
    Script::Tamil,
    Script::Telugu,
    Script::Kannada,
    Script::Malayalam,
    Script::Sinhala,
    Script::Khmer,
    Script::Myanmar,
    Script::Tibetan,
    Script::Balinese,
    Script::Javanese,
    Script::Adlam,
    Script::HanifiRohingya,
];

/// The scripts that do not separate words, so that texts mark where a line may break.
const WITHOUT_SPACES: [Script; 6] =
    [Script::Thai, Script::Lao, Script::Khmer, Script::Myanmar, Script::Tibetan, Script::Javanese];

/// Returns whether a character is a space, or a symbol that looks like one.
fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            // An empty Braille pattern, a musical notehead without a head, and hieroglyphs that fill a space.
            '\u{2800}' | '\u{1D159}' | '\u{13441}' | '\u{13442}'
        )
}

/// Returns a text in which `write` replaces every hidden character.
pub fn replace_hidden(text: &str, mut write: impl FnMut(char, &mut String)) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_marked = is_hidden(c, before, chars.peek().copied());
        match is_marked {
            true => write(c, &mut out),
            false => out.push(c),
        }
        before = Some(c).filter(|_| !is_marked);
    }
    out
}

/// Returns a text for a terminal or a log. Tabs and line breaks stay, and those of Windows become plain ones.
pub fn shown(text: &str) -> String {
    replace_hidden(&text.replace("\r\n", "\n"), |c, out| match c {
        '\n' | '\t' => out.push(c),
        c => out.extend(c.escape_unicode()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INVISIBLE: [char; 33] = [
        ' ',
        '\t',
        '\n',
        '\u{0}',
        '\u{1b}',
        '\u{85}',
        '\u{a0}',
        '\u{ad}',
        '\u{34f}',
        '\u{61c}',
        '\u{115f}',
        '\u{1160}',
        '\u{17b4}',
        '\u{180e}',
        '\u{200b}',
        '\u{200d}',
        '\u{2028}',
        '\u{202e}',
        '\u{2060}',
        '\u{2065}',
        '\u{2800}',
        '\u{3000}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{feff}',
        '\u{ffa0}',
        '\u{fff0}',
        '\u{fffa}',
        '\u{13441}',
        '\u{1d159}',
        '\u{1d173}',
        '\u{e0041}',
        '\u{301}',
    ];

    proptest! {
        #[test]
        fn text_is_visible_only_if_a_character_shows_by_itself(
            around in proptest::collection::vec(prop::sample::select(INVISIBLE.to_vec()), 0..8),
            shown in prop::sample::select(vec!['a', '0', '-', '完', '👍', 'é', '\u{2801}', 'ᅡ', 'क', '\u{fffd}', '\u{e000}']),
            at in any::<prop::sample::Index>(),
        ) {
            let mut text = around;
            prop_assert!(!is_visible(&text.iter().collect::<String>()), "{text:?}");
            text.insert(at.index(text.len() + 1), shown);
            prop_assert!(is_visible(&text.iter().collect::<String>()), "{text:?}");
        }

        #[test]
        fn characters_without_a_shape_are_not_visible(c in any::<char>()) {
            prop_assert!(!has_no_shape(c) || !is_visible(&c.to_string()));
            prop_assert!(!c.is_control() || has_no_shape(c));
            prop_assert!(!c.is_alphanumeric() || !has_no_shape(c) || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c));
        }
    }

    #[test]
    fn every_default_ignorable_character_has_no_shape() {
        let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        let all: Vec<char> = ('\0'..=char::MAX).filter(|c| ignorable.contains(*c)).collect();
        // Thousands are reserved: text may use them before this version of Unicode knows them.
        assert!(all.len() > 4_000, "{}", all.len());
        for c in all {
            assert!(has_no_shape(c) && !is_visible(&c.to_string()), "{c:?}");
        }
        assert!(!is_visible(""));
    }
}
