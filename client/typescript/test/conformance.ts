/** The TypeScript client's conformance driver; tests/conformance/README.md defines its protocol. */

import { createInterface } from "node:readline";
import { create, fromJson } from "@bufbuild/protobuf";
import {
  type Client,
  Code,
  connect,
  type InboxMessage,
  join,
  joinHost,
  type Subscription,
  TeamwireError,
  v1,
} from "@teamwire/client";

// biome-ignore lint/suspicious/noExplicitAny: commands and answers are JSON.
type Json = any;

let client!: Client;
let inbox: Subscription;

const commands: Record<string, (command: Json) => Promise<unknown>> = {
  connect: async ({ credential, address }) => enter(await connect({ credential, address })),
  join: async ({ string, name }) => enter(await join(string, name)),
  join_host: async ({ string, name }) => enter(await joinHost(string, name)),
  create_team: async ({ name, lead }) => enter(await client.createTeam(name, lead)),
  get_team: async () => {
    const { team } = await client.teams.getTeam({});
    return { name: team?.name, lead: team?.lead };
  },
  invite: async ({ name }) => {
    const { joinToken, joinString, expiresAt } = await client.invite(name);
    return { join_token: joinToken, join_string: joinString, expires_at: Number(expiresAt?.seconds) };
  },
  invite_host: async ({ name }) => {
    const { joinToken, joinString } = await client.inviteHost(name);
    return { join_token: joinToken, join_string: joinString };
  },
  spawn: async ({ name, profile, prompt, host }) => {
    const { member, request } = await client.spawn(name, profile, prompt, host);
    const state = v1.MemberState[member?.state ?? 0]?.toLowerCase();
    return { request_id: request?.id, state, host: request?.approver };
  },
  hosts: async () => {
    const hosts = await client.allHosts();
    return Object.fromEntries(
      hosts.map(({ name, state, offer, slotsUsed }) => [
        name,
        { state: v1.MemberState[state].toLowerCase(), slots: offer?.slots ?? 0, slots_used: slotsUsed },
      ]),
    );
  },
  update_host: async ({ profile, slots, start_seconds = 60 }) => {
    const profiles = [{ name: profile, startDeadline: { seconds: BigInt(start_seconds) } }];
    return { host: (await client.updateHost({ profiles, slots })).name };
  },
  take_order: async ({ request_id }) => {
    const { request, joinToken } = await client.takeOrder(request_id);
    return { member: request?.member, profile: request?.spawn?.profile, join_token: joinToken };
  },
  refuse_order: async ({ request_id, reason, try_another_host }) =>
    decision(await client.refuseOrder(request_id, reason, try_another_host)),
  report_exit: ({ request_id, code }) => client.reportExit(request_id, { code }),
  shutdown: async ({ name, reason, seconds = 20 }) => {
    const { request, exit } = await client.shutdown(name, reason, 1_000 * seconds);
    return { ...decision(request), ...(exit?.code !== undefined && { code: exit.code }) };
  },
  force_stop: async ({ name, reason }) => {
    const { state } = await client.forceStop(name, reason);
    return { state: v1.MemberState[state].toLowerCase() };
  },
  hand_over: async ({ name }) => ({ lead: (await client.handOver(name)).lead }),
  delete_team: ({ name }) => client.deleteTeam(name),
  submit_plan: async ({ plan, summary }) => ({ request_id: await client.submitPlan(plan, summary) }),
  answer_plan: async ({ name, request_id, approve, feedback }) =>
    sent(await client.answerPlan(name, request_id, approve, feedback)),
  request_permission: async ({ name, tool, summary, detail }) => ({
    request_id: await client.requestPermission(name, tool, summary, detail),
  }),
  answer_permission: async ({ request_id, approve, reason }) =>
    sent(await client.answerPermission(request_id, approve, reason)),
  answer_review: async ({ request_id, approve, reason }) =>
    sent(await client.answerReview(request_id, approve, reason)),
  withdraw_request: async ({ request_id }) => decision(await client.withdrawRequest(request_id)),
  list_history: async ({ page_size }) => {
    const { entries, nextPageToken } = await client.history.listHistory({ pageSize: page_size });
    return { items: entries.length, more: nextPageToken !== "" };
  },
  list_inbox: async ({ page_size }) => {
    const { deliveries, nextPageToken } = await client.messages.listInbox({ pageSize: page_size });
    return { items: deliveries.length, more: nextPageToken !== "" };
  },
  send: async ({ message, key = "" }) => sent(await client.messages.send(request(message, key))),
  subscribe: async () => {
    inbox = client.subscribe();
  },
  next: async ({ seconds = 20 }) => {
    const patience = AbortSignal.timeout(1_000 * seconds);
    // The signal's timer alone would not keep the process alive.
    const timer = setTimeout(() => {}, 1_000 * seconds);
    try {
      const message = await inbox.next(patience);
      if (message !== undefined) return { message: received(message) };
      return { ended: inbox.end?.reason ?? "error", request_id: inbox.end?.requestId };
    } catch (error) {
      if (error === patience.reason) return { nothing: true };
      throw error;
    } finally {
      clearTimeout(timer);
    }
  },
  ack: async ({ message_id }) => inbox.ack(message_id),
  flush: () => inbox.flush(),
  approve_shutdown: async ({ request_id }) => sent(await client.approveShutdown(request_id)),
  reject_shutdown: async ({ request_id, reason }) => sent(await client.rejectShutdown(request_id, reason)),
  wait_decision: async ({ request_id, seconds = 20 }) =>
    decision(await client.waitDecision(request_id, 1_000 * seconds)),
  receipts: async ({ message_id }) => {
    const { receipts } = await client.messages.getMessage({ messageId: message_id });
    return Object.fromEntries(
      receipts.map(({ recipient, state }) => [recipient, v1.ReceiptState[state].toLowerCase()]),
    );
  },
  create_task: async ({ subject, blocked_by = [], reviewer }) => {
    const { task } = await client.tasks.createTask({ subject, blockedBy: blocked_by.map(BigInt), reviewer });
    return { task_id: Number(task?.id) };
  },
  claim_next: async () => {
    const { claim } = await client.tasks.claimNextTask({});
    if (claim?.task === undefined) return {};
    return { task_id: Number(claim.task.id), subject: claim.task.subject, claim_token: claim.token };
  },
  complete_task: async ({ task_id, claim_token }) => {
    await client.tasks.completeTask({ taskId: BigInt(task_id), claimToken: claim_token });
  },
  members: async () => {
    const members = await client.members();
    return Object.fromEntries(members.map(({ name, state }) => [name, v1.MemberState[state].toLowerCase()]));
  },
  leave: ({ code }) => client.leave(code),
};

