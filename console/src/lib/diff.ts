/** Differences between texts, line by line. */

export interface Line {
  readonly kind: "same" | "added" | "removed" | "head";
  readonly text: string;
}

/** The largest table that is computed: the product of the lines that may differ. Larger texts come back as replaced. */
const CELLS_MAX = 4_000_000;

/** Compares two texts by their longest common subsequence of lines. */
export function lineDiff(before: string, after: string): Line[] {
  const [a, b] = [split(before), split(after)];
  let [start, endA, endB] = [0, a.length, b.length];
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) [endA, endB] = [endA - 1, endB - 1];
  const lines = (kind: Line["kind"], texts: string[]) => texts.map((text): Line => ({ kind, text }));
  return [
    ...lines("same", a.slice(0, start)),
    ...middle(a.slice(start, endA), b.slice(start, endB)),
    ...lines("same", a.slice(endA)),
  ];
}

function middle(a: readonly string[], b: readonly string[]): Line[] {
  const width = b.length + 1;
  const isSmall = a.length * b.length <= CELLS_MAX;
  // The length of the longest common subsequence of what follows in both.
  const common = new Uint16Array(isSmall ? (a.length + 1) * width : 0);
  const at = (i: number, j: number) => common[i * width + j] ?? 0;
  for (let i = a.length - 1; isSmall && i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const found: Line[] = [];
  for (let [i, j] = [0, 0]; i < a.length || j < b.length;) {
    const [old, recent] = [a[i], b[j]];
    if (isSmall && old !== undefined && old === recent) {
      found.push({ kind: "same", text: old });
      [i, j] = [i + 1, j + 1];
    } else if (old !== undefined && (recent === undefined || at(i + 1, j) >= at(i, j + 1))) {
      found.push({ kind: "removed", text: old });
      i++;
    } else {
      found.push({ kind: "added", text: recent ?? "" });
      j++;
    }
  }
  return found;
}

const HUNK = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/;
const SIGNS: Readonly<Record<string, Line["kind"]>> = { "+": "added", "-": "removed", " ": "same", "": "same" };

/** Reads a unified diff. Text around its hunks is kept as heads. Undefined: the text is no unified diff. */
export function readPatch(text: string): Line[] | undefined {
  let [removed, added] = [0, 0];
  let hunks = 0;
  const lines = split(text).map((line): Line => {
    const hunk = HUNK.exec(line);
    const kind = SIGNS[line[0] ?? ""];
    if (hunk) {
      [removed, added] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
      hunks++;
    } else if (kind !== undefined && (removed > 0 || added > 0)) {
      if (kind !== "added") removed--;
      if (kind !== "removed") added--;
      return { kind, text: line.slice(1) };
    }
    return { kind: "head", text: line };
  });
  return hunks > 0 ? lines : undefined;
}

/** Returns how many lines were added and removed: `+3 −1`. */
export function changeCount(lines: readonly Line[]): string {
  const count = (kind: Line["kind"]) => lines.filter((line) => line.kind === kind).length;
  return `+${count("added")} −${count("removed")}`;
}

function split(text: string): string[] {
  return text === "" ? [] : text.replaceAll("\r\n", "\n").split("\n");
}
