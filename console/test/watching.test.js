// @ts-check
/** Watching and steering agents: the transcript, the end of a turn, budgets, and what needs the person. */

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { violations } from "./axe.js";
import { Coordinator, console_ } from "./harness.js";

/** An agent program that speaks the Agent Client Protocol: each prompt makes it write, call a tool, and write again. With `slow` in
 * the prompt, the call goes on until the turn is cancelled; with `broken`, it fails; with `harm`, what it writes is hostile. A turn
 * uses 1,100 tokens. */
const AGENT = `
import { createInterface } from "node:readline";
const write = (line) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...line }) + "\\n");
let calls = 0;
let open;
const update = (update) => write({ method: "session/update", params: { sessionId: "s1", update } });
const say = (text) => update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
const end = (id, stopReason) =>
  write({ id, result: { stopReason, usage: { inputTokens: 1000, outputTokens: 100, totalTokens: 1100 } } });
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") write({ id, result: { protocolVersion: 1, agentCapabilities: {} } });
  else if (method === "session/new") write({ id, result: { sessionId: "s1" } });
  else if (method === "session/cancel") {
    if (open !== undefined) end(open, "cancelled");
    open = undefined;
  } else if (method === "session/prompt") {
    const text = params.prompt.map((part) => part.text ?? "").join("\\n");
    const toolCallId = "call-" + ++calls;
    say(text.includes("harm") ? "<img src=x onerror=alert(1)>\\u202e" : text.includes("leave") ? "I leave them." : "I run the tests.");
    const rawInput = { command: "make test", number: calls };
    const title = "Test number " + calls;
    update({ sessionUpdate: "tool_call", toolCallId, title, kind: "execute", status: "in_progress", rawInput });
    if (text.includes("slow")) return (open = id);
    const content = [{ type: "content", content: { type: "text", text: "42 tests ran\\nthat is all" } }];
    const status = text.includes("broken") ? "failed" : "completed";
    update({ sessionUpdate: "tool_call_update", toolCallId, status, content });
    say("Done with number " + calls + ".");
    end(id, "end_turn");
  } else if (id !== undefined && method) write({ id, error: { code: -32601, message: "not found" } });
});
`;

/** Starts a team with an agent. @param {string[]} names */
async function withAgents(...names) {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const program = path.join(coordinator.directory, "agent.mjs");
  await writeFile(program, AGENT);
  for (const name of names) await coordinator.run(name, ["--via", "acp", "--", process.execPath, program]);
  return coordinator;
}

/** Sends a message as the lead. @param {Coordinator} coordinator @param {string} name @param {string} text */
const send = (coordinator, name, text) => coordinator.cli(["send", name, text], "lead");

/** The transcript on a page. @param {import("playwright-core").Page} page */
const transcriptOf = (page) => page.getByRole("region", { name: "Transcript" });

test("a transcript arrives live, with its prompts and tool calls folded, and hides nothing", async () => {
  const coordinator = await withAgents("ann");
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=ann");
  const transcript = transcriptOf(page);
  await transcript.waitFor();
  await send(coordinator, "ann", "Please do harm.");
  // What the agent wrote is shown whole, and as text.
  await transcript.getByText("<img src=x onerror=alert(1)>").waitFor();
  await transcript.getByText("\\u{202e}").first().waitFor();
  await transcript.getByText("Turn 1 of life 1 begins").waitFor();
  await transcript.getByText(/The turn 1 ended, 1\.1K tokens/).waitFor();

  const call = transcript.locator("details", { hasText: "Test number 1" });
  assert.equal(await call.getAttribute("open"), null);
  // The input's first line, and nothing of the result.
  await call.getByText('{"command":"make test","number":1}').waitFor();
  assert.equal(await transcript.getByText("42 tests ran").count(), 0);
  await call.locator("summary").press("Enter");
  await call.getByText("It returned:").waitFor();
  await call.getByText("that is all").waitFor();
  await call.getByText('{"command":"make test","number":1}').last().waitFor();
  const prompt = transcript.locator("details", { hasText: "given" }).first();
  await prompt.locator("summary").click();
  await prompt.getByText("Please do harm.").first().waitFor();

  await send(coordinator, "ann", "broken");
  await transcript.getByRole("button", { name: "Go to the newest" }).click();
  const failed = transcript.locator("details", { has: page.getByText("failed", { exact: true }) });
  await failed.locator("summary").click();
  await failed.getByText("It failed:").waitFor();
  assert.deepEqual(await violations(page), []);

  // The call waits no longer once the page is left.
  const ended = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/ReadTranscript"));
  await page.getByRole("link", { name: "Team", exact: true }).click();
  await ended;
  assert.deepEqual(problems, []);
});

