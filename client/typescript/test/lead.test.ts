import assert from "node:assert/strict";
import { test } from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { v1 } from "@teamwire/client";
import { clientOf, message, withDetails } from "./coordinator.js";

type Answers = {
  sent?: () => { requestId: string };
  decisions?: (v1.RequestState | ConnectError)[];
  pages?: MessageInitShape<typeof v1.ListMembersResponseSchema>[];
};

const GONE = new ConnectError("gone", Code.Unavailable);
/** As `GONE`, after 1.2 s. */
const LATE = new ConnectError("gone", Code.Unavailable);
const ANN = { name: "Ann", incarnation: 2n };
const PENDING: [string, Uint8Array<ArrayBuffer>] = [
  "ErrorInfo",
  message([1, "SHUTDOWN_PENDING"], [2, "teamwire"], [3, message([1, "request_id"], [2, "req_9"])]),
];

/** Returns a lead's client and the requests it makes. The last of each kind of answer repeats. */
function lead({ sent = () => ({ requestId: "req_1" }), decisions = [], pages = [] }: Answers, patienceMs?: number) {
  const tokens: string[] = [];
  const waits: string[] = [];
  const asked: number[] = [];
  const next = <T>(from: T[]) => (from.length > 1 ? from.shift() : from[0]);
  const { client } = clientOf((router: ConnectRouter) => {
    router.rpc(v1.MessageService.method.send, sent);
    router.rpc(v1.RequestService.method.waitForDecision, async ({ requestId, timeout }) => {
      waits.push(requestId);
      asked.push(timeout ? durationMs(timeout) : 0);
      const state = next(decisions);
      if (state === LATE) await new Promise((resolve) => setTimeout(resolve, 1_200));
      if (state instanceof ConnectError) throw state;
      return { request: { member: "ann", incarnation: 2n, reason: "why", state } };
    });
    router.rpc(v1.TeamService.method.listMembers, ({ pageToken }) => {
      tokens.push(pageToken);
      const page = next(pages);
      if (page === undefined) throw GONE;
      return page;
    });
    router.rpc(v1.TeamService.method.createTeam, ({ name, leadName }) => ({
      credential: `twm:${name}:${leadName}:0123456789abcdef`,
    }));
    router.rpc(v1.TeamService.method.invite, ({ member }) => ({ joinString: `join as ${member}` }));
    router.rpc(v1.TeamService.method.forceStop, ({ member: name }) => ({ member: { name } }));
    router.rpc(v1.TeamService.method.setLead, ({ member }) => ({ team: { lead: member } }));
    router.rpc(v1.TeamService.method.deleteTeam, () => ({}));
  }, patienceMs);
  return { client, tokens, waits, asked };
}

test("a shutdown waits for the decision and the exit, through all pages of members", async () => {
  const { client, tokens } = lead({
    decisions: [v1.RequestState.PENDING, v1.RequestState.APPROVED],
    pages: [
      { members: [{ name: "lead" }], nextPageToken: "more" },
      { members: [{ ...ANN, state: v1.MemberState.STOPPING }] },
      { members: [{ name: "lead" }], nextPageToken: "more" },
      { members: [{ ...ANN, state: v1.MemberState.EXITED, exit: { code: 3 } }] },
    ],
  });
  const { request, exit } = await client.shutdown("ann", "done", 20_000);
  assert.equal(request.state, v1.RequestState.APPROVED);
  assert.equal(exit?.code, 3);
  assert.deepEqual(tokens, ["", "more", "", "more"]);
});

test("a rejected shutdown has no exit, and a pending one is joined", async () => {
  const sent = () => {
    throw withDetails(Code.FailedPrecondition, [PENDING]);
  };
  const { client, waits } = lead({ sent, decisions: [v1.RequestState.REJECTED] });
  const { request, exit } = await client.shutdown("ann");
  assert.deepEqual([request.reason, exit, waits], ["why", undefined, ["req_9"]]);
});

test("a shutdown resolves without an exit if a new life has begun or the time is over", async () => {
  const decisions = [v1.RequestState.APPROVED];
  const next = lead({ decisions, pages: [{ members: [{ ...ANN, incarnation: 3n, state: v1.MemberState.ACTIVE }] }] });
  assert.equal((await next.client.shutdown("ann", "", 20_000)).exit, undefined);
  const slow = lead({ decisions, pages: [{ members: [{ ...ANN, state: v1.MemberState.STOPPING }] }] });
  assert.equal((await slow.client.shutdown("ann", "", 0)).exit, undefined);
});

test("a shutdown resolves in time without an exit if the coordinator is gone", { timeout: 10_000 }, async () => {
  const { client } = lead({ decisions: [v1.RequestState.APPROVED] });
  const { request, exit } = await client.shutdown("ann", "", 1_000);
  assert.deepEqual([request.state, exit], [v1.RequestState.APPROVED, undefined]);
  const waiting = client.shutdown("ann", "", 20_000, AbortSignal.timeout(50));
  await assert.rejects(waiting, { name: "TimeoutError" });
});

test("a wait for a decision ends in time if the coordinator is gone", { timeout: 8_000 }, async () => {
  const { client } = lead({ decisions: [GONE] });
  await assert.rejects(client.waitDecision("req_1", 1_000), { code: Code.Unavailable, rawMessage: "gone" });
});

test("a wait that broke asks only for the rest of its time", async () => {
  const { client, asked } = lead({ decisions: [GONE, GONE, GONE, v1.RequestState.APPROVED] });
  await client.waitDecision("req_1", 20_000);
  const [first = 0] = asked;
  assert.ok(asked.length === 4 && (asked.at(-1) ?? first) < first, `${asked}`);
});

test("an outage during a wait counts from its own first failure", async () => {
  const { client } = lead({ decisions: [GONE, LATE, v1.RequestState.APPROVED] }, 1_000);
  assert.equal((await client.waitDecision("req_1", 20_000)).state, v1.RequestState.APPROVED);
});

test("a client knows its name and team, and creating a team returns the client of its lead", async () => {
  const { client } = lead({});
  assert.deepEqual([client.name, client.team], ["bob", "acme"]);
  const zoe = await client.createTeam("blue", "zoe");
  assert.deepEqual([zoe.name, zoe.team], ["zoe", "blue"]);
  assert.equal((await zoe.invite("ann")).joinString, "join as ann");
  assert.equal((await zoe.forceStop("ann", "stuck")).name, "ann");
  assert.equal((await zoe.handOver("ann")).lead, "ann");
  await zoe.deleteTeam("blue");
});
