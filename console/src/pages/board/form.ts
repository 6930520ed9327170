/** The form of a task, and how edits of two people are merged. */

import type { v1 } from "@teamwire/client";

export interface Form {
  subject: string;
  description: string;
  activeForm: string;
  /** Empty: no member. */
  owner: string;
  /** The ids of tasks, separated by commas. */
  blockedBy: string;
  /** Patterns of paths, one on each line. */
  paths: string;
  exclusive: boolean;
  /** Empty: no review. */
  reviewer: string;
  mergeOnApproval: boolean;
  metadata: Record<string, string>;
}

/** The fields that are written as they are. */
const PLAIN = ["subject", "description", "activeForm", "owner", "exclusive", "reviewer", "mergeOnApproval"] as const;

const FIELDS = [...PLAIN, "blockedBy", "paths"] as const;

export const EMPTY: Form = {
  subject: "",
  description: "",
  activeForm: "",
  owner: "",
  blockedBy: "",
  paths: "",
  exclusive: false,
  reviewer: "",
  mergeOnApproval: false,
  metadata: {},
};

export function formOf(task: v1.Task): Form {
  const { subject, description, activeForm, owner, exclusive, reviewer, mergeOnApproval } = task;
  return {
    ...{ subject, description, activeForm, owner, exclusive, reviewer, mergeOnApproval },
    blockedBy: task.blockedBy.join(", "),
    paths: task.paths.join("\n"),
    metadata: { ...task.metadata },
  };
}

/** Returns the ids that a person wrote: `1, #2 3`. */
export function readIds(text: string): bigint[] {
  const words = text.split(/[\s,]+/).filter((word) => word !== "");
  const ids = words.map((word) => {
    if (!/^#?\d{1,18}$/.test(word)) throw new Error(`“${word}” is not the number of a task.`);
    return BigInt(word.replace("#", ""));
  });
  return [...new Set(ids)];
}

/** Returns the patterns that a person wrote, one on each line. */
export function readPaths(text: string): string[] {
  return [...new Set(text.split("\n").map((line) => line.trim()))].filter(Boolean);
}

/** Returns the fields of UpdateTask that turn one form into another. */
export function changes(from: Form, to: Form) {
  const [before, after] = [readIds(from.blockedBy), readIds(to.blockedBy)];
  const [old, recent] = [readPaths(from.paths), readPaths(to.paths)];
  return {
    ...Object.fromEntries(PLAIN.flatMap((name) => (from[name] === to[name] ? [] : [[name, to[name]]]))),
    addBlockedBy: after.filter((id) => !before.includes(id)),
    removeBlockedBy: before.filter((id) => !after.includes(id)),
    addPaths: recent.filter((path) => !old.includes(path)),
    removePaths: old.filter((path) => !recent.includes(path)),
    setMetadata: Object.fromEntries(Object.entries(to.metadata).filter(([key, value]) => from.metadata[key] !== value)),
    removeMetadata: Object.keys(from.metadata).filter((key) => !(key in to.metadata)),
  };
}

/**
 * Brings the changes of others into a form that a person is editing. Where both have changed the same, the person's text stays,
 * and the name of the field is among the conflicts.
 */
export function merge(base: Form, mine: Form, theirs: Form): { form: Form; conflicts: string[] } {
  const conflicts: string[] = [];
  const pick = <T>(name: string, old: T, own: T, other: T): T => {
    if (own === old || own === other) return other;
    if (other !== old) conflicts.push(name);
    return own;
  };
  const form: Form = { ...mine, metadata: {} };
  for (const name of FIELDS) Object.assign(form, { [name]: pick<unknown>(name, base[name], mine[name], theirs[name]) });
  for (const key of new Set([...Object.keys(mine.metadata), ...Object.keys(theirs.metadata)])) {
    const value = pick(key, base.metadata[key], mine.metadata[key], theirs.metadata[key]);
    if (value !== undefined) form.metadata[key] = value;
  }
  return { form, conflicts };
}
