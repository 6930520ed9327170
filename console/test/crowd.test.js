// @ts-check
/** A large team. A debug build of the coordinator takes minutes to admit a thousand members: use a long --test-timeout then. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

/** How many members the team has, 100 to 1,000. */
const MEMBERS = Number(process.env["TEAMWIRE_TEST_CROWD"] ?? 300);

/** @param {import("playwright-core").Page} page @param {string} name */
const cardOf = (page, name) => page.getByRole("listitem", { name, exact: true });

test("only the members near the window are drawn for a large team, and a filter finds one of many", async () => {
  const coordinator = await Coordinator.start({ TEAMWIRE_LIMITS_MEMBERS_MAX: `${MEMBERS}`, TEAMWIRE_STORE: "memory:" });
  await coordinator.team();
  await coordinator.crowd(MEMBERS - 1, (index) => `m${String(index).padStart(4, "0")}`);
  const { page, problems } = await console_(coordinator);
  await page.getByText(`${MEMBERS} members`).waitFor();
  const region = page.getByRole("region", { name: "Members and hosts" });
  await region.getByRole("article").first().waitFor();
  // All of them are there, and only those near the window have contents.
  assert.equal(await region.getByRole("listitem").count(), MEMBERS);
  assert.ok((await region.getByRole("article").count()) < 100);

  await region.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await region.getByRole("listitem").last().getByRole("link").waitFor();
  await page.getByRole("searchbox", { name: "Filter" }).fill("m0050");
  await cardOf(page, "m0050").getByRole("link").waitFor();
  assert.equal(await region.getByRole("listitem").count(), 1);
  assert.match(page.url(), /search=m0050/);

  await page.getByRole("button", { name: "Table" }).click();
  await page.getByRole("searchbox", { name: "Filter" }).fill("crowd");
  await page
    .getByRole("row")
    .nth(MEMBERS - 1)
    .waitFor({ state: "attached" });
  assert.ok(
    (await page
      .getByRole("cell", { name: "away" })
      .or(page.getByRole("cell", { name: "active" }))
      .count()) < 100,
  );
  assert.deepEqual(problems, []);
});
