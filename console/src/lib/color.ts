/** The color of each member, the same on every page. */

import { team } from "../team.svelte.js";

/** The hues that names get, in degrees of OKLCH. Red is missing: it says that something is wrong. */
const HUES = [55, 85, 110, 140, 165, 195, 220, 245, 270, 295, 320, 345] as const;

/** What looks like the name of a color, but has none. */
const NO_COLOR = /^(transparent|currentcolor|inherit|initial|unset|revert)$/i;

/**
 * Returns the color of a member, to be set as `--member` on an element of the class `member-ink` or `member-mark`: the color that
 * the member has asked for, or one that follows from its name.
 */
export function colorOf(name: string): string {
  const wanted = team.members.get(name)?.attributes?.color ?? "";
  return isColor(wanted) ? wanted : `oklch(0.6 0.13 ${hueOf(name)})`;
}

/** Returns whether a text is `#rrggbb` or a color that browsers know by name. */
function isColor(text: string): boolean {
  if (/^#[0-9a-f]{6}$/i.test(text)) return true;
  return /^[a-z]{3,20}$/i.test(text) && !NO_COLOR.test(text) && CSS.supports("color", text);
}

/** Names are case-insensitive. */
function hueOf(name: string): number {
  let hash = 2_166_136_261;
  for (const char of name.toLowerCase()) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 16_777_619);
  // The lower bits of this hash depend on little.
  return HUES[((hash ^ (hash >>> 15)) >>> 0) % HUES.length] ?? 0;
}
