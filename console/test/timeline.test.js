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

test("the timeline opens on the age of the team, and a dragged range zooms in until all is shown again", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  for (const name of ["ann", "bob"]) await coordinator.join(name);
  await coordinator.cli(["send", "ann", "The first one."], "lead");
  await new Promise((resolve) => setTimeout(resolve, 8_000));
  await coordinator.cli(["send", "bob", "The last one."], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/timeline");
  const happened = page.getByRole("list", { name: "What happened in the visible time" });
  const span = page.getByRole("combobox", { name: "Visible time" });
  assert.equal(await span.inputValue(), "");
  await happened.getByText("The last one.").waitFor();
  await happened.getByText("The operator created the team").waitFor();
  assert.doesNotMatch(page.url(), /span|end/);

  // The first message is in the first third of the time, and the last one is not.
  const drawing = page.getByRole("img", { name: /^Members and their messages/ });
  const box = await drawing.boundingBox();
  assert.ok(box);
  const drag = async (/** @type {number} */ from, /** @type {number} */ to) => {
    const x = (/** @type {number} */ part) => box.x + 120 + part * (box.width - 132);
    await page.mouse.move(x(from), box.y + 40);
    await page.mouse.down();
    await page.mouse.move(x((from + to) / 2), box.y + 44);
    await page.mouse.move(x(to), box.y + 44);
    await page.mouse.up();
  };
  await drag(0, 0.35);
  await page.waitForURL(/span=[\d.]+.*end=\d+/);
  await happened.getByText("The first one.").waitFor();
  assert.equal(await happened.getByText("The last one.").count(), 0);
  assert.equal(await span.inputValue(), new URLSearchParams(page.url().split("?")[1]).get("span"));

  await page.goBack();
  await happened.getByText("The last one.").waitFor();
  await drag(0.35, 0.02);
  await happened.getByText("The last one.").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Show all" }).click();
  await happened.getByText("The last one.").waitFor();
  assert.doesNotMatch(page.url(), /span|end/);

  // By keyboard. A move of a few pixels is a click, not a range.
  await drag(0.3, 0.301);
  assert.doesNotMatch(page.url(), /span/);
  await page.goto(`${coordinator.address}/#/timeline?span=300`);
  await page.keyboard.press("+");
  await page.waitForURL(/span=60/);
  await page.keyboard.press("0");
  await page.waitForURL((url) => !url.hash.includes("span"));
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
