import assert from "node:assert/strict";
import { test } from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, type ConnectError } from "@connectrpc/connect";
import { v1 } from "@teamwire/client";
import { v7 } from "uuid";
import { clientOf, refusal } from "./coordinator.js";

type Frame = MessageInitShape<typeof v1.StreamResponseSchema>["frame"];

type Session = (Frame | ConnectError | Promise<void>)[];

const OPENED: Frame = {
  case: "opened",
  value: { sessionId: "s", heartbeatInterval: { seconds: 0n, nanos: 400_000_000 } },
};
const [A, B, C] = [v7(), v7(), v7()] as const;

function delivery(id: string, kind: "message" | "shutdownRequest" = "message"): Frame {
  return { case: "delivery", value: { deliveryCount: 1, message: { id, body: { case: kind, value: {} } } } };
}

/** Lets everything run that is ready. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function closing(reason: v1.CloseReason): Frame {
  return { case: "closing", value: { reason, requestId: "req_1" } };
}

/**
 * Subscribes to scripted sessions, one after the other. A promise pauses the session; after its last frame it is
 * silent.
 */
function play(...sessions: Session[]) {
  return playTo({}, ...sessions);
}

function playTo(request: MessageInitShape<typeof v1.StreamRequestSchema>, ...sessions: Session[]) {
  const instances: string[] = [];
  const acks: { messageIds: string[]; header: string | null }[] = [];
  const refusals: ConnectError[] = [];
  const slow: (() => void)[] = [];
  const { client, route } = clientOf((router) => {
    router.service(v1.MessageService, {
      async *stream({ instanceId }, { signal }) {
        instances.push(instanceId);
        for (const frame of sessions[instances.length - 1] ?? []) {
          if (frame instanceof Error) throw frame;
          if (frame instanceof Promise) await frame;
          else yield { frame };
        }
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
      ack({ messageIds }, { requestHeader }) {
        acks.push({ messageIds, header: requestHeader.get("teamwire-session") });
        slow.shift()?.();
        const refused = refusals.shift();
        if (refused) throw refused;
        return {};
      },
    });
  });
  return { client, route, inbox: client.subscribe(request), instances, acks, refusals, slow };
}

test("a shutdown request comes first, and each message once across sessions", async () => {
  const broken = refusal("SLOW_CONSUMER", Code.ResourceExhausted);
  const all = [OPENED, delivery(A), delivery(B), delivery(C, "shutdownRequest")];
  // The end takes precedence over waiting messages.
  let end = () => {};
  const taken = new Promise<void>((resolve) => {
    end = resolve;
  });
  const { inbox, instances, client } = play(
    [...all, broken],
    [...all, taken, closing(v1.CloseReason.SHUTDOWN_APPROVED)],
  );
  await new Promise((resolve) => setTimeout(resolve, 20));
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) ids.push((await inbox.next())?.id ?? "");
  assert.deepEqual(ids, [C, A, B]);
  end();
  for await (const message of inbox) assert.fail(message.id);
  assert.deepEqual(inbox.end, { reason: "shutdown_approved", requestId: "req_1" });
  assert.ok(inbox.signal.aborted);
  assert.deepEqual(instances, [instances[0], instances[0]]);
  await client.close();
});

test("an acknowledgement is confirmed, and resent for a redelivered message", async () => {
  let lose = () => {};
  const lost = new Promise<void>((resolve) => {
    lose = resolve;
  });
  const { client, inbox, acks, refusals } = play(
    [OPENED, delivery(A), delivery(B), lost, refusal("DRAINING", Code.Unavailable)],
    [OPENED, delivery(A), delivery(B), delivery(C)],
  );
  refusals.push(refusal("STORE_UNAVAILABLE", Code.Unavailable));
  (await inbox.next())?.ack();
  inbox.ack("not an id");
  await inbox.flush();
  assert.deepEqual(acks, Array(2).fill({ messageIds: [A], header: "s" }));

  lose();
  assert.equal((await inbox.next())?.id, B);
  assert.equal((await inbox.next())?.id, C);
  await inbox.flush();
  assert.deepEqual(acks, Array(3).fill({ messageIds: [A], header: "s" }));
  await client.close();
  inbox.ack(C);
  await assert.rejects(inbox.flush(), /closed/);
});

test("three missed heartbeats end a session and its connection", async () => {
  const { client, inbox, instances, route } = play([OPENED], [OPENED, delivery(A)]);
  const began = Date.now();
  assert.equal((await inbox.next())?.id, A);
  assert.ok(Date.now() - began >= 1_190 && instances.length === 2 && route.turn === 1);
  await client.close();
  assert.equal(await inbox.next(), undefined);
  assert.equal(inbox.end, undefined);
});

