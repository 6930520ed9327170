/** The part of a long text that is shown unasked. */

/** How many characters and lines of a long text are shown. */
const CHARS = 1_200;
const LINES = 18;

/** How many characters and lines a text may have to be shown as a whole: to hide a few lines helps no one. */
const CHARS_MAX = 1_600;
const LINES_MAX = 24;

/** How much is shown before what is searched for. */
const BEFORE = 200;

/** Returns a text, or a part of a long one: its beginning, or what is around the first place where the search finds it. */
export function excerpt(text: string, search: string): string {
  if (text.length <= CHARS_MAX && text.split("\n", LINES_MAX + 1).length <= LINES_MAX) return text;
  const start = cut(text);
  const hit = search ? text.toLowerCase().indexOf(search.toLowerCase()) : -1;
  if (hit < 0 || hit + search.length <= start.length) return `${start}…`;
  const rest = text.slice(hit > BEFORE ? hit - BEFORE : 0);
  const part = cut(rest);
  return `…${part}${part.length < rest.length ? "…" : ""}`;
}

/** Returns the beginning of a text, without half a character at either end. */
function cut(text: string): string {
  const part = text.split("\n", LINES).join("\n").slice(0, CHARS);
  return part.replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, "");
}
