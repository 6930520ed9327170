// @ts-check
/** Every page, with a team at work: what a screen reader needs is there, and pictures for the documentation. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { violations } from "./axe.js";
import { Coordinator, console_, scripted } from "./harness.js";

/** The pages, by their address. */
const PAGES = {
  team: "#/team",
  messages: "#/messages",
  approvals: "#/approvals",
  board: "#/board",
  member: "#/member?name=reviewer",
  timeline: "#/timeline",
  health: "#/health",
  access: "#/access",
};

/** What a page is called, if not as in its address. @type {Record<string, string>} */
const HEADINGS = { member: "reviewer" };

/** Where pictures go if `UPDATE_DOCS` is set. They are made small with pngquant. */
const PICTURES = fileURLToPath(new URL("../../docs/images/console/", import.meta.url));

/** Takes a picture of a page.
 * @param {import("playwright-core").Page} page @param {string} name */
async function take(page, name) {
  const file = `${PICTURES}${name}.png`;
  await mkdir(PICTURES, { recursive: true });
  await page.screenshot({ path: file, animations: "disabled" });
  await promisify(execFile)("pngquant", ["--force", "--strip", "--speed", "1", "--output", file, "64", "--", file]);
}

/** A member that reads what it is sent, says so, and answers. */
const REVIEWER = `
const say = (line) => console.log(JSON.stringify(line));
lines(({ type, id, from }) => {
  if (!id) return;
  if (type === "message") {
    say({ activity: "Read docs/rfc-12.md" });
    say({ activity: "cargo test --package api" });
    say({ usage: { turns: 3, input_tokens: 48200, cached_input_tokens: 31000, output_tokens: 2100, cost_usd: 0.31 } });
    say({ to: from, summary: "two remarks", in_reply_to: id,
      message: "Two remarks:\\n\\n1. **Send** needs an idempotency key.\\n2. A refusal needs a reason, not only a code." });
  }
  say({ ack: id });
});`;

const coordinator = await Coordinator.start();
await coordinator.team();
await coordinator.run("reviewer", scripted(REVIEWER));
for (const name of ["backend", "frontend"]) await coordinator.join(name);
await coordinator.host("lab", { echo: ["teamwire", "echo-teammate"] });
const as = (/** @type {string} */ name, /** @type {string[]} */ ...args) => coordinator.cli(args, name);
await as("lead", "spawn", "tester", "--profile", "echo");
await as("lead", "send", "--broadcast", "Welcome. The API comes first; see the board.");
await as("lead", "task", "create", "Agree on the errors");
await as("lead", "task", "create", "Design the API");
await as("lead", "task", "create", "Write the client", "--blocked-by", "2");
await as("lead", "task", "create", "Try it with 1,000 members", "--blocked-by", "3", "--owner", "tester");
await as("lead", "task", "create", "Describe it in the docs");
await as("frontend", "task", "claim", "1");
await as("frontend", "task", "complete", "1", "--result", "See the RFC.");
await as("backend", "task", "claim", "2");
await as(
  "lead",
  "send",
  "reviewer",
  "Please read RFC 12 before you start.\n\n- It has **two** open questions.\n- `Send` is one of them.",
  "--wait-reply",
);
await as(
  "backend",
  "plan",
  "submit",
  "--summary",
  "One call to send, one to stream",
  "# The API\n\n1. One call to send, one to stream.\n2. Errors carry a reason.\n",
);
await as(
  "frontend",
  "permission",
  "request",
  "--tool",
  "Bash",
  "--summary",
  "Install the packages",
  "--detail",
  "npm ci",
);

for (const scheme of /** @type {const} */ (["light", "dark"])) {
  const options = { colorScheme: scheme, viewport: { width: 1280, height: 800 } };
  /** @type {Awaited<ReturnType<typeof console_>> | undefined} */
  let opened;
  for (const [name, hash] of Object.entries(PAGES)) {
    test(`axe finds nothing on the page ${name} in ${scheme} colors`, async () => {
      // One sign-in for all pages: each is in the history.
      opened ??= await console_(coordinator, "lead", "#/team", options);
      const { page, problems } = opened;
      await page.goto(`${coordinator.address}/${hash}`);
      await page.getByRole("heading", { level: 1, name: HEADINGS[name] ?? name }).waitFor();
      await page.getByRole("status").getByText("live", { exact: true }).waitFor();
      const found = await violations(page);
      if (process.env["UPDATE_DOCS"]) await take(page, `${name}-${scheme}`);
      assert.deepEqual(found, []);
      assert.deepEqual(problems, []);
    });
  }
}
