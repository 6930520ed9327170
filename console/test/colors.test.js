// @ts-check
/** The color of each member. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { violations } from "./axe.js";
import { Coordinator, console_ } from "./harness.js";

const NAMES = Array.from({ length: 24 }, (_, index) => `member-${index}`);
/** Colors that members ask for: some that browsers know, and some that they do not. */
const WANTED = ["gold", "#fefefe", "#000000", "navy", "lime", "papayawhip", "transparent", "url(x)", "no-such-color"];

const coordinator = await Coordinator.start();
await coordinator.team();
const lead = await coordinator.client(await coordinator.credential("lead"));
const { joinToken } = await lead.teams.invite({ usesMax: 100 });
const token = await coordinator.client(joinToken);
for (const name of NAMES) await token.teams.join({ name, liveness: 2 });
for (const [index, color] of WANTED.entries())
  await token.teams.join({ name: `asks-${index}`, liveness: 2, attributes: { color } });
await lead.close();
await token.close();

/** Returns the contrast of each name on the page Team with each background that a name may have, and what the names look like.
 * @param {import("playwright-core").Page} page */
function inks(page) {
  return page.evaluate(() => {
    const context = /** @type {CanvasRenderingContext2D} */ (
      document.createElement("canvas").getContext("2d", { willReadFrequently: true })
    );
    /** @param {string} color */
    const rgb = (color) => {
      context.fillStyle = color;
      context.fillRect(0, 0, 1, 1);
      return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    /** @param {number[]} color */
    const luminance = (color) => {
      const [r = 0, g = 0, b = 0] = color.map((value) => {
        const part = value / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const root = getComputedStyle(document.documentElement);
    const backgrounds = ["--bg", "--raised", "--sunken", "--accent-soft"].map((name) =>
      luminance(rgb(root.getPropertyValue(name))),
    );
    return [...document.querySelectorAll("a.member-ink")].map((link) => {
      const color = rgb(getComputedStyle(link).color);
      const ink = luminance(color);
      const contrasts = backgrounds.map((back) => (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05));
      return { name: link.textContent ?? "", color: color.join(), contrast: Math.min(...contrasts) };
    });
  });
}

test("each member has one color everywhere, which can be read in light and in dark colors", async () => {
  const { page, problems } = await console_(coordinator, "lead", "#/team?view=table");
  for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
    await page.emulateMedia({ colorScheme });
    await page.getByRole("link", { name: "asks-8", exact: true }).waitFor();
    const found = await inks(page);
    assert.equal(found.length, NAMES.length + WANTED.length + 1);
    for (const { name, contrast } of found) assert.ok(contrast >= 4.5, `${name} has ${contrast} in ${colorScheme}`);
    // Names differ in color, though not all of them.
    assert.ok(new Set(found.map(({ color }) => color)).size > 10);
    assert.deepEqual(await violations(page), []);
  }
  await page.emulateMedia({ colorScheme: "light" });
  const inTable = new Map((await inks(page)).map(({ name, color }) => [name, color]));
  await page.goto(`${coordinator.address}/#/team`);
  await page.getByRole("list", { name: "Cards" }).getByRole("link", { name: "member-3", exact: true }).waitFor();
  for (const { name, color } of await inks(page)) assert.equal(color, inTable.get(name), name);
  await page.reload();
  await page.getByRole("list", { name: "Cards" }).getByRole("link", { name: "member-3", exact: true }).waitFor();
  for (const { name, color } of await inks(page)) assert.equal(color, inTable.get(name), name);
  assert.deepEqual(problems, []);
});

test("a member that asks for a color that browsers know gets it, and any other text is ignored", async () => {
  const { page, problems } = await console_(coordinator, "lead", "#/team?view=table");
  const colorOf = async (/** @type {number} */ index) =>
    await page
      .getByRole("link", { name: `asks-${index}`, exact: true })
      .evaluate((link) => link.style.getPropertyValue("--member"));
  for (const [index, color] of WANTED.entries()) {
    if (index < 6) assert.equal(await colorOf(index), color);
    else assert.match(await colorOf(index), /^oklch\(/);
  }
  await page.goto(`${coordinator.address}/#/timeline`);
  const lane = page.getByRole("region", { name: "Lanes" }).getByText("asks-0", { exact: true });
  assert.equal(await lane.evaluate((text) => text.style.getPropertyValue("--member")), "gold");
  assert.deepEqual(problems, []);
});
