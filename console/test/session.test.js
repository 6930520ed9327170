// @ts-check
/** One sitting in the browser: a person starts three agents, answers what they ask, raises a budget, reads a transcript, sees another
 * person take an agent over at a terminal, and ends the team. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { cardOf, console_, Coordinator, goTo, spawnTeammate } from "./harness.js";

/** Submits a plan for its first message, and approves its shutdown. */
const PLANNER = `
const { createInterface } = require("node:readline");
const say = (line) => process.stdout.write(JSON.stringify(line) + "\\n");
createInterface(process.stdin).on("line", (text) => {
  const line = JSON.parse(text);
  if (line.type === "message") say({ type: "plan_approval_request", summary: "the parser", plan: "1. Write the parser" });
  if (line.type === "shutdown_request") say({ type: "shutdown_response", request_id: line.request_id, approve: true });
  else if (line.id) say({ ack: line.id });
}).on("close", () => process.exit(0));
`;

/** Named like opencode, which it imitates: it speaks the Agent Client Protocol or, without \`acp\`, waits at a terminal. It asks before
 * it cleans. A turn uses 1,100 tokens. */
const CODER = `#!/usr/bin/env node
const lines = require("node:readline").createInterface({ input: process.stdin });
lines.on("close", () => process.exit(0));
if (!process.argv.includes("acp")) {
  console.log("the session is at the terminal");
} else {
  const write = (line) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...line }) + "\\n");
  const update = (update) => write({ method: "session/update", params: { sessionId: "s1", update } });
  const call = { toolCallId: "call-1", title: "bash", kind: "execute", rawInput: { command: "make clean" } };
  let turn;
  const end = (text) => {
    update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
    const usage = { inputTokens: 1000, outputTokens: 100, totalTokens: 1100 };
    write({ id: turn, result: { stopReason: "end_turn", usage } });
  };
  lines.on("line", (line) => {
    const { id, method, params, result } = JSON.parse(line);
    if (method === "initialize") write({ id, result: { protocolVersion: 1, agentCapabilities: { loadSession: true } } });
    else if (method === "session/new") write({ id, result: { sessionId: "s1" } });
    else if (method === "session/load") write({ id, result: {} });
    else if (method === "session/prompt") {
      turn = id;
      if (!JSON.stringify(params.prompt).includes("clean")) return end("It is reviewed.");
      const options = [
        { optionId: "yes", name: "Allow", kind: "allow_once" },
        { optionId: "no", name: "Reject", kind: "reject_once" },
      ];
      write({ id: "ask", method: "session/request_permission", params: { sessionId: "s1", toolCall: call, options } });
    } else if (id === "ask") {
      update({ sessionUpdate: "tool_call", ...call, status: "completed" });
      end(result.outcome.optionId === "yes" ? "It is clean." : "It stays as it is.");
    } else if (id !== undefined && method) write({ id, error: { code: -32601, message: "not found" } });
  });
}
`;

test("a person leads three agents from the page", { timeout: 300_000 }, async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const [planner, coder] = ["planner.cjs", "opencode"].map((name) => path.join(coordinator.directory, name));
  await writeFile(planner, PLANNER);
  await writeFile(coder, CODER);
  await chmod(coder, 0o755);
  await coordinator.host("lab", { planner: [process.execPath, planner], coder: [coder] });
  const { page, problems } = await console_(coordinator, "lead", "#/team");
  const dialog = page.getByRole("dialog");
  const open = async (/** @type {string} */ name) => {
    await goTo(page, "Team");
    await cardOf(page, name).getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
  };

  // Starts three agents.
  for (const [name, profile, prompt] of [
    ["ann", "planner", "You write the parser."],
    ["bob", "coder", "Then clean the directory."],
    ["cyd", "coder", "You review."],
  ]) {
    await spawnTeammate(page, { name, profile, prompt });
  }

  // Answers a plan and a permission, in the order in which they wait.
  const needs = page.getByRole("region", { name: /^Needs you/ });
  const request = page.getByRole("region", { name: "The request" });
  for (const [who, what] of [
    ["ann plan", "Write the parser"],
    ["bob permission", "make clean"],
  ]) {
    await goTo(page, "Team");
    await needs.getByRole("link", { name: new RegExp(`^${who}`) }).click();
    await request.getByText(what).first().waitFor();
    await request
      .getByRole("button", { name: /^Approve/ })
      .first()
      .click();
    await request.getByText("approved by lead").waitFor();
  }

  // Sets a budget that is used up, and raises it.
  await open("cyd");
  const budget = page.getByRole("region", { name: "Budget" });
  await budget.getByRole("button", { name: "Set a budget…" }).click();
  await dialog.getByLabel("Tokens").fill("2k");
  await dialog.getByRole("button", { name: "Set the budget" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("textbox", { name: "Message" }).fill("Review it again.");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await goTo(page, "Team");
  await needs.getByRole("link", { name: /^cyd budget/ }).click();
  await request.getByLabel("Tokens to add").fill("50k");
  await request.getByRole("button", { name: "Approve", exact: true }).click();
  await request.getByText("approved by lead").waitFor();

  // Reads what bob did.
  await open("bob");
  const transcript = page.getByRole("region", { name: "Transcript" });
  await transcript.getByText("It is clean.").waitFor();
  await transcript.locator("details", { hasText: "make clean" }).first().waitFor();

  // At a terminal, the lead takes bob over, and gives it back. The page shows both.
  const attach = `${process.env["TEAMWIRE_TEST_BINARY"]} attach bob`;
  const env = { ...coordinator.environment("lead"), TERM: "xterm" };
  const terminal = spawn("script", ["-q", "-f", "-c", attach, "/dev/null"], { env, detached: true });
  let shown = "";
  terminal.stdout.on("data", (data) => (shown += data));
  const refused = once(terminal, "exit").then(() => assert.fail(`bob was not taken over: ${shown}`));
  const held = page.getByRole("region", { name: "About bob" }).getByText(/^held by lead since/);
  await Promise.race([refused, held.first().waitFor()]);
  while (!shown.includes("the session is at the terminal"))
    await Promise.race([refused, once(terminal.stdout, "data")]);
  refused.catch(() => {});
  process.kill(-(/** @type {number} */ (terminal.pid)), "SIGKILL");
  await held.first().waitFor({ state: "detached" });

  // Ends the team.
  await open("ann");
  const progress = page.getByRole("list", { name: "Progress of its shutdown" });
  await page.getByRole("button", { name: "Ask to shut down…" }).click();
  await dialog.getByLabel("Reason").fill("The work is done.");
  await dialog.getByRole("button", { name: "Ask", exact: true }).click();
  await progress.getByText("exit code 0").waitFor();
  for (const name of ["bob", "cyd"]) {
    await open(name);
    await page.getByRole("button", { name: "Stop by force…" }).click();
    await dialog.getByRole("button", { name: `Stop ${name} now` }).click();
    await progress.getByText("Exited").waitFor();
  }
  assert.deepEqual(problems, []);
});
