// @ts-check
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

const LINE = 64 * 1024;

/** What an agent might send to harm the person that reads it. */
const CONTENTS = {
  image: '<img src="https://evil.example/a.png" onerror="window.ran = 1"> <svg onload="window.ran = 2">',
  script: '<script>window.ran = 3</script> <iframe srcdoc="<script>parent.ran = 4</script>"></iframe>',
  markdownImage: "![a picture](https://evil.example/b.png) ![x](javascript:window.ran=5)",
  links:
    "[one](javascript:window.ran=6) [two](data:text/html,<script>window.ran=7</script>) [three](vbscript:x) <javascript:window.ran=8>",
  autolinks: "https://evil.example/c www.evil.example someone@evil.example [ok](//evil.example/d)",
  styles:
    '<style>* { display: none }</style> <link rel="stylesheet" href="https://evil.example/e.css"> <meta http-equiv="refresh" content="0;url=https://evil.example/">',
  form: '<form action="https://evil.example/"><input name="a" autofocus onfocus="window.ran = 9"></form> <base href="https://evil.example/">',
  ansi: "\u001b[31mred\u001b[0m \u001b]0;title\u0007 \u001b[2J",
  bidi: "user\u202egpj.exe \u2066isolated\u2069 \u200f\u061c",
  zeroWidth: "a\u200bb\u200cc\ufeffd\u00ade",
  tags: "plain\u{e0041}\u{e0042}\u{e007f} text",
  controls: "a\u0001b\u0008c\u007fd\u009be\u2028f\u2029g",
  oneLine: "x".repeat(LINE),
  words: "word ".repeat(LINE / 5),
  zeroWidths: "\u200b\u200c".repeat(LINE / 6),
  quotes: ">".repeat(10_000),
  nestedLists: "- ".repeat(10_000),
  brackets: "[".repeat(10_000),
  images: "![".repeat(10_000),
  emphasis: "*a _b ".repeat(LINE / 6),
  addresses: "a.".repeat(LINE / 2 - 1) + "@",
  fence: "```\n".repeat(LINE / 4),
  newlines: "\n".repeat(LINE - 1) + "x",
  table: `${"|a".repeat(500)}|\n${"|-".repeat(500)}|\n${`${"|c".repeat(500)}|\n`.repeat(40)}`,
  tallTable: `|a|b|\n|-|-|\n${"|c|d|\n".repeat(8_000)}`,
  combining: `Z${"\u0301\u0335".repeat(5_000)}`,
};

test(
  "whatever members send, nothing runs, nothing is fetched, and the page goes on",
  { timeout: 180_000 },
  async () => {
    const coordinator = await Coordinator.start();
    await coordinator.team();
    await coordinator.join("ann");
    for (const content of Object.values(CONTENTS)) {
      const message = { type: "message", recipient: "ann", summary: "a hostile text", content };
      await coordinator.cli(["send", "--json", "-"], "lead", JSON.stringify(message));
    }
    const uris = [
      "javascript:window.ran=10",
      "https://evil.example/f",
      "data:text/html,<script>window.ran=11</script>",
    ];
    await coordinator.cli(["send", "ann", "attached", ...uris.flatMap((uri) => ["--attach", uri])], "lead");
    const plan = `# <img src=x onerror="window.ran = 12">\n\n${">".repeat(10_000)}`;
    await coordinator.cli(["plan", "submit", "-"], "ann", plan);
    await coordinator.cli(["task", "create", '<img src=x onerror="window.ran = 13">'], "lead");

    const { page, problems } = await console_(coordinator, "lead", "#/messages");
    const list = page.getByRole("list", { name: "History" });
    await list.getByText("attached").first().waitFor();

    // Reads all of it from the top, unfolds what is folded, and formats what may be. The page must answer each step.
    /** @param {() => Promise<unknown>} step */
    const answered = async (step) => {
      await step();
      // The page has drawn what the step made, and takes the next one.
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    };
    const entries = (await coordinator.cli(["history", "-n", "100", "--json"], "lead")).trim().split("\n");
    for (const { sequence } of entries.map((line) => JSON.parse(line))) {
      await page.evaluate((at) => (location.hash = `#/messages?kinds=all&notices=all&at=${at}`), `${sequence}`);
      const row = page.locator(`[data-sequence="${sequence}"]`);
      await answered(() => row.first().waitFor({ state: "attached" }));
      for (const name of [/^Show all/, /^Show with formatting/]) {
        const button = row.getByRole("button", { name });
        if ((await button.count()) > 0) await answered(() => button.first().click());
      }
      const fold = row.getByRole("button", { name: /^Show less/ });
      if ((await fold.count()) > 0) await answered(() => fold.first().click());
    }
    const { ran, made } = await page.evaluate(() => ({
      ran: /** @type {any} */ (window).ran,
      made: document.querySelectorAll(
        "#app :is(img, script, iframe, style, link, meta, base, svg, object, embed, video)",
      ).length,
    }));
    assert.equal(ran, undefined);
    assert.equal(made, 0);
    assert.deepEqual(problems, []);
  },
);