/** The fields that hold the text of a message. */
const TEXTS = ["content", "reason", "plan", "feedback", "detail", "text"];

/** Converts a message from the driver protocol to the client's. */
function request(
  { type, in_reply_to: inReplyTo = "", content, ...parts }: Json,
  idempotencyKey: string,
): v1.SendRequest {
  const kind = v1.SendRequestSchema.fields.find(({ name }) => name === type);
  // The coordinator refuses a message of no kind.
  if (kind?.message === undefined) return create(v1.SendRequestSchema, { inReplyTo, idempotencyKey });
  const text = kind.message.fields.find(({ name }) => TEXTS.includes(name));
  const body = text && content !== undefined ? { ...parts, [text.name]: content } : parts;
  return fromJson(v1.SendRequestSchema, { inReplyTo, idempotencyKey, [type]: body });
}

async function enter(next: Client): Promise<Json> {
  await client?.close();
  client = next;
  return { member: client.name, team: client.team };
}

function decision({ state, reason }: v1.Request): Json {
  return { state: v1.RequestState[state].toLowerCase(), reason };
}

function sent({ messageId, requestId, recipients, replayed, warnings }: v1.SendResponse): Json {
  return { message_id: messageId, request_id: requestId, recipients, replayed, warnings };
}

function received({ id, sender, deliveryCount, requestId, inReplyTo, body }: InboxMessage): Json {
  const value: Json = body.value ?? {};
  const shown = {
    type: body.case?.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    id,
    from: sender?.name,
    delivery_count: deliveryCount,
    request_id: requestId,
    in_reply_to: inReplyTo,
    recipient: value.recipient,
    summary: value.summary,
    tool: value.tool,
    member: body.case === "spawnOrder" ? body.value.member : undefined,
    profile: body.case === "spawnOrder" ? body.value.terms?.profile : undefined,
    content: value.content || value.reason || value.plan || value.feedback || value.detail || value.text,
    approve: value.approve,
    notice: body.case === "notice" ? v1.NoticeKind[body.value.kind].toLowerCase() : undefined,
  };
  return Object.fromEntries(Object.entries(shown).filter(([, value]) => value !== undefined && value !== ""));
}

function failure(error: unknown): Json {
  if (!(error instanceof TeamwireError) || error.reason === undefined) return { failed: `${error}` };
  const name = Code[error.code].replace(/(?<=[a-z])[A-Z]/g, "_$&").toUpperCase();
  const code = name === "CANCELED" ? "CANCELLED" : name;
  const { reason, field, rawMessage, isRetryable } = error;
  return { refused: { reason, code, field, message: rawMessage, retryable: isRetryable } };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer: Json;
  try {
    const command = JSON.parse(line);
    answer = { ok: (await commands[command.do]?.(command)) ?? {} };
  } catch (error) {
    answer = failure(error);
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await client?.close();
