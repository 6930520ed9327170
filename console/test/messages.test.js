// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Coordinator, console_, scripted } from "./harness.js";

/** @typedef {import("playwright-core").Page} Page */

/** A window that shows many rows at once. */
const TALL = { viewport: { width: 1280, height: 4_000 } };

/** The address of Messages with everything that happened, instead of what was said. */
const EVERYTHING = "#/messages?kinds=all";

/** The rows of the history that hold a text.
 * @param {Page} page @param {string | RegExp} hasText */
function rows(page, hasText) {
  return page.getByRole("list", { name: "History" }).getByRole("listitem").filter({ hasText });
}

/** Writes a message with the keyboard and sends it.
 * @param {Page} page @param {string} to @param {string} text */
async function write(page, to, text) {
  const form = page.getByRole("form", { name: "Write a message" });
  // The page takes keys once it is loaded.
  await form.or(page.getByRole("button", { name: /^(Write a message|Continue writing)/ })).waitFor();
  if (!(await form.isVisible())) await page.keyboard.press("c");
  await form.getByLabel("To", { exact: true }).selectOption(to);
  await form.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Control+Enter");
}

/** Starts a teammate that sends this many messages, numbered from 1, and then does nothing. Returns when it has.
 * @param {Coordinator} coordinator @param {string} name @param {number} count @param {string} to */
async function talker(coordinator, name, count, to = "team-lead") {
  const sends = `{ to: "${to}", summary: "report " + n, message: "This is report " + n + " of ${name}." }`;
  await coordinator.run(
    name,
    scripted(`for (let n = 1; n <= ${count}; n++) console.log(JSON.stringify(${sends})); process.stdin.resume();`),
  );
  await coordinator.said(`This is report ${count} of ${name}.`);
}

test("a message goes out, and its receipts turn without a reload", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.run("ann");
  // Holds back what it receives until it is asked for it.
  await coordinator.run(
    "bob",
    scripted(`
      const held = [];
      lines((line) => {
        if (!line.id) return;
        held.push(line.id);
        if (line.content === "now") console.log(JSON.stringify({ ack: held }));
      });
    `),
  );
  const { page, problems } = await console_(coordinator, "lead", "#/messages");
  await page.evaluate("window.sameDocument = true");

  await write(page, "ann", "First line\n\nand **more** of it");
  const sent = rows(page, "and more of it").first();
  await sent.getByText("First line").waitFor();
  await sent.getByRole("img", { name: /^ann: processed at / }).waitFor();
  await rows(page, "You said: First line").waitFor();

  await write(page, "bob", "keep this");
  const kept = rows(page, "keep this");
  await kept.getByRole("img", { name: /^bob: delivered/ }).waitFor();
  await coordinator.cli(["send", "bob", "now"], "lead");
  await kept.getByRole("img", { name: /^bob: processed at / }).waitFor();

  await write(page, "*", "to all of you");
  const broadcast = rows(page, "to all of you").first();
  await broadcast.getByRole("img", { name: /^ann: processed at / }).waitFor();
  await broadcast.getByRole("img", { name: /^bob: delivered/ }).waitFor();
  await coordinator.cli(["send", "bob", "now"], "lead");
  await broadcast.getByRole("img", { name: /^bob: processed at / }).waitFor();
  assert.equal(await page.evaluate("window.sameDocument"), true);
  assert.deepEqual(problems, []);
});

test("leaving Messages before its receipts are read does not break the next page", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.join("ann");
  const { page, problems } = await console_(coordinator, "lead", "#/team");
  await coordinator.cli(["send", "ann", "No process reads this yet."], "lead");
  await page.goto(`${coordinator.address}/#/messages`);
  // Leaves as soon as the message is there, which is when its receipts are wanted.
  await page.evaluate(
    () =>
      new Promise((resolve) => {
        const look = () => {
          if (!document.querySelector(".receipts")) return void requestAnimationFrame(look);
          location.hash = "#/team";
          resolve(undefined);
        };
        look();
      }),
  );
  await page.getByRole("heading", { level: 1, name: "Team" }).waitFor();
  const moment = page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 500, "over")));
  assert.equal(await Promise.race([moment, new Promise((resolve) => setTimeout(resolve, 10_000, "stuck"))]), "over");
  assert.deepEqual(problems, []);
});

test("a broadcast to many says how many have processed it, and names each when asked", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  for (const name of ["ann", "bob", "cid", "dee"]) await coordinator.join(name);
  const { page, problems } = await console_(coordinator, "lead", "#/messages");
  await write(page, "*", "who is there?");
  const count = rows(page, "who is there?").getByRole("button", { name: /of 4 processed/ });
  await count.click();
  await rows(page, "who is there?").getByText("cid: queued").waitFor();
  await coordinator.cli(["inbox", "--ack"], "cid");
  await rows(page, "who is there?").getByText("1 of 4 processed").waitFor();
  await rows(page, "who is there?").getByText("cid: processed").waitFor();
  assert.deepEqual(problems, []);
});

