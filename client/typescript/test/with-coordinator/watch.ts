/** Watches teams of a real coordinator, over gRPC and over gRPC-web. `tests/e2e/clients` runs this. */

import assert from "node:assert/strict";
import { createServer, connect as dial, type Server, type Socket } from "node:net";
import { after, before, suite, test } from "node:test";
import { type Client, connect, type HistoryEvent, type TeamEvent, v1 } from "@teamwire/client";
import { CoordinatorProcess, type Platform, platforms, Seen } from "./process.js";

let coordinator: CoordinatorProcess;

before(async () => {
  coordinator = await CoordinatorProcess.start();
});

after(() => coordinator.end());

/** A team of a lead and a teammate, watched by the operator. */
async function found(platform: Platform, name: string, address = coordinator.address) {
  const credential = await coordinator.operator();
  const operator = await connect({ address: coordinator.address, credential, team: name });
  const lead = await operator.createTeam(name);
  const { joinToken } = await lead.invite("ann");
  const ann = await joined(joinToken);
  const watching = await platform.connect({ address, credential, team: name });
  const team = platform.watchTeam(watching, { silenceMs: 15_000 });
  const seen = new Seen<TeamEvent>(team);
  await seen.until("the snapshot", () => team.isCurrent);
  const end = () => Promise.all([operator, lead, ann, watching].map((client) => client.close()));
  return { operator, lead, ann, watching, team, seen, end };
}

async function joined(joinToken: string): Promise<Client> {
  const entrance = await connect({ address: coordinator.address, credential: joinToken });
  const { credential } = await entrance.teams.join({ name: "ann" });
  await entrance.close();
  return connect({ address: coordinator.address, credential });
}

const types = (seen: Seen<TeamEvent | HistoryEvent>) => seen.events.map(({ type }) => type);

const resets = ({ events }: Seen<TeamEvent>) =>
  events.filter((event) => event.type === "changes" && event.reset).length;

const isRemoved = ({ events }: Seen<TeamEvent>, value: unknown) =>
  events.some((event) => event.type === "changes" && event.removed.some((key) => key.value === value));

/** Forwards connections to the coordinator, until they are cut. */
class Wire {
  readonly #sockets = new Set<Socket>();
  readonly #server: Server = createServer((near) => {
    const far = dial({ host: "127.0.0.1", port: Number(new URL(coordinator.address).port) });
    for (const socket of [near, far]) {
      this.#sockets.add(socket);
      socket.on("error", () => {}).on("close", () => this.#sockets.delete(socket));
    }
    near.pipe(far).pipe(near);
  });

  async address(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    assert.ok(address !== null && typeof address === "object");
    return `http://127.0.0.1:${address.port}`;
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.#server.close();
    this.cut();
  }
}

