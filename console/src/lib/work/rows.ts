/** The rows of a diff that arrives piece by piece. */

/** What a row is. `rest`: it continues the line before it. */
export interface Row {
  readonly kind: "file" | "head" | "hunk" | "added" | "removed" | "same";
  readonly text: string;
  readonly isRest: boolean;
}

/** What is known at the beginning of a piece. */
export interface State {
  /** How many lines of the hunk are to come. */
  readonly removed: number;
  readonly added: number;
  /** The kind of a line that has begun, of which rows were made already. */
  readonly open: Row["kind"] | undefined;
  /** The bytes of a line that has begun, of which no rows were made. */
  readonly carry: Uint8Array;
}

export const START: State = { removed: 0, added: 0, open: undefined, carry: new Uint8Array() };

/** How many characters a row has: longer lines have several rows, so that none is too wide to be drawn. */
const ROW_CHARS = 300;

/** How many bytes of a line wait for its end. */
const CARRY_MAX = 8_192;

const HUNK = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/;

const NEWLINE = 10;

const decoder = new TextDecoder();

/** Reads a piece. `isLast`: nothing comes after it. */
export function readRows(bytes: Uint8Array, before: State, isLast: boolean): { rows: Row[]; after: State } {
  const all = new Uint8Array(before.carry.length + bytes.length);
  all.set(before.carry);
  all.set(bytes, before.carry.length);
  let end = isLast ? all.length : all.lastIndexOf(NEWLINE) + 1;
  // A very long line is shown before its end is known. A character is not cut.
  if (all.length - end > CARRY_MAX) {
    end = all.length;
    for (let at = end - 1; at >= end - 4; at--) {
      const byte = all[at] ?? 0;
      if (byte >= 0xc0) end = at;
      if ((byte & 0xc0) !== 0x80) break;
    }
  }
  const rest = all.slice(end);
  const rows: Row[] = [];
  let { removed, added, open } = before;
  const text = decoder.decode(all.subarray(0, end));
  const lines = text === "" ? [] : text.split("\n");
  const isOpen = lines.at(-1) !== "";
  if (!isOpen) lines.pop();
  for (const line of lines) {
    if (open) {
      if (line) push(rows, open, line, true);
      open = undefined;
      continue;
    }
    const hunk = HUNK.exec(line);
    const sign = line[0] ?? " ";
    let kind: Row["kind"] = line.startsWith("diff --git ") ? "file" : "head";
    if ((removed > 0 || added > 0) && (sign === "+" || sign === "-" || sign === " ")) {
      kind = sign === "+" ? "added" : sign === "-" ? "removed" : "same";
      if (kind !== "added") removed--;
      if (kind !== "removed") added--;
      push(rows, kind, line.slice(1), false);
    } else {
      if (hunk) {
        [removed, added, kind] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1), "hunk"];
      }
      push(rows, kind, line, false);
    }
  }
  if (isOpen && lines.length > 0) open = rows.at(-1)?.kind ?? before.open;
  return { rows, after: { removed, added, open, carry: rest } };
}

function push(rows: Row[], kind: Row["kind"], line: string, isRest: boolean): void {
  // As elsewhere on the page, an end of line in two characters is none to look at, unless the change is about it.
  const text = kind === "same" && line.endsWith("\r") ? line.slice(0, -1) : line;
  for (let from = 0; from === 0 || from < text.length;) {
    let to = Math.min(from + ROW_CHARS, text.length);
    // Both halves of a character stay together.
    if (to < text.length && /[\ud800-\udbff]/.test(text[to - 1] ?? "")) to--;
    rows.push({ kind, text: text.slice(from, to), isRest: isRest || from > 0 });
    from = Math.max(to, 1);
  }
}

/** Returns the name of the file that a row of the kind `file` begins. */
export function fileName({ text }: Row): string {
  const name = /^diff --git a\/(.+) b\/\1$/.exec(text)?.[1] ?? text.slice("diff --git ".length);
  // A copy: a part of a text keeps the whole text in memory.
  return [...name].join("");
}

/** A line of what git shows of how many lines changed. */
export interface FileStat {
  readonly path: string;
  /** How many lines, and which: `12 ++++--`. */
  readonly amount: string;
}

const STAT = /^ (.*\S) +\| +(Bin.*|Unmerged|\d+(?: [+-]+)?)$/;

/** Returns the files that git lists, in the order in which the diff has them. */
export function readStat(text: string): FileStat[] {
  return text.split("\n").flatMap((line): FileStat[] => {
    const [, path, amount] = STAT.exec(line) ?? [];
    return path !== undefined && amount !== undefined ? [{ path, amount }] : [];
  });
}
