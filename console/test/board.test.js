// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { violations } from "./axe.js";
import { Coordinator, console_ } from "./harness.js";

/** @param {string[]} names */
async function withMembers(...names) {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  for (const name of names) await coordinator.join(name);
  return coordinator;
}

/** @param {import("playwright-core").Page} page @param {string} name */
const column = (page, name) => page.getByRole("region", { name, exact: true });

/** @param {import("playwright-core").Page} page @param {string} label @param {string} subject */
const card = (page, label, subject) => column(page, label).getByRole("link", { name: new RegExp(subject) });

/** Returns a task as the command line shows it to the lead.
 * @param {Coordinator} coordinator @param {string} id */
const shown = async (coordinator, id) => (await coordinator.json(["task", "show", id], "lead")).task;

/** Fails if a page had problems.
 * @param {readonly string[]} problems */
const none = (problems) => assert.deepEqual(problems, []);

test("a task is created, assigned, claimed by its owner, and completed, and what it blocks becomes ready", async () => {
  const coordinator = await withMembers("ann");
  const { page, problems } = await console_(coordinator, "lead", "#/board");
  await page.getByText("The board is empty.").waitFor();

  await page.keyboard.press("n");
  let dialog = page.getByRole("dialog");
  await dialog.getByLabel("Subject").fill("Write it");
  await dialog.getByLabel("Description").fill("All **of** it");
  await dialog.getByRole("button", { name: "Add a pair" }).click();
  await dialog.getByLabel("Key 1").fill("pr");
  await dialog.getByLabel("Value 1").fill("42");
  await dialog.getByRole("button", { name: "Create" }).click();
  const detail = page.getByRole("complementary", { name: "Task #1" });
  await detail.locator("strong", { hasText: "of" }).waitFor();
  await page.getByRole("button", { name: "New task" }).click();
  dialog = page.getByRole("dialog");
  await dialog.getByLabel("Subject").fill("Ship it");
  await dialog.getByLabel("Blocked by").fill("#1");
  await dialog.getByRole("button", { name: "Create" }).click();
  await card(page, "Blocked", "Ship it").getByText("blocked by #1").waitFor();

  await card(page, "Ready", "Write it").click();
  await detail.getByRole("button", { name: "Assign…" }).click();
  await page.getByRole("dialog").getByLabel("Owner").fill("ann");
  await page.getByRole("dialog").getByRole("button", { name: "Assign" }).click();
  await card(page, "Ready", "Write it").getByText("for ann").waitFor();
  const created = await shown(coordinator, "1");
  assert.deepEqual([created.owner, created.description, created.metadata], ["ann", "All **of** it", { pr: "42" }]);

  await coordinator.cli(["task", "claim", "1"], "ann");
  await card(page, "In progress", "Write it")
    .getByText(/claimed \d+ s ago/)
    .waitFor();
  await coordinator.cli(["task", "complete", "1", "--result", "see **there**"], "ann");
  await card(page, "Done", "Write it").waitFor();
  await card(page, "Ready", "Ship it").waitFor();
  await detail.locator(".result strong", { hasText: "there" }).waitFor();
  // The history of the task, the newest first.
  const history = detail.locator("ol");
  await history.getByText("completed it").waitFor();
  const said = (await history.getByRole("listitem").allInnerTexts()).map((line) => line.replace(/^\S+\s+/, ""));
  assert.deepEqual(said, ["ann completed it", "ann claimed it", "lead assigned it to ann", "lead added it"]);

  // The lead completes what no one has claimed.
  await card(page, "Ready", "Ship it").click();
  await page.getByRole("button", { name: "Complete…" }).click();
  await page.getByRole("dialog").getByLabel("Result").fill("shipped");
  await page.getByRole("dialog").getByRole("button", { name: "Complete" }).click();
  await card(page, "Done", "Ship it").waitFor();
  assert.equal((await shown(coordinator, "2")).result, "shipped");

  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await card(page, "Done", "Ship it").waitFor({ state: "detached" });
  none(problems);
});

