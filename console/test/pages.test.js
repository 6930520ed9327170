// @ts-check
/** Every page, with a team at work: what a screen reader needs is there, and pictures for the documentation. */

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { violations } from "./axe.js";
import { Coordinator, console_ } from "./harness.js";

/** The pages, by their address. */
const PAGES = {
  team: "#/team",
  messages: "#/messages",
  approvals: "#/approvals",
  board: "#/board",
  member: "#/member?name=backend",
  timeline: "#/timeline",
  health: "#/health",
  access: "#/access",
};

/** Where pictures go if `UPDATE_DOCS` is set. */
const PICTURES = fileURLToPath(new URL("../../docs/images/console/", import.meta.url));

const coordinator = await Coordinator.start();
await coordinator.team();
await coordinator.run("reviewer");
for (const name of ["backend", "frontend"]) await coordinator.join(name);
const as = (/** @type {string} */ name, /** @type {string[]} */ ...args) => coordinator.cli(args, name);
await as("lead", "send", "--broadcast", "Welcome. The API comes first; see the board.");
await as("lead", "task", "create", "Design the API");
await as("lead", "task", "create", "Write the client", "--blocked-by", "1");
await as("backend", "task", "claim", "1");
await as(
  "lead",
  "send",
  "reviewer",
  "Please read RFC 12 before you start.\n\n- It has **two** open questions.\n- `Send` is one of them.",
);
await as("backend", "plan", "submit", "# The API\n\n1. One call to send, one to stream.\n2. Errors carry a reason.\n");
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
  for (const [name, hash] of Object.entries(PAGES)) {
    test(`axe finds nothing on the page ${name} in ${scheme} colors`, async () => {
      const { page, problems } = await console_(coordinator, "lead", hash, {
        colorScheme: scheme,
        viewport: { width: 1280, height: 800 },
      });
      await page.getByRole("heading", { level: 1 }).waitFor();
      const found = await violations(page);
      if (process.env["UPDATE_DOCS"]) {
        await mkdir(PICTURES, { recursive: true });
        await page.screenshot({ path: `${PICTURES}${name}-${scheme}.png` });
      }
      assert.deepEqual(found, []);
      assert.deepEqual(problems, []);
    });
  }
}
