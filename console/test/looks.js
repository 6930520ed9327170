// @ts-check
/** Takes pictures of a team at work, for a look at the design: `TEAMWIRE_TEST_BINARY=../target/debug/teamwire node --test
 * test/looks.js`. They go to the directory that `TEAMWIRE_LOOKS` names. */

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

const PICTURES = process.env["TEAMWIRE_LOOKS"] ?? path.join(tmpdir(), "teamwire-looks");
/** How many members the teams have. */
const SIZES = (process.env["TEAMWIRE_LOOKS_SIZES"] ?? "3,30,300").split(",").map(Number);
const WIDTHS = (process.env["TEAMWIRE_LOOKS_WIDTHS"] ?? "1440,900,400").split(",").map(Number);

const ROLES = ["backend", "frontend", "reviewer", "tester", "docs", "security", "release", "data", "mobile", "search"];
const COLORS = ["", "", "", "teal", "", "#c0392b", "", "gold", "", ""];
const MODELS = ["claude-opus-4-6", "gpt-5.4-codex", "gemini-3-pro"];
const SAYS = [
  "The **send path** is done. I moved the idempotency key into the request, so a retry after a lost reply is safe.\n\n- 14 tests added\n- `cargo test -p api` passes\n\nThe reviewer should look at `server/src/domain/send.rs` first.",
  "Which database do we use for the search index? The board says SQLite, the RFC says Postgres.",
  "Two remarks:\n\n1. **Send** needs an idempotency key.\n2. A refusal needs a reason, not only a code.",
  "I have rebased onto main. There was one conflict in `Cargo.lock`, which I resolved by taking theirs and running the build again.",
  "Done.",
  "The flaky test is `reconnects_after_a_kill`. It waits for a port that another process may have taken. I replaced the fixed port with one that the system assigns, and ran it 200 times without a failure.",
];
const TASKS = [
  "Agree on the error reasons",
  "Design the API for sending and streaming, with idempotency keys and flow control",
  "Write the client",
  "Try it with 1,000 members on two machines",
  "Describe it in the docs",
  "Make the search work offline",
  "Release 0.4",
];
const LINES = [
  "Read server/src/domain/send.rs",
  "cargo test --package api -- --nocapture",
  "Edit docs/rfc-12.md",
  "npm run build",
];

/** @param {number} index @param {number} size */
const nameOf = (index, size) => (size <= 10 ? `${ROLES[index]}` : `${ROLES[index % 10]}-${Math.floor(index / 10) + 1}`);

/** @template T @param {readonly T[]} all @param {number} index */
const pick = (all, index) => /** @type {T} */ (all[index % all.length]);

/** Starts a team of this size with messages, tasks, requests, budgets and members that fail. @param {number} size */
async function teamOf(size) {
  const coordinator = await Coordinator.start({
    TEAMWIRE_LIMITS_MEMBERS_MAX: `${size + 10}`,
    TEAMWIRE_STORE: "memory:",
    TEAMWIRE_RATES_SENDS_PER_SECOND: "10000",
    TEAMWIRE_RATES_SENDS_BURST: "10000",
  });
  await coordinator.team();
  const lead = await coordinator.client(await coordinator.credential("lead"));
  const { joinToken } = await lead.teams.invite({ usesMax: size });
  const token = await coordinator.client(joinToken);
  await lead.teams.setBudget({ budget: { costUsdMicros: BigInt(size * 2_000_000) } });
  for (let at = 0; at < TASKS.length; at++) {
    const blockedBy = at > 0 && at < 5 ? [BigInt(at)] : at === 6 ? [4n, 5n] : [];
    await lead.tasks.createTask({ subject: pick(TASKS, at), blockedBy });
  }
  for (let at = 0; at < size - 1; at++) {
    const name = nameOf(at, size);
    const attributes = { agentType: pick(ROLES, at), model: pick(MODELS, at), color: pick(COLORS, at) };
    const { credential } = await token.teams.join({ name, liveness: 2, attributes });
    const member = await coordinator.client(credential);
    await member.teams.heartbeat({
      activity: at % 3 === 0 ? 1 : 2,
      summary:
        pick(SAYS, at + 3)
          .slice(0, 120)
          .split("\n")[0] ?? "",
    });
    await member.teams.reportActivity({
      lines: [{ text: pick(LINES, at) }],
      usage: {
        turns: BigInt(3 + at),
        inputTokens: BigInt(40_000 * (1 + (at % 7))),
        outputTokens: 2_100n,
        costUsdMicros: BigInt(310_000 * (1 + (at % 5))),
      },
      ...(at % 4 === 0 ? { program: { version: "Claude Code 2.1.330", turnAge: { seconds: 95n } } } : {}),
      ...(at % 13 === 2
        ? {
            failedTurns: {
              count: 3,
              error: "API Error: 529 overloaded_error: the model is overloaded, try again later",
            },
          }
        : {}),
    });
    if (at % 9 === 1) await lead.teams.setBudget({ member: name, budget: { costUsdMicros: 700_000n } });
    if (at % 11 === 0 && at < 60) {
      const plan =
        "# Send\n\n1. One call to send, one to stream.\n2. Errors carry a reason.\n3. Keys are kept for 24 hours.\n";
      await member.messages.send({
        body: { case: "planApprovalRequest", value: { plan, summary: "One call to send, one to stream" } },
      });
    }
    if (at % 7 === 1 && at < 60) {
      const value = {
        tool: "Bash",
        summary: "Install the packages that the tests need",
        detail: "npm ci --ignore-scripts && npx playwright install chromium --with-deps",
      };
      await member.messages.send({ body: { case: "permissionRequest", value } });
    }
    if (at < 60)
      await member.send(at % 2 ? "team-lead" : nameOf((at + 1) % (size - 1), size), "", pick(SAYS, at)).catch(() => {});
    if (at < 4 && at < size - 1)
      await member.tasks.claimTask({ taskId: BigInt([1, 6, 5, 7][at] ?? 1) }).catch(() => {});
    if (at === 0) await member.tasks.completeTask({ taskId: 1n, result: "See the RFC." }).catch(() => {});
    await member.close();
  }
  const broadcast = {
    summary: "Welcome",
    content: "Welcome. The API comes first; see the board. Ask before you install anything.",
  };
  await lead.messages.send({ body: { case: "broadcast", value: broadcast } });
  await lead.send(
    nameOf(0, size),
    "Please read RFC 12",
    "Please read RFC 12 before you start.\n\n- It has **two** open questions.\n- `Send` is one of them.",
  );
  return coordinator;
}

for (const size of SIZES) {
  test(`pictures of a team of ${size}`, { timeout: 600_000 }, async () => {
    await mkdir(PICTURES, { recursive: true });
    const coordinator = await teamOf(size);
    const pages = {
      team: "#/team",
      messages: "#/messages",
      approvals: "#/approvals",
      board: "#/board",
      graph: "#/board?view=graph&done=1",
      member: `#/member?name=${nameOf(1, size)}`,
      timeline: "#/timeline",
    };
    const { page, problems } = await console_(coordinator);
    for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
      await page.emulateMedia({ colorScheme });
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        for (const [name, hash] of Object.entries(pages)) {
          await page.goto(`${coordinator.address}/#/board`);
          await page.goto(`${coordinator.address}/${hash}`);
          await page.getByRole("heading", { level: 1 }).waitFor();
          await page.waitForTimeout(300);
          const file = `${name}-${size}-${width}-${colorScheme}.png`;
          await page.screenshot({ path: path.join(PICTURES, file), animations: "disabled" });
        }
      }
    }
    assert.deepEqual(problems, []);
  });
}