for (const [protocol, platform] of Object.entries(await platforms())) {
  const name = (topic: string) => `${topic}-${protocol}`.toLowerCase();

  suite(`over ${protocol}`, () => {
    test("a watch begins with the items of the team, and follows each kind of change", async () => {
      const { lead, ann, team, seen, end } = await found(platform, name("changes"));
      assert.equal(team.team?.lead, "lead");
      assert.deepEqual([...team.members.keys()].sort(), ["ann", "lead"]);
      assert.deepEqual([types(seen), resets(seen)], [["changes"], 1]);

      await lead.tasks.createTask({ subject: "Dig a well" });
      await seen.until("the task", () => team.tasks.get(1n)?.subject === "Dig a well");
      await lead.tasks.deleteTask({ taskId: 1n });
      await seen.until("that the task is gone", () => isRemoved(seen, 1n) && team.tasks.size === 0);

      await ann.teams.reportActivity({ lines: [{ text: "reads the plan" }] });
      await seen.until("the activity", () => team.activity.get("ann")?.line?.text === "reads the plan");

      const requestId = await ann.requestPermission("", "dig", "May I dig?");
      await seen.until("the request", () => team.requests.get(requestId)?.tool === "dig");
      await lead.answerPermission(requestId, true);
      await seen.until("that the request is gone", () => team.requests.size === 0);
      const states = seen.events.flatMap((event) =>
        event.type === "changes"
          ? event.items.flatMap((item) => (item.case === "request" ? [item.value.state] : []))
          : [],
      );
      assert.deepEqual(states, [v1.RequestState.PENDING, v1.RequestState.APPROVED]);

      await ann.leave(3);
      await seen.until("the exit", () => team.members.get("ann")?.exit?.code === 3);
      assert.deepEqual([resets(seen), new Set(types(seen))], [1, new Set(["changes"])]);
      await end();
    });

    test("a watch whose connection is cut gets what has changed meanwhile, without a new snapshot", async () => {
      const wire = new Wire();
      const { lead, team, seen, end } = await found(platform, name("cut"), await wire.address());
      wire.cut();
      await seen.until("that the connection is back", () => types(seen).includes("back"));
      await lead.tasks.createTask({ subject: "Dig a well" });
      await seen.until("the task", () => team.tasks.size === 1);
      assert.equal(resets(seen), 1);
      assert.deepEqual([...new Set(types(seen))], ["changes", "lost", "back"]);
      wire.close();
      await end();
    });

    test("a watch and a history go on after the coordinator was killed and restarted", async () => {
      const { lead, ann, watching, team, seen, end } = await found(platform, name("killed"));
      const history = new Seen<HistoryEvent>(platform.followHistory(watching));
      await lead.send("ann", "before", "Before.");
      await history.until("the message", () => history.events.some((event) => summary(event) === "before"));
      await coordinator.kill();
      await seen.until("the loss", () => !team.isCurrent && types(seen).includes("lost"));
      await history.until("the loss", () => types(history).includes("lost"));
      assert.equal(team.members.size, 2, "what was there stays");

      await coordinator.restart();
      await lead.tasks.createTask({ subject: "Dig a well" });
      await ann.send("lead", "after", "After.");
      await seen.until("the task", () => team.tasks.size === 1 && team.isCurrent);
      assert.equal(resets(seen), 2, "another coordinator does not know the stream");
      assert.deepEqual([...team.members.keys()].sort(), ["ann", "lead"]);
      await history.until("the message", () => history.events.some((event) => summary(event) === "after"));
      for (const events of [seen, history]) {
        assert.equal(types(events).filter((type) => type === "lost").length, 1, "once per outage");
        assert.ok(types(events).lastIndexOf("back") > types(events).indexOf("lost"));
      }
      const sequences = history.events.flatMap((event) => (event.type === "entry" ? [event.entry.sequence] : []));
      assert.deepEqual(
        sequences,
        sequences.map((_, at) => BigInt(at) + 1n),
        "each entry once and in order",
      );
      await end();
    });

    test("a coordinator that stops answering counts as lost, though the connection does not break", async () => {
      const { lead, team, watching, end } = await found(platform, name("frozen"));
      const over = new AbortController();
      const quick = platform.watchTeam(watching, { silenceMs: 12_500, signal: over.signal });
      const seen = new Seen<TeamEvent>(quick);
      await seen.until("the snapshot", () => quick.isCurrent);
      coordinator.signal("SIGSTOP");
      try {
        await seen.until("the loss", () => types(seen).includes("lost"));
      } finally {
        coordinator.signal("SIGCONT");
      }
      await lead.tasks.createTask({ subject: "Dig a well" });
      await seen.until("the task", () => quick.tasks.size === 1 && quick.isCurrent);
      assert.ok(types(seen).includes("back"));
      over.abort();
      assert.equal(await seen.end(), undefined);
      assert.ok(team.members.has("ann"));
      await end();
    });

    test("a watch and a history end with the team", async () => {
      const { operator, lead, ann, watching, seen, end } = await found(platform, name("deleted"));
      const history = new Seen<HistoryEvent>(platform.followHistory(watching));
      await history.until("the history", () => types(history).includes("caughtUp"));
      for (const member of [ann, lead]) await member.leave();
      await operator.deleteTeam(name("deleted"));
      for (const stream of [seen, history]) {
        assert.equal(await stream.end(), "TEAM_NOT_FOUND");
        assert.ok((stream.error as unknown) instanceof platform.TeamwireError);
        assert.ok(!types(stream).includes("lost"));
      }
      await end();
    });

    test("an observer sees the whole team, and a made-up credential nothing", async () => {
      const { lead, ann, end } = await found(platform, name("observed"));
      const requestId = await ann.requestPermission("", "dig", "May I dig?");
      const { credential } = await lead.teams.createObserver({});
      const observer = await platform.connect({ address: coordinator.address, credential });
      const over = new AbortController();
      const team = platform.watchTeam(observer, { signal: over.signal });
      const seen = new Seen<TeamEvent>(team);
      await seen.until("the request", () => team.requests.has(requestId));
      assert.equal(team.members.size, 2);
      await lead.answerPermission(requestId, false, "Not there.");
      await seen.until("the decision", () => team.requests.size === 0);
      over.abort();
      assert.equal(await seen.end(), undefined);

      const made = credential.replace(/[^:]*$/, "0123456789abcdef0123456789abcdef");
      const stranger = await platform.connect({ address: coordinator.address, credential: made });
      for (const stream of [platform.watchTeam(stranger), platform.followHistory(stranger)]) {
        assert.equal(await new Seen<TeamEvent | HistoryEvent>(stream).end(), "CREDENTIAL_INVALID");
      }
      await Promise.all([observer.close(), stranger.close(), end()]);
    });
  });
}

/** Returns the summary of a message, if the event is one. */
function summary(event: HistoryEvent): string | undefined {
  const said = event.type === "entry" && event.entry.event.case === "message" ? event.entry.event.value : undefined;
  return said?.body.case === "message" ? said.body.value.summary : undefined;
}
