/** Text that agents wrote, which is hostile until shown otherwise: what a reader would not see is made visible. */

/** A piece of a text: either as it is, or the name of a character that shows nothing. */
export interface Piece {
  readonly text: string;
  readonly isHidden: boolean;
}

/**
 * Control characters (but not tabs and line breaks), separators of lines, marks of annotations, and everything that a font may
 * ignore: direction overrides, zero-width characters, tags, variation selectors.
 */
const HIDDEN = /[\u2028\u2029\ufff9-\ufffb]|(?![\t\n])\p{Cc}|\p{Default_Ignorable_Code_Point}/gu;

/** What may change the character before it: an emoji's color, a joined emoji. */
const EMOJI =
  /(?<=\p{Extended_Pictographic}[\u{1f3fb}-\u{1f3ff}]?)\ufe0f|(?<=\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?)\u200d(?=\p{Extended_Pictographic})/gu;

/** Splits a text into what can be shown as it is and what has to be named. */
export function pieces(text: string): Piece[] {
  const plain = text.replaceAll("\r\n", "\n");
  if (plain.search(HIDDEN) < 0) return [{ text: plain, isHidden: false }];
  const harmless = new Set([...plain.matchAll(EMOJI)].map(({ index }) => index));
  const found: Piece[] = [];
  let from = 0;
  for (const { 0: char, index } of plain.matchAll(HIDDEN)) {
    if (harmless.has(index)) continue;
    if (index > from) found.push({ text: plain.slice(from, index), isHidden: false });
    found.push({ text: name(char), isHidden: true });
    from = index + char.length;
  }
  if (from < plain.length) found.push({ text: plain.slice(from), isHidden: false });
  return found;
}

/** Returns a text on one line, with everything visible. For attributes, which cannot have elements. */
export function oneLine(text: string): string {
  return pieces(text)
    .map((piece) => piece.text)
    .join("")
    .replace(/\s+/g, " ");
}

function name(char: string): string {
  return `\\u{${char.codePointAt(0)?.toString(16)}}`;
}
