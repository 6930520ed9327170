/** Text that agents wrote, which is hostile until shown otherwise: what a reader would not see is made visible. */

/** A piece of a text: either as it is, or the name of a character that shows nothing. */
export interface Piece {
  readonly text: string;
  readonly isHidden: boolean;
  /** What the person searches for. */
  readonly isHit?: boolean;
}

/** How many pieces a text is shown in at most: each hidden character costs an element of the page. */
const PIECES_MAX = 1_000;

/**
 * Control characters (but not tabs and line breaks), separators of lines, marks of annotations, and everything that a font may
 * ignore: direction overrides, zero-width characters, tags, variation selectors.
 */
const HIDDEN = /[\u2028\u2029\ufff9-\ufffb]|(?![\t\n])\p{Cc}|\p{Default_Ignorable_Code_Point}/gu;

/** A hidden character and its repetitions. */
const RUN = new RegExp(`(${HIDDEN.source})\\1*`, "gu");

/** The scripts whose letters join, and those that do not separate words. */
const JOINING =
  "Arabic Syriac Mandaic Nko Mongolian Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala Khmer Myanmar Tibetan Balinese Javanese Adlam Hanifi_Rohingya";
const WITHOUT_SPACES = "Thai Lao Khmer Myanmar Tibetan Javanese";

/** What an emoji or a language needs, so that it is shown as it is: see `is_hidden` in `proto/src/visible.rs`. */
const HARMLESS = new RegExp(
  [
    "(?<=\\p{Extended_Pictographic})[\\ufe0e\\ufe0f]",
    "(?<=[0-9#*])\\ufe0f(?=\\u20e3)",
    "(?<=[\\p{Extended_Pictographic}\\ufe0f\\u{1f3fb}-\\u{1f3ff}])\\u200d(?=\\p{Extended_Pictographic})",
    `${behind(JOINING)}[\\u200c\\u200d](?!\\p{Extended_Pictographic})`,
    `${behind(WITHOUT_SPACES)}\\u200b`,
    `${behind("Mongolian")}[\\u180b-\\u180d\\u180f]`,
  ].join("|"),
  "gu",
);

/** Returns a pattern for the place behind a visible character of one of these scripts. */
function behind(scripts: string): string {
  const letters = scripts.split(" ").map((script) => `\\p{Script=${script}}`);
  return `(?<=(?!\\p{Default_Ignorable_Code_Point})[${letters.join("")}])`;
}

/** Splits a text into what can be shown as it is and what has to be named. */
export function pieces(text: string): Piece[] {
  const plain = text.replaceAll("\r\n", "\n");
  if (plain.search(HIDDEN) < 0) return [{ text: plain, isHidden: false }];
  const harmless = new Set([...plain.matchAll(HARMLESS)].map(({ index }) => index));
  const found: Piece[] = [];
  let from = 0;
  const flush = (to: number) => {
    if (to > from) found.push({ text: plain.slice(from, to), isHidden: false });
    from = to;
  };
  for (const { 0: run, index } of plain.matchAll(RUN)) {
    const [char = ""] = run;
    // A second one in a row is hidden.
    const start = harmless.has(index) ? index + char.length : index;
    const times = (index + run.length - start) / char.length;
    if (times < 1) continue;
    flush(start);
    found.push({ text: times > 1 ? `${name(char)}×${times}` : name(char), isHidden: true });
    from = index + run.length;
  }
  flush(plain.length);
  if (found.length <= PIECES_MAX) return found;
  const rest = found.slice(PIECES_MAX - 1).map((piece) => piece.text);
  return [...found.slice(0, PIECES_MAX - 1), { text: rest.join(""), isHidden: false }];
}

/** Splits pieces further, so that each place where a text is found is a piece. Letter case does not matter. */
export function hits(all: readonly Piece[], wanted: string): Piece[] {
  if (!wanted) return [...all];
  const pattern = new RegExp(`(${wanted.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")})`, "giu");
  return all.flatMap((piece) => {
    if (piece.isHidden) return [piece];
    const parts = piece.text.split(pattern);
    if (parts.length > 2 * PIECES_MAX) return [piece];
    // A pattern with one group splits a text into what is between the hits, and the hits, in turn.
    const split = parts.map((text, index) => ({ text, isHidden: false, isHit: index % 2 === 1 }));
    return split.filter(({ text }) => text);
  });
}

/** Returns a text on one line, with everything visible. For attributes, which cannot have elements. */
export function oneLine(text: string): string {
  return pieces(text)
    .map((piece) => piece.text)
    .join("")
    .replace(/\s+/g, " ");
}

/**
 * Returns what permission is asked for, in one line, as `permission` in `proto/src/word.rs` does: the tool, and the command or the
 * edit itself, with the ends of lines shown. The summary, in which the member that asks can write anything, only replaces a missing
 * detail, and is marked.
 */
export function permission({ tool, summary }: { tool: string; summary: string }, detail: string): string {
  const lines = detail.split(/[\n-\r\u0085\u2028\u2029]/).map((line) => oneLine(line).trim());
  const asked = lines.filter((line) => line !== "").join(" ⏎ ");
  if (asked === "") return `${oneLine(tool)} (described as: ${oneLine(summary)})`;
  const { length } = asked;
  const ends = () => `${asked.slice(0, 140)} …[${length - 200} more characters]… ${asked.slice(-60)}`;
  return `${oneLine(tool)}: ${length > 240 ? ends() : asked}`;
}

/** Returns a text that ends as a sentence does. */
export function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

function name(char: string): string {
  return `\\u{${char.codePointAt(0)?.toString(16)}}`;
}