test("a reply shows what it answers, leads there, and its thread can be opened alone", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.run("ann");
  await coordinator.cli(["send", "ann", "Which database?"], "lead");
  await coordinator.cli(["send", "ann", "something else"], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/messages");

  const echo = rows(page, "You said: Which database?");
  await echo.getByRole("button", { name: "Reply" }).click();
  await page.getByText(/^In reply to ann/).waitFor();
  await page.getByLabel("Message", { exact: true }).fill("Thanks, the second one.");
  await page.keyboard.press("Control+Enter");
  const reply = rows(page, "Thanks, the second one.").first();
  await reply.getByRole("button", { name: /^↪ ann/ }).waitFor();
  await echo.getByRole("button", { name: "1 reply" }).waitFor();

  await reply.getByRole("button", { name: "Thread" }).click();
  await page.getByRole("button", { name: "Close the thread" }).waitFor();
  assert.match(page.url(), /thread=/);
  await rows(page, "Which database?").first().waitFor();
  await rows(page, "You said: Which database?").waitFor();
  await rows(page, "Thanks, the second one.").waitFor();
  assert.equal(await rows(page, "something else").count(), 0);

  await page.getByRole("button", { name: "Close the thread" }).click();
  await rows(page, "something else").first().waitFor();
  await rows(page, "Thanks, the second one.")
    .first()
    .getByRole("button", { name: /^↪ ann/ })
    .click();
  await page.locator(".here").filter({ hasText: "You said: Which database?" }).waitFor();
  assert.deepEqual(problems, []);
});

test("a request shows its decision, which is one line in the stream", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.join("ann");
  await coordinator.cli(["plan", "submit", "-"], "ann", "# The plan\n\n1. Measure\n2. Cut");
  const { page, problems } = await console_(coordinator, "lead", "#/messages");
  const request = rows(page, "Measure");
  await request.getByText("awaits an answer").waitFor();
  await request.getByRole("link", { name: "Answer it" }).waitFor();
  await coordinator.cli(["reject", "last", "--reason", "Too slow"], "lead");
  await request.getByText("rejected").waitFor();
  await request.getByText("Too slow").waitFor();
  await rows(page, "lead rejected ann's plan: Too slow").getByRole("button", { name: "Show the request" }).click();
  await page.locator(".here").filter({ hasText: "Measure" }).waitFor();
  assert.equal(await rows(page, "rejected ann's plan").count(), 1);
  assert.deepEqual(problems, []);
});

test("the page shows what was said, asked and decided, and events on request", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.join("ann");
  await coordinator.run("bob");
  await coordinator.cli(["task", "create", "Cut the costs"], "lead");
  await coordinator.cli(["task", "claim", "1"], "ann");
  await coordinator.cli(["send", "ann", "How is it going?"], "lead");
  await coordinator.cli(["plan", "submit", "-"], "ann", "# The plan\n\n1. Measure");
  await coordinator.cli(["approve", "last", "--yes"], "lead");
  const args = ["permission", "request", "--tool", "Bash", "--summary", "x", "--detail", "npm ci", "--deadline", "1"];
  await coordinator.cli(args, "ann");
  const { page, problems } = await console_(coordinator, "lead", "#/messages", TALL);
  const list = page.getByRole("list", { name: "History" });
  await rows(page, "How is it going?").waitFor();
  await rows(page, "lead approved ann's plan").waitFor();
  await rows(page, "npm ci").first().getByText("expired").first().waitFor();
  const EVENTS = [/ann joined/, /claimed task #1/, /created the team/, /signed in to the console/, /invited bob/];
  for (const text of EVENTS) assert.equal(await rows(page, text).count(), 0, `${text}`);
  assert.equal(await page.getByRole("button", { name: /▸ \d+ notice/ }).count(), 0);
  assert.equal(await page.getByLabel("Unfold notices").count(), 0);
  const said = await list.getByRole("listitem").count();

  const events = page.getByRole("button", { name: "Events" });
  assert.equal(await events.getAttribute("aria-pressed"), "false");
  await events.click();
  for (const text of EVENTS) await rows(page, text).first().waitFor();
  assert.match(page.url(), /kinds=all/);
  await page.reload();
  for (const text of EVENTS) await rows(page, text).first().waitFor();
  await page.getByLabel("Unfold notices").waitFor();
  await events.click();
  for (const text of EVENTS) await rows(page, text).first().waitFor({ state: "detached" });
  await list
    .getByRole("listitem")
    .nth(said - 1)
    .waitFor();
  assert.equal(await list.getByRole("listitem").count(), said);

  // A link to an event that is not shown leads to what was said before it.
  const entries = (await coordinator.cli(["history", "-n", "100", "--json"], "lead")).trim().split("\n");
  const asked = entries
    .map((line) => JSON.parse(line))
    .find((entry) => JSON.stringify(entry).includes("How is it going?"));
  await page.goto(`${coordinator.address}/#/messages?at=${Number(asked.sequence) + 1}`);
  await page.locator(".here").waitFor();
  assert.deepEqual(problems, []);
});

