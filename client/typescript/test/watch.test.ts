import assert from "node:assert/strict";
import { test } from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, type ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { followHistory, type HistoryEvent, type TeamEvent, v1, watchTeam } from "@teamwire/client";
import { clientOf, refusal } from "./coordinator.js";

type Frame = MessageInitShape<typeof v1.WatchTeamResponseSchema>;
type Item = NonNullable<NonNullable<Frame["items"]>[number]["item"]>;

const NO_TEAM = refusal("TEAM_NOT_FOUND", Code.NotFound);
const DRAINING = refusal("DRAINING", Code.Unavailable);

const task = (id: bigint, subject = ""): Item => ({ case: "task", value: { id, subject } });
const request = (state: v1.RequestState): Item => ({ case: "request", value: { id: "req_1", state } });

function frame(resumeToken: string, items: Item[], more: Omit<Frame, "$typeName"> = {}): Frame {
  return { resumeToken, caughtUp: true, ...more, items: items.map((item) => ({ item })) };
}

/** Plays scripted streams, one after the other. The last one is silent after its last frame. */
async function* play<F>(streams: (F | ConnectError)[][], number: number, signal: AbortSignal): AsyncGenerator<F> {
  for (const frame of streams[number] ?? []) {
    if (frame instanceof Error) throw frame;
    yield frame;
  }
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
}

/** Watches a team with scripted streams. */
function watching(...streams: (Frame | ConnectError)[][]) {
  const tokens: string[] = [];
  const { client, route } = clientOf((router: ConnectRouter) => {
    router.rpc(v1.WatchService.method.watchTeam, ({ resumeToken, team }, { signal }) => {
      assert.equal(team, "acme");
      return play(streams, tokens.push(resumeToken) - 1, signal);
    });
  });
  return { client, route, tokens };
}

/** Renders an event for comparison. */
function text(event: TeamEvent): string {
  if (event.type !== "changes") return event.type;
  const items = event.items.map((item) => (item.case === "task" ? `${item.value.id}${item.value.subject}` : item.case));
  const removed = event.removed.map((key) => `-${key.value}`);
  return [event.reset ? "reset" : "", ...items, ...removed, event.caughtUp ? "." : "…"].join(" ").trim();
}

test("a watch keeps its maps up to date, and resumes after the last frame", async () => {
  const { client, tokens } = watching(
    [
      frame("a", [{ case: "team", value: { name: "acme" } }, task(1n, "a")], { reset: true, caughtUp: false }),
      frame("b", [task(2n, "b"), { case: "member", value: { name: "ann" } }]),
      frame("c", []),
      frame("d", [task(2n, "B")], {
        removed: [{ key: { case: "taskId", value: 1n } }, { key: { case: "taskId", value: 9n } }],
      }),
      DRAINING,
    ],
    [DRAINING],
    [frame("e", [request(v1.RequestState.PENDING)]), frame("f", [request(v1.RequestState.APPROVED)]), NO_TEAM],
  );
  const watch = watchTeam(client);
  const events: string[] = [];
  const seen: unknown[] = [];
  await assert.rejects(
    async () => {
      for await (const event of watch) {
        events.push(text(event));
        seen.push([watch.isCurrent, watch.tasks.size, watch.requests.size]);
      }
    },
    { reason: "TEAM_NOT_FOUND" },
  );
  assert.deepEqual(events, ["reset team 1a …", "2b member .", "2B -1 .", "lost", "back", "request .", "request ."]);
  assert.deepEqual(seen, [
    [false, 1, 0],
    [true, 2, 0],
    [true, 1, 0],
    [false, 1, 0],
    [false, 1, 0],
    [true, 1, 1],
    [true, 1, 0],
  ]);
  assert.equal(watch.team?.name, "acme");
  assert.deepEqual([...watch.members.keys()], ["ann"]);
  assert.deepEqual(tokens, ["", "d", "d"]);
});

