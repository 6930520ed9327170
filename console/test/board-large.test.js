// @ts-check
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

/** @param {import("playwright-core").Page} page @param {string} name */
const column = (page, name) => page.getByRole("region", { name, exact: true });

/** @param {import("playwright-core").Page} page @param {string} label @param {string} subject */
const card = (page, label, subject) => column(page, label).getByRole("link", { name: new RegExp(subject) });

test("the document contains only the visible ones of a thousand tasks on the board", async () => {
  const coordinator = await Coordinator.start();
  const tasks = Array.from({ length: 1_000 }, (_, index) => {
    const blocker = index >= 500 ? `\nblocked_by = ["t${index - 500}"]` : "";
    return `[[tasks]]\nkey = "t${index}"\nsubject = "Part ${index}"${blocker}\n`;
  });
  const file = path.join(coordinator.directory, "team.toml");
  await writeFile(file, `name = "acme"\n\n${tasks.join("\n")}`);
  await coordinator.cli(["up", file], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/board");
  await column(page, "Ready").getByRole("heading", { name: "Ready 500" }).waitFor();
  await column(page, "Blocked").getByRole("heading", { name: "Blocked 500" }).waitFor();
  const cards = () => page.locator("a.task").count();
  assert.ok((await cards()) < 100, `${await cards()} cards`);

  // Through the whole first column, and on to the next one.
  const list = column(page, "Blocked").getByRole("list");
  await list.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await card(page, "Blocked", "Part 999").click();
  await page.getByRole("complementary", { name: "Task #1000" }).waitFor();
  await page.keyboard.press("j");
  await page.getByRole("complementary", { name: "Task #1", exact: true }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await page.getByRole("complementary", { name: "Task #1000" }).waitFor();
  await page.keyboard.press("Escape");

  await page.getByLabel("Filter by text").fill("part 77");
  await column(page, "Blocked").getByRole("heading", { name: "Blocked 10" }).waitFor();
  await page.getByRole("link", { name: "Graph" }).click();
  await page.getByRole("button", { name: "Show all" }).or(page.getByText("No task here is blocked")).first().waitFor();
  await page.getByLabel("Filter by text").fill("");
  await page.getByRole("link", { name: /#1000 Part 999/ }).waitFor();
  assert.deepEqual(problems, []);
});
