// @ts-check
/** Measures the page of a large team: `TEAMWIRE_TEST_BINARY=../target/dist/teamwire node --test test/large.js`. Prints JSON. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

/** How many members the team has, and how many messages its history. */
const MEMBERS = Number(process.env["TEAMWIRE_LARGE_MEMBERS"] ?? 1_000);
const MESSAGES = Number(process.env["TEAMWIRE_LARGE_MESSAGES"] ?? 100_000);

/** How many sends are under way at a time. */
const SENDERS = 64;

/** @param {number} index */
const nameOf = (index) => `m${String(index).padStart(4, "0")}`;

/** @param {number[]} values */
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

test("the page of a large team, in figures", { timeout: 1_800_000 }, async () => {
  const coordinator = await Coordinator.start({
    TEAMWIRE_LIMITS_MEMBERS_MAX: `${MEMBERS}`,
    TEAMWIRE_RATES_SENDS_PER_SECOND: "100000",
    TEAMWIRE_RATES_SENDS_BURST: "100000",
    TEAMWIRE_RATES_WRITES_PER_SECOND: "100000",
  });
  await coordinator.team();
  await coordinator.crowd(MEMBERS - 1, nameOf);
  const lead = await coordinator.client(await coordinator.credential("lead"));
  let next = 0;
  const send = async () => {
    for (let at = next++; at < MESSAGES; at = next++) {
      const text = at === 10 ? "a needle in the haystack" : `Report ${at} of the large team.`;
      await lead.send(nameOf(at % (MEMBERS - 1)), `report ${at}`, text);
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, send));
  await lead.send(nameOf(0), "the last one", "That is all.");

  const { page, problems } = await console_(coordinator, "lead", "#/");
  await page.getByText(`${MEMBERS} members`).waitFor();
  /** @type {number[]} */ const paints = [];
  /** @type {number[]} */ const shown = [];
  /** @type {number[]} */ const messages = [];
  for (let run = 0; run < 5; run++) {
    let began = Date.now();
    await page.reload({ waitUntil: "commit" });
    await page.getByText(`${MEMBERS} members`).waitFor();
    shown.push(Date.now() - began);
    paints.push(
      await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN),
    );
    began = Date.now();
    await page.getByRole("link", { name: "Messages" }).click();
    await page.getByRole("list", { name: "History" }).getByText("the last one").first().waitFor();
    messages.push(Date.now() - began);
    await page.evaluate(() => void (location.hash = "#/"));
  }

  await page.evaluate(() => void (location.hash = "#/messages"));
  const list = page.getByRole("list", { name: "History" });
  await list.locator("[data-sequence]").first().waitFor();
  // Scrolls up through a thousand entries; the entries in the window must follow each other.
  const scrolled = await list.evaluate(async (element) => {
    const began = performance.now();
    /** @type {Set<number>} */ const seen = new Set();
    let longest = 0;
    let before = began;
    while (seen.size < 1_000) {
      const box = element.getBoundingClientRect();
      for (const row of element.querySelectorAll("[data-sequence]")) {
        const { top, bottom } = row.getBoundingClientRect();
        if (bottom > box.top && top < box.bottom) seen.add(Number(row.getAttribute("data-sequence")));
      }
      element.scrollTop -= element.clientHeight * 0.8;
      await new Promise((resolve) => requestAnimationFrame(resolve));
      const now = performance.now();
      longest = Math.max(longest, now - before);
      before = now;
    }
    const all = [...seen].sort((a, b) => a - b);
    const gaps = all.filter((sequence, index) => index > 0 && sequence !== (all[index - 1] ?? 0) + 1).length;
    return { entries: seen.size, gaps, ms: Math.round(before - began), longestFrameMs: Math.round(longest) };
  });
  assert.equal(scrolled.gaps, 0, "scrolling shows a gap");

  const began = Date.now();
  await page.getByLabel("Search the history").fill("needle");
  // The oldest message but ten. Each search looks through a bounded stretch, and a button continues it.
  const found = page.locator("mark").getByText("needle").first();
  const further = page.getByRole("button", { name: "Search further" });
  let searches = 1;
  for (await found.or(further).first().waitFor(); !(await found.isVisible()); searches++) {
    await further.click();
    await found.or(further).first().waitFor();
  }
  const search = Date.now() - began;
  console.log(
    JSON.stringify({
      members: MEMBERS,
      messages: MESSAGES,
      firstPaintMs: median(paints),
      paints,
      membersShownMs: median(shown),
      shown,
      messagesShownMs: median(messages),
      searchMs: search,
      searches,
      scrolled,
    }),
  );
  assert.deepEqual(problems, []);
});
