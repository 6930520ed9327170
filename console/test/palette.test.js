// @ts-check
/** The command palette: pages, members and actions by the keyboard. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { violations } from "./axe.js";
import { Coordinator, console_, open } from "./harness.js";

const coordinator = await Coordinator.start();
await coordinator.team();
for (const name of ["ann", "bob", "north-tower"]) await coordinator.join(name);

/** @param {import("playwright-core").Page} page */
const field = (page) => page.getByRole("combobox", { name: "Find a page, a member or an action" });

/** @param {import("playwright-core").Page} page */
const matches = (page) => page.getByRole("dialog").getByRole("option");

/** @param {import("playwright-core").Page} page */
const options = (page) => matches(page).locator("span:first-child");

/** Opens the palette and types. @param {import("playwright-core").Page} page @param {string} text */
async function find(page, text, key = "Control+k") {
  await page.keyboard.press(key);
  await field(page).waitFor();
  await page.keyboard.type(text);
}

test("Ctrl+K finds a page, a member and an action by what they contain or begin with", async () => {
  const { page, problems } = await console_(coordinator);
  await find(page, "boa");
  assert.deepEqual(await options(page).allInnerTexts(), ["Board", "Keyboard shortcuts"]);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Board" }).waitFor();

  // By initials, with the other key, and while something is being typed.
  await page.keyboard.press("/");
  await find(page, "nt", "Meta+k");
  assert.deepEqual((await options(page).allInnerTexts()).slice(0, 2).sort(), ["New task…", "north-tower"]);
  await page.keyboard.press("Escape");
  assert.equal(await field(page).count(), 0);

  await find(page, "ann");
  assert.deepEqual(await options(page).allInnerTexts(), ["ann", "Write to ann…"]);
  assert.equal(await page.getByRole("dialog").getByRole("option", { selected: true }).innerText(), "ann\nmember");
  assert.equal(await field(page).getAttribute("aria-activedescendant"), await matches(page).first().getAttribute("id"));
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "ann" }).waitFor();

  // The last one follows above the first one.
  await find(page, "bob");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Messages" }).waitFor();
  assert.equal(await page.getByLabel("To", { exact: true }).inputValue(), "bob");
  await page.getByLabel("Message", { exact: true }).waitFor();
  await page.waitForFunction(() => document.activeElement?.tagName === "TEXTAREA");
  assert.doesNotMatch(page.url(), /to=/);

  await find(page, "no such thing");
  await page.getByRole("status").getByText("Nothing matches.").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  assert.deepEqual(problems, []);
});

test("actions open their dialogs, and the oldest request can be answered", async () => {
  await coordinator.cli(["plan", "submit", "-"], "ann", "# The plan of ann");
  await coordinator.cli(["plan", "submit", "-"], "bob", "# The plan of bob");
  const { page, problems } = await console_(coordinator, "lead", "#/health");
  await find(page, "oldest");
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "The request" }).getByText("The plan of ann").first().waitFor();
  for (const [text, title] of [
    ["invite a t", "Invite"],
    ["spawn", "Start a teammate"],
    ["new task", "New task"],
    ["keyboard", "Keyboard"],
  ]) {
    await find(page, text ?? "");
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: title, exact: true });
    await dialog.waitFor();
    // Not over another dialog.
    await page.keyboard.press("Control+k");
    assert.equal(await field(page).count(), 0);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    assert.doesNotMatch(page.url(), /do=/);
  }

  // The header has a button for it, the help names it, and a click chooses.
  await page.keyboard.press("?");
  await page.getByRole("dialog").getByText("Find a page, a member or an action").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Find…" }).click();
  await matches(page).filter({ hasText: "Timeline" }).click();
  await page.getByRole("heading", { level: 1, name: "Timeline" }).waitFor();
  assert.deepEqual(problems, []);
});

test("a sign-in that can only read finds no action that it may not do", async () => {
  const { page, problems } = await open();
  await page.goto(`${coordinator.address}/#code=${await coordinator.code("lead", ["--read-only"])}`);
  await page.getByRole("status").getByText("live", { exact: true }).waitFor();
  await page.keyboard.press("Control+k");
  await field(page).waitFor();
  const names = await options(page).allInnerTexts();
  assert.ok(names.includes("Board") && names.includes("ann"));
  assert.deepEqual(
    names.filter((name) => /write|invite|spawn|new task|answer/i.test(name)),
    [],
  );
  // Nor does a link that would open a dialog.
  for (const hash of ["team?do=teammate", "team?do=spawn", "board?do=new", "messages?to=ann"]) {
    await page.goto(`${coordinator.address}/#/${hash}`);
    await page.waitForFunction(() => !/(do|to)=/.test(location.hash));
    assert.equal(
      await page
        .getByRole("dialog")
        .filter({ hasNot: field(page) })
        .count(),
      0,
    );
    assert.equal(await page.getByRole("form", { name: "Write a message" }).count(), 0);
  }
  assert.deepEqual(problems, []);
});