test("invisible characters are shown as escapes, and no link opens by itself", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.join("ann");
  const texts = [CONTENTS.bidi, CONTENTS.tags, CONTENTS.ansi, CONTENTS.zeroWidth, CONTENTS.links, CONTENTS.autolinks];
  for (const content of texts) {
    const message = { type: "message", recipient: "ann", summary: "look", content };
    await coordinator.cli(["send", "--json", "-"], "lead", JSON.stringify(message));
  }
  const { page, context, problems } = await console_(coordinator, "lead", "#/messages");
  const list = page.getByRole("list", { name: "History" });
  for (const name of ["\\u{202e}", "\\u{2066}", "\\u{e0041}", "\\u{1b}", "\\u{200b}", "\\u{feff}"])
    await list.getByText(name, { exact: true }).first().waitFor();
  const characters = await list.evaluate((element) => element.textContent ?? "");
  assert.doesNotMatch(characters, /[\u202a-\u202e\u2066-\u2069\u200b\ufeff\u001b]|[\u{e0000}-\u{e007f}]/u);

  assert.equal(await list.locator("a[href^='javascript:'], a[href^='data:'], a[href^='http']").count(), 0);
  let opened = 0;
  context.on("page", () => opened++);
  await list.getByRole("button", { name: "https://evil.example/c" }).click();
  const link = list.getByRole("link", { name: "https://evil.example/c" });
  await link.waitFor();
  assert.equal(await link.getAttribute("rel"), "noopener noreferrer nofollow");
  assert.equal(opened, 0);
  await list.getByText("javascript:window.ran=6").waitFor();
  assert.deepEqual(problems, []);
});

test("every text of the corpus is shown as the corpus expects", async () => {
  /** @type {{ texts: { name: string, text: string, shown?: string }[] }} */
  const corpus = JSON.parse(await readFile(new URL("../../proto/testdata/hostile_text.json", import.meta.url), "utf8"));
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.join("ann");
  const { page, problems } = await console_(coordinator, "lead", "#/messages");
  // One after the other: the page holds only the messages that are in view, and the newest is.
  for (const { name, text, shown } of corpus.texts) {
    const message = { type: "message", recipient: "ann", summary: "of the corpus", content: `[${text}]` };
    await coordinator.cli(["send", "--json", "-"], "lead", JSON.stringify(message));
    // In Markdown, a carriage return ends a line.
    const wanted = `[${shown ?? text}]`.replaceAll("\\u{d}", "\n").replace(/\s+/g, " ");
    await page
      .waitForFunction((wanted) => {
        const text = document.querySelector("#app")?.textContent ?? "";
        // Repetitions of a hidden character are shown as a number.
        const plain = text.replace(/(\\u\{[0-9a-f]+\})×(\d+)/g, (_, escape, times) => escape.repeat(Number(times)));
        return plain.replace(/\s+/g, " ").includes(wanted);
      }, wanted)
      .catch(() => assert.fail(`${name}: ${wanted}`));
  }
  assert.deepEqual(problems, []);
});
