// @ts-check
/** What a screen reader needs, as axe checks it. */

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns what axe finds on a page, with the elements at fault.
 * @param {import("playwright-core").Page} page @returns {Promise<string[]>} */
export async function violations(page) {
  await page.evaluate(AXE);
  return await page.evaluate(async () => {
    // @ts-expect-error: the line before has defined it.
    const { violations } = await axe.run();
    return violations.map(
      (/** @type {any} */ found) => `${found.id}: ${found.nodes.map((/** @type {any} */ node) => node.html).join(" ")}`,
    );
  });
}