test("items from before a snapshot stay until it is complete", async () => {
  const { client, tokens } = watching(
    [frame("a", [task(1n), task(2n), task(3n)], { reset: true }), DRAINING],
    // Cut off after its first frame, and begun again.
    [frame("b", [task(4n)], { reset: true, caughtUp: false }), DRAINING],
    [frame("c", [task(1n)], { reset: true, caughtUp: false }), frame("d", [task(3n)]), NO_TEAM],
  );
  const watch = watchTeam(client);
  const sizes: [string, number][] = [];
  await assert.rejects(async () => {
    for await (const event of watch) if (event.type === "changes") sizes.push([text(event), watch.tasks.size]);
  });
  assert.deepEqual(sizes, [
    ["reset 1 2 3 .", 3],
    ["reset 4 …", 4],
    ["reset 1 …", 4],
    ["3 -2 -4 .", 2],
  ]);
  assert.deepEqual(tokens, ["", "a", "b"]);
});

test("a silent stream counts as lost, but a slow program does not", async () => {
  const { client, route, tokens } = watching([frame("a", [task(1n)], { reset: true })], [frame("b", [task(2n)])]);
  const { turn } = route;
  const events: string[] = [];
  for await (const event of watchTeam(client, { silenceMs: 200 })) {
    events.push(text(event));
    if (events.length === 1) await new Promise((resolve) => setTimeout(resolve, 400));
    if (event.type === "lost") assert.equal(event.error.code, Code.DeadlineExceeded);
    if (events.length === 4) break;
  }
  assert.deepEqual(events, ["reset 1 .", "lost", "back", "2 ."]);
  assert.deepEqual([tokens.length, route.turn], [2, turn + 1]);
});

test("a watch ends without an error when it is aborted or the client is closed", async () => {
  for (const isClosed of [false, true]) {
    for (const stream of [[frame("a", [], { reset: true })], [DRAINING]]) {
      const { client } = watching(stream, [DRAINING], [DRAINING], [DRAINING]);
      const over = new AbortController();
      for await (const _ of watchTeam(client, { signal: over.signal })) {
        if (isClosed) void client.close();
        else over.abort();
      }
      await client.close();
    }
  }
});

test("a refused credential ends a watch", async () => {
  const { client } = watching([frame("a", [], { reset: true }), refusal("CREDENTIAL_INVALID", Code.Unauthenticated)]);
  await assert.rejects(
    async () => {
      for await (const event of watchTeam(client)) assert.equal(event.type, "changes");
    },
    { reason: "CREDENTIAL_INVALID" },
  );
});

test("the history goes on after its last entry", async () => {
  const positions: bigint[] = [];
  const entries = (...sequences: bigint[]) =>
    sequences.map((sequence) => ({ entry: { sequence }, lastSequence: sequence }));
  const streams = [
    [...entries(5n, 7n), { lastSequence: 9n }, { lastSequence: 9n }, DRAINING],
    [DRAINING],
    [...entries(10n), { lastSequence: 10n }, NO_TEAM],
  ];
  const { client } = clientOf((router) => {
    router.rpc(v1.HistoryService.method.followHistory, ({ afterSequence, filter }, { signal }) => {
      assert.equal(filter?.messagesOnly, true);
      return play(streams, positions.push(afterSequence) - 1, signal);
    });
  });
  const events: (bigint | HistoryEvent["type"])[] = [];
  await assert.rejects(
    async () => {
      for await (const event of followHistory(client, { afterSequence: 4n, filter: { messagesOnly: true } })) {
        events.push(event.type === "entry" ? event.entry.sequence : event.type);
      }
    },
    { reason: "TEAM_NOT_FOUND" },
  );
  assert.deepEqual(events, [5n, 7n, "caughtUp", "lost", "back", 10n, "caughtUp"]);
  assert.deepEqual(positions, [4n, 9n, 9n]);
});