test("a claim is released with a reason, which the board and the next owner see", async () => {
  const coordinator = await withMembers("ann");
  await coordinator.cli(["task", "create", "Pay the bill", "--owner", "ann"], "lead");
  await coordinator.cli(["task", "claim", "1"], "ann");
  const { page, problems } = await console_(coordinator, "lead", "#/board?task=1");
  await page.getByRole("button", { name: "Release…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("The claim of ann ends").waitFor();
  await dialog.getByLabel("Reason").fill("no access to the bank");
  await dialog.getByRole("button", { name: "Release" }).click();
  await card(page, "Ready", "Pay the bill")
    .getByText(/given back \d+ s ago: no access to the bank/)
    .waitFor();
  await page
    .getByRole("complementary")
    .getByText(/lead\s+ended the claim of ann: no access to the bank/)
    .waitFor();
  assert.equal((await shown(coordinator, "1")).released_because, "no access to the bank");

  // The owner's own page releases with the token of its claim.
  await coordinator.cli(["task", "claim", "1"], "ann");
  const own = await console_(coordinator, "ann", "#/board?task=1");
  await own.page.getByRole("button", { name: "Release…" }).click();
  await own.page.getByRole("dialog").getByRole("button", { name: "Release" }).click();
  await card(own.page, "Ready", "Pay the bill").getByText("2nd attempt").waitFor();
  none([...problems, ...own.problems]);
});

test("a member that is not the lead has no buttons for what it may not do", async () => {
  const coordinator = await withMembers("ann", "bob");
  await coordinator.cli(["task", "create", "Of bob", "--owner", "bob"], "lead");
  await coordinator.cli(["task", "claim", "1"], "bob");
  await coordinator.cli(["task", "create", "Free"], "lead");
  const { page, problems } = await console_(coordinator, "ann", "#/board?task=1");
  const detail = page.getByRole("complementary");
  await detail.getByText("lead added it").waitFor();
  for (const name of ["Edit…", "Assign…", "Release…", "Complete…", "Delete…", "Claim"])
    assert.equal(await detail.getByRole("button", { name, exact: true }).count(), 0, name);
  await card(page, "Ready", "Free").click();
  await detail.getByRole("button", { name: "Claim", exact: true }).click();
  await card(page, "In progress", "Free").getByText("ann").waitFor();
  assert.equal((await shown(coordinator, "2")).owner, "ann");
  none(problems);
});

test("two people edit one task, and neither loses what it wrote", async () => {
  const coordinator = await withMembers("ann");
  await coordinator.cli(["task", "create", "The old subject", "--description", "the old text"], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/board?task=1");
  await page.getByRole("button", { name: "Edit…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Subject").fill("The subject of the lead");
  await coordinator.cli(
    ["task", "update", "1", "--subject", "The subject of ann", "--description", "ann's text"],
    "ann",
  );
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("This task was changed while you were editing.").waitFor();
  await dialog.getByText("You both changed the subject").waitFor();
  // What only the other one has changed is in the form now.
  assert.equal(await dialog.getByLabel("Description").inputValue(), "ann's text");
  assert.equal(await dialog.getByLabel("Subject").inputValue(), "The subject of the lead");
  assert.equal((await shown(coordinator, "1")).subject, "The subject of ann");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  const { subject, description } = await shown(coordinator, "1");
  assert.deepEqual([subject, description], ["The subject of the lead", "ann's text"]);
  none(problems);
});

test("the graph says what blocks what, and the filters are in the address", async () => {
  const coordinator = await withMembers("ann");
  for (const args of [
    ["Plan"],
    ["Build", "--blocked-by", "1"],
    ["Ship", "--blocked-by", "1,2", "--owner", "ann"],
    ["Alone"],
  ])
    await coordinator.cli(["task", "create", ...args], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/board?view=graph");
  const graph = page.getByRole("region", { name: "Dependencies" });
  await graph.getByRole("link", { name: /#3 Ship.*blocked by #1, #2/s }).waitFor();
  await graph.getByText("1 task without dependencies not shown.").waitFor();
  assert.equal(await graph.locator("path.edge").count(), 3);
  const left = async (/** @type {string} */ name) => (await graph.getByRole("link", { name }).boundingBox())?.x ?? 0;
  assert.ok((await left("#1 Plan")) < (await left("#2 Build")) && (await left("#2 Build")) < (await left("#3 Ship")));
  // It fits its region, wide or narrow.
  for (const width of [1200, 700]) {
    await page.setViewportSize({ width, height: 800 });
    await page.waitForFunction(() => {
      const region = document.querySelector('[aria-label="Dependencies"]');
      const last = region?.querySelector("li:last-child a")?.getBoundingClientRect();
      const box = region?.getBoundingClientRect();
      return region && box && last && region.scrollWidth <= region.clientWidth && last.right > 0.85 * box.right;
    });
  }
  await page.setViewportSize({ width: 1280, height: 720 });
  // By keyboard: to the last one, and into it.
  for (const key of ["j", "j", "j", "Enter"]) await page.keyboard.press(key);
  const detail = page.getByRole("complementary", { name: "Task #3" });
  await detail.getByRole("link", { name: "#2" }).click();
  await page.getByRole("complementary", { name: "Task #2" }).getByText("Blocks").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("complementary").waitFor({ state: "detached" });

  await page.getByRole("link", { name: "Columns" }).click();
  await page.getByLabel("Filter by owner").selectOption("ann");
  await card(page, "Ready", "Plan").waitFor({ state: "detached" });
  await card(page, "Blocked", "Ship").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("nothing like it");
  await page.getByText("No task matches the filter.").waitFor();
  assert.match(page.url(), /owner=ann&text=nothing\+like\+it/);
  await page.reload();
  await page.getByText("No task matches the filter.").waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await card(page, "Ready", "Alone").waitFor();
  none(problems);
});

test("a task of a member that leaves is back on the board, with the reason", async () => {
  const coordinator = await withMembers("ann");
  await coordinator.cli(["task", "create", "Left behind"], "lead");
  await coordinator.cli(["task", "claim", "1"], "ann");
  const { page, problems } = await console_(coordinator, "lead", "#/board?task=1");
  await card(page, "In progress", "Left behind").waitFor();
  await coordinator.cli(["leave"], "ann");
  await card(page, "Ready", "Left behind")
    .getByText(/given back \d+ s ago: its owner has exited/)
    .waitFor();
  await page
    .getByRole("complementary")
    .getByText(/coordinator\s+ended the claim of ann: its owner has exited/)
    .waitFor();
  none(problems);
});

for (const [where, hash, size] of /** @type {const} */ ([
  ["a task", "#/board?task=2", { width: 1280, height: 800 }],
  ["the graph", "#/board?view=graph", { width: 1280, height: 800 }],
  ["a phone", "#/board", { width: 360, height: 740 }],
])) {
  test(`axe finds nothing with ${where} in view`, async () => {
    const coordinator = await withMembers("ann");
    for (const args of [
      ["First", "--owner", "ann"],
      ["Second", "--blocked-by", "1", "--description", "a [link](https://a.b)"],
    ])
      await coordinator.cli(["task", "create", ...args], "lead");
    const { page, problems } = await console_(coordinator, "lead", hash, { viewport: size });
    await page.getByText("Second").first().waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("n");
    await page.getByRole("dialog").waitFor();
    assert.deepEqual(await violations(page), []);
    none(problems);
  });
}