test("older entries are loaded when they are asked for, up to what the page keeps", async () => {
  const coordinator = await withAgents("ann");
  // Each message makes two turns: the runner reminds the agent that it has sent nothing.
  for (let message = 1; message <= 20; message++) {
    await send(coordinator, "ann", `number ${message}`);
    await coordinator.member("ann", (member) => (member.total_usage?.turns ?? 0) >= 2 * message);
  }
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=ann");
  const transcript = transcriptOf(page);
  const list = transcript.getByRole("list", { name: "What its agent was given, wrote and did" });
  await list.getByText("Done with number 40.").waitFor();
  assert.equal(await list.getByText("Turn 1 of life 1 begins").count(), 0);
  const size = async () => Number(await list.getByRole("listitem").first().getAttribute("aria-setsize"));
  const before = await size();
  await transcript.getByRole("button", { name: "Show older entries" }).click();
  await page.waitForFunction(
    ([count]) =>
      Number(document.querySelector(".entries [role=listitem]")?.getAttribute("aria-setsize")) > (count ?? 0),
    [before],
  );
  // At the first row, the rest comes by itself.
  const first = list.getByText("Turn 1 of life 1 begins");
  while ((await first.count()) === 0) {
    await list.evaluate((element) => element.scrollTo(0, 0));
    await page.waitForTimeout(50);
  }
  await transcript.getByRole("button", { name: "Show older entries" }).waitFor({ state: "detached" });
  assert.deepEqual(problems, []);
});

test("only those who may read a transcript ask for it, and the end of a member is said calmly", async () => {
  const coordinator = await withAgents("ann");
  await coordinator.join("bob");
  await send(coordinator, "ann", "hello");
  const bob = await console_(coordinator, "bob", "#/team");
  /** @type {string[]} */
  const asked = [];
  bob.page.on("request", (request) => asked.push(request.url()));
  await bob.page.getByRole("link", { name: "ann", exact: true }).click();
  await bob.page.getByRole("region", { name: "Lives" }).getByText("Life 1").waitFor();
  assert.equal(await transcriptOf(bob.page).count(), 0);
  assert.equal(await bob.page.getByRole("button", { name: "End its turn and say…" }).count(), 0);
  assert.deepEqual(
    asked.filter((url) => url.endsWith("/ReadTranscript")),
    [],
  );
  await bob.page.close();

  const { page, problems } = await console_(coordinator, "lead", "#/member?name=ann");
  const transcript = transcriptOf(page);
  await transcript.getByText("Done with number 1.").waitFor();
  await coordinator.cli(["shutdown", "ann", "--force"], "lead");
  await transcript.getByRole("status").getByText("ann does not run.").waitFor();
  await page
    .getByRole("region", { name: "Lives" })
    .getByText(/^\S+ exited/)
    .waitFor();
  // What was read stays, and nothing asks again.
  await transcript.getByText("Done with number 1.").waitFor();
  let again = 0;
  page.on("request", (request) => (again += request.url().endsWith("/ReadTranscript") ? 1 : 0));
  await page.waitForTimeout(2_000);
  assert.equal(again, 0);
  assert.deepEqual(problems, []);
});