test("the search finds and marks an old message, and filters live in the address", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.run("ann");
  await coordinator.cli(["send", "ann", "The NEEDLE is here"], "lead");
  await talker(coordinator, "bob", 500);
  const { page, problems } = await console_(coordinator, "lead", "#/messages");
  await rows(page, "report 500 of bob").waitFor();
  assert.equal(await rows(page, "NEEDLE").count(), 0);

  await page.keyboard.press("/");
  await page.keyboard.type("needle");
  await rows(page, "The NEEDLE is here").first().locator("mark").getByText("NEEDLE").waitFor();
  assert.match(page.url(), /search=needle/);
  await page.getByLabel("Member", { exact: true }).selectOption("ann");
  await page.getByRole("button", { name: "Events" }).click();
  await page.reload();
  assert.match(page.url(), /search=needle/);
  await rows(page, "The NEEDLE is here").first().locator("mark").getByText("NEEDLE").waitFor();
  assert.equal(await page.getByLabel("Search the history").inputValue(), "needle");
  assert.equal(await page.getByLabel("Member", { exact: true }).inputValue(), "ann");
  const events = page.getByRole("button", { name: "Events" });
  assert.equal(await events.getAttribute("aria-pressed"), "true");
  await page.getByRole("button", { name: "Remove the filters" }).click();
  await rows(page, "report 500 of bob").waitFor();
  assert.doesNotMatch(page.url(), /search|member/);
  // Events are not a filter: they stay until they are switched off.
  assert.equal(await events.getAttribute("aria-pressed"), "true");
  await events.click();
  assert.doesNotMatch(page.url(), /kinds/);

  // What goes on while the person searches appears in what was found.
  await page.getByLabel("Search the history").fill("haystack");
  await page.getByText("Nothing matches").waitFor();
  await coordinator.cli(["send", "bob", "into the haystack"], "lead");
  await rows(page, "into the haystack").waitFor();
  assert.deepEqual(problems, []);
});

test("a person marks its own messages as read", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.join("ann");
  for (const text of ["one thing", "another thing", "a third thing"])
    await coordinator.cli(["send", "ann", text], "lead");
  const lead = await console_(coordinator, "lead", "#/messages");
  await rows(lead.page, "one thing").getByRole("img", { name: "ann: queued" }).waitFor();
  const { page, problems } = await console_(coordinator, "ann", "#/messages");
  await page.getByLabel("Inbox", { exact: true }).selectOption("ann");
  await page.getByText("3 messages not processed").waitFor();
  const inbox = page.getByRole("list", { name: "Messages that are not processed" }).getByRole("listitem");
  await inbox.filter({ hasText: "another thing" }).getByRole("button", { name: "Mark as read" }).click();
  await page.getByText("2 messages not processed").waitFor();
  assert.deepEqual(await inbox.locator(".body").allInnerTexts(), ["one thing", "a third thing"]);
  await coordinator.cli(["send", "ann", "a fourth thing"], "lead");
  await inbox.filter({ hasText: "a fourth thing" }).waitFor();
  await page.getByRole("button", { name: "Mark all 3 as read" }).click();
  await page.getByText("You have read everything.").waitFor();
  await rows(lead.page, "one thing")
    .getByRole("img", { name: /^ann: processed/ })
    .waitFor();
  assert.equal(await coordinator.cli(["inbox", "--json"], "ann"), "");
  assert.deepEqual([...problems, ...lead.problems], []);
});

