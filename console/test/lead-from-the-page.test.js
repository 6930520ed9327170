// @ts-check
/** A person leads a whole piece of work from the page alone. Only the host is started at a command line, as on its own machine. */

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { cardOf, Coordinator, goTo, open, spawnTeammate } from "./harness.js";

/**
 * What both teammates run. `careful` submits a plan for what its first message says, and after a rejection another one with the
 * reason; it asks before it does its task, and approves its shutdown. `stubborn` rejects its shutdown.
 */
const PROGRAM = `
import { createInterface } from "node:readline";
const [, , kind] = process.argv;
const say = (line) => process.stdout.write(JSON.stringify(line) + "\\n");
const plan = (steps) => say({ type: "plan_approval_request", summary: "measure the store", plan: "# Steps\\n\\n" + steps });
let task;
const on = {
  message: ({ content }) => content.startsWith("You measure") && plan("1. Measure at noon\\n2. Delete the data"),
  plan_approval_response: ({ approve, content }) => approve || plan("1. Measure at noon\\n2. " + content),
  task: ({ task_id }) => {
    task = task_id;
    if (kind !== "careful") return say({ complete: task, result: "Noted." });
    say({ activity: "asks before it measures" });
    say({ type: "permission_request", tool: "Bash", summary: "measure the store", detail: "redis-benchmark -q" });
  },
  permission_response: ({ approve }) =>
    say(approve ? { complete: task, result: "**41,000** requests per second" } : { release: task, reason: "refused" }),
  shutdown_request: ({ request_id }) =>
    say({ type: "shutdown_response", request_id, approve: kind === "careful", reason: "I like it here." }),
};
const lines = createInterface(process.stdin);
lines.on("line", (text) => {
  const line = JSON.parse(text);
  on[line.type]?.(line);
  if (line.id && line.type !== "shutdown_request") say({ ack: line.id });
});
lines.on("close", () => process.exit(0));
`;