test("the lead ends a turn from the page, and says what comes next", async () => {
  const coordinator = await withAgents("ann");
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=ann");
  const transcript = transcriptOf(page);
  await send(coordinator, "ann", "slow");
  await transcript.getByText("runs", { exact: true }).waitFor();
  await page.getByRole("button", { name: "End its turn and say…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("What it reads next").fill("Please leave the tests.");
  await dialog.getByRole("button", { name: "End its turn" }).click();
  await dialog.waitFor({ state: "detached" });
  await transcript.getByText("I leave them.", { exact: true }).waitFor();
  await transcript.getByText(/The turn 1 ended/).waitFor();
  await transcript.getByText("runs", { exact: true }).waitFor({ state: "detached" });
  assert.deepEqual(problems, []);
});

test("a budget is set, is used up, needs the lead, and is raised with the answer", async () => {
  const coordinator = await withAgents("ann");
  await coordinator.join("bob");
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=ann");
  const budget = page.getByRole("region", { name: "Budget" });
  const dialog = page.getByRole("dialog");
  await budget.getByText("It has no budget.").waitFor();
  await budget.getByRole("button", { name: "Set a budget…" }).click();
  await dialog.getByLabel("Tokens").fill("many");
  await dialog.getByRole("alert").getByText("Write amounts such as").waitFor();
  await dialog.getByLabel("Tokens").fill("1k");
  assert.deepEqual(await violations(page), []);
  await dialog.getByRole("button", { name: "Set the budget" }).click();
  await budget.getByText("0 of 1K tokens (0 %)").waitFor();

  // Nothing waits yet.
  await page.getByRole("link", { name: "Team", exact: true }).click();
  await page.getByRole("heading", { name: "Team" }).waitFor();
  const needs = page.getByRole("region", { name: /^Needs you/ });
  assert.equal(await needs.count(), 0);

  // A request that expires sooner comes first.
  await send(coordinator, "ann", "spend it");
  await needs.getByRole("link", { name: /^ann budget/ }).waitFor();
  const args = ["permission", "request", "--tool", "Bash", "--summary", "x", "--detail", "npm ci", "--deadline", "120"];
  await coordinator.cli(args, "bob");
  await needs.getByRole("link", { name: /^bob permission/ }).waitFor();
  const links = await needs.getByRole("link").allInnerTexts();
  assert.deepEqual(
    links.map((text) => text.split(/\s/)[0]),
    ["bob", "ann"],
  );
  // An agent of this kind may exceed its budget by a turn.
  await page.getByText(/^(110|220) % of its budget$/).waitFor();
  assert.deepEqual(await violations(page), []);

  await needs.getByRole("link", { name: /^ann budget/ }).click();
  const detail = page.getByRole("region", { name: "The request" });
  await detail.getByRole("heading", { name: /^More budget for ann/ }).waitFor();
  await detail.getByText(/^(1\.1|2\.2)K of 1K tokens/).waitFor();
  await detail.getByLabel("Tokens to add").fill("9k");
  assert.deepEqual(await violations(page), []);
  await detail.getByRole("button", { name: "Approve", exact: true }).click();
  await detail.getByText("approved by lead").waitFor();
  await page.goto(`${coordinator.address}/#/member?name=ann`);
  await budget.getByText(/of 10K tokens/).waitFor();
  await transcriptOf(page)
    .getByText(/Done with number [23]/)
    .first()
    .waitFor();

  await budget.getByRole("button", { name: "Change the budget…" }).click();
  await dialog.getByLabel("Tokens").fill("10,000");
  await dialog.getByRole("button", { name: "Raise the budget" }).click();
  await budget.getByText(/of 20K tokens/).waitFor();
  await budget.getByRole("button", { name: "Change the budget…" }).click();
  await dialog.getByLabel("Change").selectOption("Remove it");
  await dialog.getByRole("button", { name: "Remove the budget" }).click();
  await budget.getByText("It has no budget.").waitFor();

  // The budget of the whole team.
  await page.getByRole("link", { name: "Team", exact: true }).click();
  await page.getByRole("button", { name: "Budget…" }).click();
  await dialog.getByLabel("US dollars").fill("20");
  await dialog.getByRole("button", { name: "Set the budget" }).click();
  await page.getByRole("group", { name: "Budget of the team" }).getByText("$0.00 of $20.00 (0 %)").waitFor();
  assert.deepEqual(problems, []);
});

test("a member that stays paused is listed under what needs the lead, and to no one who cannot help", async () => {
  const coordinator = await withAgents("ann");
  await coordinator.join("bob");
  await coordinator.cli(["budget", "ann", "--set", "1k tokens"], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/team");
  const needs = page.getByRole("region", { name: /^Needs you/ });
  await send(coordinator, "ann", "spend it");
  await needs.getByRole("link", { name: /^ann budget/ }).waitFor();
  const request = await coordinator.json(["requests"], "lead");
  await coordinator.cli(["reject", request.id, "--reason", "Enough."], "lead");
  await needs.getByRole("link", { name: /^ann trouble paused: / }).click();
  await page.getByRole("heading", { name: "ann" }).waitFor();

  const bob = await console_(coordinator, "bob", "#/team");
  await bob.page.getByRole("listitem", { name: "ann", exact: true }).getByText("paused").waitFor();
  assert.equal(await bob.page.getByText("Needs you").count(), 0);
  assert.deepEqual([...problems, ...bob.problems], []);
});
