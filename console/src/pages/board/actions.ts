/** What a person does with a task. */

import type { Client, v1 } from "@teamwire/client";
import { act } from "../../lib/act.js";
import { session } from "../../session.svelte.js";
import { team } from "../../team.svelte.js";

/** An action that the person confirms first. */
export interface Question {
  readonly name: string;
  readonly explains: string;
  /** What the person may enter. Absent: nothing. */
  readonly field?: {
    readonly label: string;
    readonly isMember?: boolean;
    readonly isLong?: boolean;
    readonly value?: string;
  };
  readonly isDangerous?: boolean;
  /** Does it. Returns undefined if it failed, which the person has been shown. */
  readonly run: (entered: string) => Promise<unknown>;
}

/** Calls the coordinator and says how it went. */
async function call(done: string, make: (client: Client) => Promise<unknown>): Promise<unknown> {
  const { client } = session;
  return client && act(() => make(client), done);
}

export function claim({ id }: v1.Task): Promise<unknown> {
  return call(`Claimed #${id}.`, (client) => client.tasks.claimTask({ taskId: id }));
}

/** `token`: of the caller's claim. Empty: another member's, which the lead and the operator may release. */
export function release(task: v1.Task, token: string): Question {
  return {
    name: "Release",
    explains: `The claim of ${task.owner} ends, and #${task.id} returns to the board. The reason is shown to the next owner.`,
    field: { label: "Reason" },
    run: (reason) =>
      call(`#${task.id} is back on the board.`, (client) =>
        client.tasks.releaseTask({ team: team.name, taskId: task.id, claimToken: token, reason }),
      ),
  };
}

export function complete(task: v1.Task, token: string): Question {
  const ends = task.owner && !token ? ` It is ${task.owner}'s.` : "";
  const unblocks = task.blocks.length > 0 ? " Tasks that wait for it can go ahead." : "";
  // Only its owner, who has the token of the claim, asks for the review.
  const isForReview = task.reviewer !== "" && token !== "";
  const unreviewed = task.reviewer && !isForReview ? " It is not reviewed." : "";
  return {
    name: "Complete",
    explains: isForReview
      ? `#${task.id} is in review by ${task.reviewer} then, and done once it is approved. Without a runner, only the result is reviewed; \`teamwire task update\` sends the branch, too.`
      : `#${task.id} is done, which is final.${ends}${unreviewed}${unblocks}`,
    field: { label: "Result (optional)", isLong: true },
    run: (result) =>
      call(isForReview ? `#${task.id} awaits its review.` : `Completed #${task.id}.`, (client) =>
        client.tasks.completeTask({ team: team.name, taskId: task.id, claimToken: token, result }),
      ),
  };
}

export function assign(task: v1.Task, isClaimed: boolean): Question {
  return {
    name: "Assign",
    explains: isClaimed
      ? `This ends the claim of ${task.owner}. The new owner gets a notice.`
      : "The owner gets a notice. Without an owner, any member may claim the task.",
    field: { label: "Owner (empty: no member)", isMember: true, value: task.owner },
    run: (owner) =>
      call(owner ? `Assigned #${task.id} to ${owner}.` : `#${task.id} has no owner.`, (client) =>
        client.tasks.updateTask({ team: team.name, taskId: task.id, expectedVersion: task.version, owner }),
      ),
  };
}

export function remove(task: v1.Task): Question {
  return {
    name: "Delete",
    explains: `#${task.id} leaves the board, and no longer blocks other tasks.`,
    isDangerous: true,
    run: () => call(`Deleted #${task.id}.`, (client) => client.tasks.deleteTask({ team: team.name, taskId: task.id })),
  };
}