test("a subscription ends as the coordinator says, and throws an error once", async () => {
  for (const [frame, reason] of [
    [closing(v1.CloseReason.SUPERSEDED), "superseded"],
    [closing(v1.CloseReason.MEMBER_STOPPED), "member_stopped"],
    [closing(v1.CloseReason.TEAM_DELETED), "team_deleted"],
    [closing(v1.CloseReason.DATA_LOST), "data_lost"],
    [refusal("SESSION_SUPERSEDED", Code.Aborted), "superseded"],
    [refusal("TEAM_NOT_FOUND", Code.NotFound), "team_deleted"],
  ] as const) {
    const { inbox } = play([OPENED, delivery(A), frame]);
    while (inbox.end === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
    // The end takes precedence over waiting messages.
    assert.equal(await inbox.next(), undefined);
    assert.deepEqual(inbox.end, { reason, requestId: "" });
  }
  const { inbox } = play([refusal("CREDENTIAL_INVALID", Code.Unauthenticated)]);
  await assert.rejects(inbox.next(), { reason: "CREDENTIAL_INVALID" });
  assert.equal(await inbox.next(), undefined);
});

test("a superseded acknowledgement ends a subscription whose stream is silent", async () => {
  const { inbox, instances, refusals } = play([OPENED, delivery(A)], [OPENED, delivery(B)]);
  refusals.push(refusal("SESSION_SUPERSEDED", Code.Aborted));
  (await inbox.next())?.ack();
  assert.equal(await inbox.next(), undefined);
  assert.deepEqual(inbox.end, { reason: "superseded", requestId: "" });
  // It would take the inbox back after three missed heartbeats.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  assert.equal(instances.length, 1);
});

test("a flush without acknowledgements sends none", async () => {
  const { client, inbox, acks } = play([OPENED, delivery(A)]);
  assert.equal((await inbox.next())?.id, A);
  await inbox.flush();
  await client.close();
  assert.deepEqual(acks, []);
});

test("acknowledgements in quick succession share a call unless they are urgent", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 1_000;
  t.mock.method(performance, "now", () => now);
  for (const [unackedMessagesMax, half] of [
    [0, 32],
    [5, 3],
  ] as const) {
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const { inbox, acks, client } = playTo({ unackedMessagesMax }, [
      OPENED,
      ended,
      closing(v1.CloseReason.SHUTDOWN_APPROVED),
    ]);
    const ack = (count: number) => {
      const ids = Array.from({ length: count }, () => v7());
      for (const id of ids) inbox.ack(id);
      return ids;
    };
    const isSent = async (...calls: string[][]) => {
      while (acks.length < calls.length) await turn();
      const sent = acks.splice(0).map(({ messageIds }) => messageIds);
      assert.deepEqual(sent, calls);
    };

    await isSent(ack(1));
    await inbox.flush();
    const waiting = ack(half - 1);
    for (let turns = 0; turns < 20; turns++) await turn();
    await isSent();
    now += 20;
    t.mock.timers.tick(20);
    await isSent(waiting);
    await inbox.flush();

    const flushed = ack(2);
    await inbox.flush();
    await isSent(flushed);
    await isSent(ack(half));
    await inbox.flush();
    const last = ack(1);
    end();
    await isSent(last);
    await client.close();
    now += 20;
  }
});

test("after a slow call the next one begins later, by up to 100 ms", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 1_000;
  t.mock.method(performance, "now", () => now);
  for (const [took, pause] of [
    [2, 20],
    [5, 40],
    [70, 100],
  ] as const) {
    const { inbox, acks, slow, client } = playTo({}, [OPENED]);
    const began = now;
    slow.push(() => {
      now += took;
    });
    inbox.ack(v7());
    await inbox.flush();
    inbox.ack(v7());
    for (let turns = 0; turns < 20; turns++) await turn();
    const left = began + pause - now;
    now += left - 1;
    t.mock.timers.tick(left - 1);
    for (let turns = 0; turns < 20; turns++) await turn();
    assert.equal(acks.length, 1);
    now += 1;
    t.mock.timers.tick(1);
    while (acks.length < 2) await turn();
    await inbox.flush();
    await client.close();
    now += 100;
  }
});

test("waiting for a message can be aborted without loss", async () => {
  const { client, inbox } = play([OPENED], [OPENED, delivery(A)]);
  await assert.rejects(inbox.next(AbortSignal.timeout(50)), { name: "TimeoutError" });
  assert.equal((await inbox.next())?.id, A);
  await client.close();
});
