/** The tasks of the board: where each belongs, and who may do what with it. */

import { v1 } from "@teamwire/client";
import type { Caller } from "../../session.svelte.js";

export const COLUMNS = ["blocked", "ready", "progress", "review", "done"] as const;
export type Column = (typeof COLUMNS)[number];

export const COLUMN_NAMES: Readonly<Record<Column, string>> = {
  blocked: "Blocked",
  ready: "Ready",
  progress: "In progress",
  review: "In review",
  done: "Done",
};

export function columnOf(task: v1.Task): Column {
  if (task.status === v1.TaskStatus.COMPLETED) return "done";
  if (task.status === v1.TaskStatus.IN_PROGRESS) return "progress";
  if (task.status === v1.TaskStatus.IN_REVIEW) return "review";
  return task.waitingFor.length > 0 ? "blocked" : "ready";
}

const seconds = (at: { seconds: bigint } | undefined) => Number(at?.seconds ?? 0n);
const byId = (a: v1.Task, b: v1.Task) => Number(a.id - b.id);

/** Sorts tasks into columns: the oldest claim, the oldest review and the last result first, everything else by id. */
export function columns(tasks: Iterable<v1.Task>): Record<Column, v1.Task[]> {
  const sorted: Record<Column, v1.Task[]> = { blocked: [], ready: [], progress: [], review: [], done: [] };
  for (const task of tasks) if (task.status !== v1.TaskStatus.DELETED) sorted[columnOf(task)].push(task);
  sorted.blocked.sort(byId);
  sorted.ready.sort(byId);
  sorted.progress.sort((a, b) => seconds(a.claimedAt) - seconds(b.claimedAt) || byId(a, b));
  sorted.review.sort((a, b) => seconds(a.updatedAt) - seconds(b.updatedAt) || byId(a, b));
  sorted.done.sort((a, b) => seconds(b.closedAt) - seconds(a.closedAt) || byId(b, a));
  return sorted;
}

/** What the filter of owners is for tasks without one. No member can have this name. */
export const UNOWNED = "(none)";

/** Returns the tasks of an owner in which a text occurs. Empty: any. */
export function filtered(tasks: Iterable<v1.Task>, owner: string, text: string): v1.Task[] {
  const wanted = text.trim().toLowerCase();
  return [...tasks].filter((task) => {
    if (owner && (owner === UNOWNED ? task.owner !== "" : task.owner !== owner)) return false;
    return !wanted || `#${task.id} ${task.subject}\n${task.activeForm}\n${task.owner}`.toLowerCase().includes(wanted);
  });
}

export type Action = "edit" | "assign" | "depend" | "claim" | "release" | "complete" | "delete";

/** Returns whether a caller may do something with a task, as far as the task tells. */
export function may(caller: Caller | undefined, action: Action, task: v1.Task): boolean {
  if (!caller || caller.readOnly || task.status === v1.TaskStatus.DELETED) return false;
  const leads = caller.isLead || caller.kind === "operator";
  const owns = caller.kind === "member" && task.owner.toLowerCase() === caller.member.toLowerCase();
  const isPending = task.status === v1.TaskStatus.PENDING;
  const isClaimed = task.status === v1.TaskStatus.IN_PROGRESS;
  const isInReview = task.status === v1.TaskStatus.IN_REVIEW;
  switch (action) {
    case "edit":
      return isPending || ((isClaimed || isInReview) && (leads || owns));
    case "assign":
      return leads ? isPending || isClaimed || isInReview : isPending && (owns || task.owner === "");
    case "depend":
      return isPending;
    case "claim":
      return caller.kind === "member" && isPending && task.waitingFor.length === 0 && (owns || task.owner === "");
    case "release":
      return (isClaimed && (leads || owns)) || (isInReview && leads);
    case "complete":
      return (
        (isClaimed && (leads || owns)) || (isInReview && leads) || (isPending && leads && task.waitingFor.length === 0)
      );
    case "delete":
      return !(isClaimed || isInReview) || leads || owns;
  }
}

/** Returns the status of a task in words. */
export function statusName(task: v1.Task): string {
  if (task.status === v1.TaskStatus.DELETED) return "deleted";
  return COLUMN_NAMES[columnOf(task)].toLowerCase();
}

/** Returns an ordinal number: `2nd`. */
export function ordinal(n: number): string {
  const suffix = { one: "st", two: "nd", few: "rd", other: "th", zero: "th", many: "th" };
  return `${n}${suffix[new Intl.PluralRules("en", { type: "ordinal" }).select(n)]}`;
}