test("notices are folded until they are asked for, and a draft survives another page", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.run("ann");
  await coordinator.cli(["send", "ann", "hello"], "lead");
  await coordinator.cli(["shutdown", "ann", "--wait"], "lead");
  await coordinator.join("bob");
  const { page, problems } = await console_(coordinator, "lead", EVERYTHING);
  const folded = page.getByRole("button", { name: /▸ \d+ notice/ });
  await folded.first().waitFor();
  const before = await page.getByRole("article", { name: "Message from the coordinator" }).count();
  assert.equal(before, 0);
  await page.getByLabel("Unfold notices").check();
  await page.getByRole("article", { name: "Message from the coordinator" }).first().waitFor();
  assert.equal(await folded.count(), 0);
  assert.match(page.url(), /notices=all/);

  await page.getByRole("button", { name: "Write a message" }).click();
  await page.getByLabel("To", { exact: true }).selectOption("bob");
  await page.getByLabel("Message", { exact: true }).fill("**not** rendered <b>here</b>");
  await page.getByRole("link", { name: "Team" }).click();
  await page.getByRole("heading", { name: "Team" }).waitFor();
  await page.getByRole("link", { name: "Messages" }).click();
  await page.getByLabel("Message", { exact: true }).waitFor();
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "**not** rendered <b>here</b>");
  assert.equal(await page.getByLabel("To", { exact: true }).inputValue(), "bob");
  assert.deepEqual(problems, []);
});

test(
  "a thousand messages scroll to the top without a gap, and new ones do not move what is read",
  { timeout: 300_000 },
  async () => {
    const coordinator = await Coordinator.start();
    await coordinator.team();
    await talker(coordinator, "bob", 1_000);
    const { page, problems } = await console_(coordinator, "lead", `${EVERYTHING}&notices=all`);
    await rows(page, "report 1000 of bob").waitFor();
    const list = page.getByRole("list", { name: "History" });

    // Collects every row that was in the window, until the first one is.
    const seen = await list.evaluate(async (element) => {
      /** @type {number[]} */
      const found = [];
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      while (found[0] !== 1) {
        const box = element.getBoundingClientRect();
        const visible = [...element.querySelectorAll("[data-sequence]")]
          .filter((row) => {
            const { top, bottom } = row.getBoundingClientRect();
            return bottom > box.top && top < box.bottom;
          })
          .map((row) => Number(row.getAttribute("data-sequence")))
          .sort((a, b) => a - b)
          .filter((sequence) => !found.includes(sequence));
        found.unshift(...visible);
        element.scrollTop -= element.clientHeight * 0.8;
        await frame();
      }
      return found;
    });
    const expected = Array.from({ length: seen.length }, (_, index) => index + 1);
    assert.deepEqual(seen, expected);
    assert.ok(seen.length >= 1_000, `${seen.length} entries`);

    // The reader is at the top. Nothing moves when others go on, and a button leads to what is new: the message, and soon a
    // notice that bob is idle again.
    const first = await list.evaluate((element) => element.scrollTop);
    await coordinator.cli(["send", "bob", "news"], "lead");
    await page.getByRole("button", { name: /^\d+ new/ }).waitFor();
    assert.equal(await list.evaluate((element) => element.scrollTop), first);
    await page.getByRole("button", { name: /^\d+ new/ }).click();
    await rows(page, "news").waitFor();
    assert.deepEqual(problems, []);
  },
);

test("a link opens the history at an entry, with what is around it, and a time leads there, too", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await talker(coordinator, "bob", 700);
  const { page, problems } = await console_(coordinator, "lead", `${EVERYTHING}&at=120`, TALL);
  const here = page.locator(".here");
  await here.waitFor();
  assert.equal(await here.getAttribute("data-sequence"), "120");
  await page.locator('[data-sequence="119"]').waitFor();
  await page.locator('[data-sequence="121"]').waitFor();
  assert.equal(await rows(page, "report 700 of bob").count(), 0);

  // Downwards from here, everything follows up to the end, and the end is live.
  await page.getByRole("list", { name: "History" }).focus();
  const last = rows(page, "report 700 of bob");
  while (!(await last.isVisible())) await page.keyboard.press("PageDown");
  await coordinator.cli(["send", "bob", "and on it goes"], "lead");
  await page.keyboard.press("End");
  await rows(page, "and on it goes").waitFor();

  await page.getByLabel("Go to a time").fill("2020-01-01T00:00");
  await page.locator('.here[data-sequence="1"]').waitFor();
  assert.match(page.url(), /at=1(&|$)/);
  await page.getByRole("button", { name: /(Newest|new) ↓/ }).click();
  await rows(page, "and on it goes").waitFor();
  assert.deepEqual(problems, []);
});

test("the page goes on after its coordinator was killed, without a gap", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.join("ann");
  await coordinator.cli(["send", "ann", "before"], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/messages");
  await rows(page, "before").waitFor();
  await coordinator.kill();
  // A proxy in between may keep the stream open. The page then notices the silence.
  await page.getByText("coordinator unreachable").waitFor({ timeout: 45_000 });
  await coordinator.serve();
  await coordinator.cli(["send", "ann", "afterwards"], "lead");
  await rows(page, "afterwards").waitFor();
  assert.equal(await rows(page, "before").count(), 1);
  assert.deepEqual(problems, []);
});