test("a person leads a team from the page, from its creation to its deletion", { timeout: 300_000 }, async () => {
  const coordinator = await Coordinator.start();
  const program = path.join(coordinator.directory, "program.mjs");
  await writeFile(program, PROGRAM);

  // Signs in as the operator, who has no team yet, and creates one.
  const { page, problems } = await open();
  await page.goto(`${coordinator.address}/#code=${await coordinator.code("operator")}`);
  const dialog = page.getByRole("dialog");
  await page.getByText("There is no team yet.").waitFor();
  await page.getByRole("button", { name: "Create a team…" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill("acme");
  await dialog.getByLabel("What it is for").fill("Measure the store");
  await dialog.getByRole("button", { name: "Create the team" }).click();
  await dialog.getByRole("link", { name: "Open the team" }).click();
  await page.getByRole("heading", { level: 1, name: "Team" }).waitFor();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("status").getByText("live", { exact: true }).waitFor();

  // Without a host, there is nothing to spawn on; the dialog leads to the invitation of one.
  await page.getByRole("button", { name: "Spawn…" }).click();
  await dialog.getByRole("button", { name: "Invite a host" }).click();
  await dialog.getByLabel("Name").fill("lab");
  await dialog.getByRole("button", { name: "Create the invitation" }).click();
  const joinString = await dialog.getByLabel("The invitation").inputValue();
  await dialog.getByRole("button", { name: "Done" }).click();
  const commands = {
    careful: [process.execPath, program, "careful"],
    stubborn: [process.execPath, program, "stubborn"],
  };
  await coordinator.startHost("lab", commands, joinString, "claim = true");
  await cardOf(page, "lab").getByText("0 of 4 slots taken").waitFor();

  // Spawns two teammates: one that needs a plan, and one that does not.
  await spawnTeammate(page, {
    name: "ann",
    profile: "careful",
    prompt: "You measure how fast the store is.",
    needsPlan: true,
  });
  await spawnTeammate(page, { name: "bob", profile: "stubborn", prompt: "You take notes." });

  // Gives each a task.
  await goTo(page, "Board");
  const create = async (/** @type {string} */ subject, /** @type {string} */ owner) => {
    await page.getByRole("button", { name: "New task" }).click();
    await dialog.getByLabel("Subject").fill(subject);
    await dialog.getByLabel("Owner").fill(owner);
    await dialog.getByRole("button", { name: "Create" }).click();
    await dialog.waitFor({ state: "detached" });
  };
  const column = (/** @type {string} */ name) => page.getByRole("region", { name, exact: true });
  await create("Measure the store", "ann");
  await create("Take notes", "bob");
  await column("Done")
    .getByRole("link", { name: /Take notes/ })
    .waitFor();
  // What needs a plan is not begun.
  await column("Ready")
    .getByRole("link", { name: /Measure the store/ })
    .waitFor();

  // Rejects the plan with a reason, and approves the next, which differs in one line.
  await goTo(page, "Approvals");
  const request = page.getByRole("region", { name: "The request" });
  await request.getByText("Delete the data").waitFor();
  await request.getByRole("button", { name: /^Reject/ }).click();
  await dialog.getByLabel("Reason").fill("Keep the data");
  await dialog.getByRole("button", { name: "Reject" }).click();
  await request.getByText("rejected by operator").waitFor();
  await page.getByRole("button", { name: "Next request for you" }).click();
  await request.getByRole("button", { name: "Changes +1 −1" }).click();
  await request.locator(".added").getByText("Keep the data").waitFor();
  await request
    .getByRole("button", { name: /^Approve/ })
    .first()
    .click();
  await request.getByText("approved by operator").waitFor();

  // Now that it may begin, ann claims its task, and asks before it does it.
  await page.getByRole("button", { name: "Next request for you" }).click();
  await request.getByRole("heading", { name: "redis-benchmark -q" }).waitFor();
  await request
    .getByRole("button", { name: /^Approve/ })
    .first()
    .click();
  await request.getByText("approved by operator").waitFor();
  await goTo(page, "Board");
  await column("Done")
    .getByRole("link", { name: /Measure the store/ })
    .click();
  await page.locator(".result strong", { hasText: "41,000" }).waitFor();

  // Writes to both, and reads the receipts.
  await goTo(page, "Messages");
  const rows = (/** @type {string} */ hasText) =>
    page.getByRole("list", { name: "History" }).getByRole("listitem").filter({ hasText });
  await page.getByRole("button", { name: "Write a message" }).click();
  const form = page.getByRole("form", { name: "Write a message" });
  await form.getByLabel("To", { exact: true }).selectOption("Everyone");
  await form.getByLabel("Message", { exact: true }).fill("Well done. We stop here.");
  await form.getByRole("button", { name: "Send" }).click();
  for (const name of ["ann", "bob"]) {
    await rows("We stop here")
      .getByRole("img", { name: new RegExp(`^${name}: processed at `) })
      .waitFor();
  }

  // Searches the history.
  await page.getByLabel("Search the history").fill("stop here");
  await rows("We stop here").first().locator("mark").first().waitFor();
  assert.equal(await rows("redis-benchmark").count(), 0);

  // ann ends when it is asked. bob does not, and is stopped.
  await goTo(page, "Team");
  await page.getByRole("link", { name: "ann", exact: true }).click();
  const way = page.getByRole("list", { name: "Progress of its shutdown" });
  const ask = async () => {
    await page.getByRole("button", { name: "Ask to shut down…" }).click();
    await dialog.getByLabel("Reason").fill("The work is done.");
    await dialog.getByRole("button", { name: "Ask", exact: true }).click();
  };
  await ask();
  await way.getByText("exit code 0").waitFor();
  await goTo(page, "Team");
  await page.getByRole("link", { name: "bob", exact: true }).click();
  await ask();
  await way.getByText("I like it here.").waitFor();

  // As long as bob is live, the team stays; the page says who is in the way.
  await goTo(page, "Access");
  const remove = async () => {
    await page.getByRole("button", { name: "Delete acme" }).click();
    await dialog.getByLabel("To confirm").fill("acme");
    await dialog.getByRole("button", { name: "Delete the team" }).click();
  };
  await remove();
  await dialog
    .getByRole("alert")
    .getByText(/^These are still live: bob \(\w+\)\./)
    .waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await goTo(page, "Team");
  await page.getByRole("link", { name: "bob", exact: true }).click();
  await page.getByRole("button", { name: "Stop by force…" }).click();
  await dialog.getByRole("button", { name: "Stop bob now" }).click();
  await way.getByText("Exited").waitFor();

  // No one has ever acted as the lead, so it is not in the way.
  await goTo(page, "Access");
  await remove();
  await page.getByText("There is no team yet.").waitFor();
  await page.getByText("Deleted the team acme.").waitFor();
  assert.equal(await page.getByRole("banner").getByText("acme").count(), 0);
  assert.deepEqual(problems, []);
});
