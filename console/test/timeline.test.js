// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

test("a replay shows the team as it was at a moment", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.join("ann");
  await coordinator.cli(["task", "create", "Design the API"], "lead");
  await coordinator.cli(["task", "claim", "1"], "ann");
  await coordinator.cli(["send", "ann", "How is it going?"], "lead");
  const claimed = await coordinator.json(["task", "show", "1"], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/timeline");

  const happened = page.getByRole("list", { name: "What happened in the visible time" });
  await happened.getByText("lead → ann: How is it going?").waitFor();
  const lanes = page.getByRole("region", { name: "Lanes" });
  await lanes.getByText("ann", { exact: true }).waitFor();

  // A moment at which the task was claimed, and the message was not sent yet.
  const then = Date.parse(claimed.claimed_at ?? claimed.task.claimed_at);
  await page.goto(`${coordinator.address}/#/timeline?at=${then}`);
  const section = (/** @type {string} */ name) => page.getByRole("region", { name: `${name} at this moment` });
  await section("In progress").getByText("Design the API").waitFor();
  assert.equal(await section("Waiting").getByText("Design the API").count(), 0);
  assert.equal(await section("Members").getByText("unread message").count(), 0);

  // A later one.
  await page.getByRole("slider", { name: "The moment that is shown" }).press("End");
  await section("Members").getByText("1 unread message").waitFor();

  await page.getByRole("button", { name: "Back to now" }).click();
  await section("In progress").waitFor({ state: "detached" });
  assert.deepEqual(problems, []);
});

test("the visible time is in the address, and what is older is read when it is asked for", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.cli(["send", "--broadcast", "Welcome."], "lead").catch(() => "");
  const { page, problems } = await console_(coordinator, "lead", "#/timeline?span=60");
  const span = page.getByRole("combobox", { name: "Visible time" });
  assert.equal(await span.inputValue(), "60");
  await page.keyboard.press("-");
  await page.waitForURL(/span=300/);
  await span.selectOption("1 h");
  await page.waitForURL(/span=3600/);
  await page
    .getByRole("list", { name: "What happened in the visible time" })
    .getByText("The operator created the team")
    .waitFor();
  await page.getByRole("button", { name: "Earlier" }).click();
  await page.waitForURL(/end=\d+/);
  await page.getByRole("button", { name: "Now", exact: true }).click();
  assert.doesNotMatch(page.url(), /end=/);
  assert.deepEqual(problems, []);
});
