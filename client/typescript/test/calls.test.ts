import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { v1 } from "@teamwire/client";
import { Client } from "../dist/client.js";
import { CREDENTIAL, clientOf, refusal } from "./coordinator.js";

/** Returns a client whose sends fail with these errors, one after the other, and then succeed. */
function failing(errors: ConnectError[], patienceMs?: number) {
  const sends: v1.SendRequest[] = [];
  const { client, route } = clientOf((router) => {
    router.rpc(v1.MessageService.method.send, (request) => {
      sends.push(request);
      const error = errors[sends.length - 1];
      if (error !== undefined) throw error;
      return { messageId: "m" };
    });
  }, patienceMs);
  return { client, route, sends };
}

test("a call is retried with the same key, and another call gets another key", async () => {
  const { client, sends } = failing([
    new ConnectError("tcp", Code.Unavailable),
    refusal("STORE_UNAVAILABLE", Code.Unavailable),
  ]);
  const request = create(v1.SendRequestSchema, { body: { case: "broadcast", value: { summary: "s", content: "c" } } });
  await client.messages.send(request);
  await client.messages.send(request);
  const [first, second, third, fourth] = sends.map((send) => send.idempotencyKey);
  assert.match(first ?? "", /^[\da-f]{8}-[\da-f]{4}-7/);
  assert.deepEqual([second, third], [first, first]);
  assert.notEqual(fourth, first);
  assert.equal(sends[0]?.team, "acme");
  assert.equal(request.idempotencyKey, "");
});

test("a permanent refusal is not retried", async () => {
  for (const reason of ["AGENT_NOT_FOUND", "INBOX_FULL", "SESSION_SUPERSEDED"]) {
    const { client, sends } = failing([refusal(reason, Code.NotFound)]);
    await assert.rejects(client.send("bob", "s", "c"), { reason });
    assert.equal(sends.length, 1);
  }
});

test("the coordinator sets the retry delay, and patience limits it", async () => {
  const { client, sends } = failing([refusal("RATE_LIMITED", Code.ResourceExhausted, 300)]);
  const began = Date.now();
  await client.send("bob", "s", "c");
  assert.ok(Date.now() - began >= 299 && sends.length === 2);

  const hasty = failing([refusal("RATE_LIMITED", Code.ResourceExhausted, 300)], 200);
  await assert.rejects(hasty.client.send("bob", "s", "c"), { reason: "RATE_LIMITED" });
});

test("an error says whether the outcome is unknown and a repetition may help", async () => {
  const broken = new ConnectError("tcp", Code.Unavailable);
  const many = (error: ConnectError) => Array.from({ length: 50 }, () => error);
  const cases: [ConnectError[], boolean, boolean][] = [
    [[refusal("INBOX_FULL", Code.ResourceExhausted)], false, true],
    [[refusal("AGENT_NOT_FOUND", Code.NotFound)], false, false],
    [[broken, refusal("AGENT_NOT_FOUND", Code.NotFound)], false, false],
    [[refusal("INTERNAL", Code.Internal)], true, false],
    [[broken, ...many(refusal("RATE_LIMITED", Code.ResourceExhausted, 1))], true, true],
    [many(broken), true, true],
    [many(refusal("RATE_LIMITED", Code.ResourceExhausted, 1)), false, true],
  ];
  for (const [errors, isOutcomeUnknown, isRetryable] of cases) {
    const { client } = failing(errors, 200);
    await assert.rejects(client.send("bob", "s", "c"), { isOutcomeUnknown, isRetryable });
  }
});

test("a call without a key is retried only if nothing was done", async () => {
  const thrown = [refusal("DRAINING", Code.Unavailable, 5_000), new ConnectError("tcp", Code.Unavailable)];
  let calls = 0;
  const { client, route } = clientOf((router) => {
    router.rpc(v1.TeamService.method.deleteTeam, () => {
      throw thrown[calls++];
    });
  });
  await assert.rejects(client.teams.deleteTeam({}), { code: Code.Unavailable });
  assert.equal(calls, 2);
  assert.equal(route.turn, 2);
});

test("a call can be cancelled while it waits for a retry, and closing the client cancels all calls", async () => {
  const { client } = failing(Array(9).fill(refusal("RATE_LIMITED", Code.ResourceExhausted, 60_000)));
  const request = { body: { case: "broadcast", value: { summary: "s", content: "c" } } } as const;
  await assert.rejects(client.messages.send(request, { signal: AbortSignal.timeout(50) }), { code: Code.Canceled });
  await assert.rejects(client.messages.send(request, { timeoutMs: 50 }), { code: Code.DeadlineExceeded });
  const waiting = client.messages.send(request);
  await client.close();
  await assert.rejects(waiting, { message: "[canceled] the client is closed" });
});

test("the credential is not in errors or dumps", () => {
  const { client } = failing([]);
  assert.equal(client.credential, CREDENTIAL);
  assert.ok(!`${inspect(client, { depth: 9, showHidden: true })}${JSON.stringify(client)}`.includes("0123456789"));
  const bad = {
    credential: `${CREDENTIAL}\n`,
    route: { turn: 0, transport: () => assert.fail(), clone: () => assert.fail(), close: () => {} },
  };
  assert.throws(
    () => new Client(bad),
    (error: Error) => !error.message.includes("0123456789"),
  );
});
