/** Finds what a person means by a few letters. */

/**
 * Returns how well a text matches a search, where lower is better: it begins with it, a word begins with it, its words have these
 * initials, it contains it, or it contains each of its words. Undefined: it does not match.
 */
export function rank(text: string, search: string): number | undefined {
  const [whole, wanted] = [text.toLowerCase(), search.trim().toLowerCase()];
  const at = whole.indexOf(wanted);
  if (at === 0) return 0;
  if (at > 0 && /[^\p{L}\p{N}]/u.test(whole[at - 1] ?? "")) return 1;
  const initials =
    whole
      .match(/[\p{L}\p{N}]+/gu)
      ?.map((word) => [...word][0])
      .join("") ?? "";
  const isInitials = wanted.length > 1 && initials.includes(wanted.replace(/\s+/g, ""));
  if (isInitials) return 2;
  if (at > 0) return 3;
  return wanted.split(/\s+/).every((word) => whole.includes(word)) ? 4 : undefined;
}

/** Returns the items whose texts match a search, the best first. Items that match equally well keep their order. */
export function find<T>(items: readonly T[], search: string, text: (item: T) => string): T[] {
  if (search.trim() === "") return [...items];
  return items
    .flatMap((item) => {
      const score = rank(text(item), search);
      return score === undefined ? [] : [{ item, score }];
    })
    .sort((a, b) => a.score - b.score)
    .map(({ item }) => item);
}
