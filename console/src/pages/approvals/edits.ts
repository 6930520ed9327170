/** The edits in the detail of a permission request, as the programs that ask for it write them. */

export interface Edit {
  readonly before: string;
  readonly after: string;
}

/** What a detail says: its edits, and everything else in it, such as the path. */
export interface Edits {
  readonly edits: readonly Edit[];
  readonly others: readonly (readonly [string, string])[];
}

/** Reads a JSON object with `old_string` and `new_string`, or with several of them in `edits`. Undefined: it is something else. */
export function readEdits(detail: string): Edits | undefined {
  const input = parse(detail);
  if (!isObject(input)) return undefined;
  const { old_string: _old, new_string: _new, ...single } = input;
  const edit = readEdit(input);
  if (edit) return { edits: [edit], others: shown(single) };
  const { edits: list, ...several } = input;
  if (!Array.isArray(list) || list.length === 0) return undefined;
  // An edit with further properties is not shown as a difference alone: the reader would not see them.
  const edits = list.map((one) => (isObject(one) && Object.keys(one).length === 2 ? readEdit(one) : undefined));
  return edits.every((one) => one !== undefined) ? { edits, others: shown(several) } : undefined;
}

function readEdit({ old_string, new_string }: Record<string, unknown>): Edit | undefined {
  if (typeof old_string !== "string" || typeof new_string !== "string") return undefined;
  return { before: old_string, after: new_string };
}

function shown(input: Record<string, unknown>): [string, string][] {
  return Object.entries(input).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]);
}

function parse(text: string): unknown {
  if (!text.trimStart().startsWith("{")) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
