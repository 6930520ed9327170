// @ts-check
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { violations } from "./axe.js";
import { Coordinator, console_ } from "./harness.js";

/** Starts a team with members that persons use from the command line.
 * @param {string[]} names */
async function withMembers(...names) {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  for (const name of names) await coordinator.join(name);
  return coordinator;
}

/** Submits a plan as a member. Returns the id of the request.
 * @param {Coordinator} coordinator @param {string} member @param {string} plan @param {string} summary */
async function submit(coordinator, member, plan, summary) {
  const reply = await coordinator.json(["plan", "submit", "-", "--summary", summary], member, plan);
  return /** @type {string} */ (reply.request_id);
}

/** Asks for permission as a member. Returns the id of the request.
 * @param {Coordinator} coordinator @param {string} member @param {string} summary @param {string} detail
 * @param {string[]} [options] */
async function ask(coordinator, member, summary, detail, options = []) {
  const args = ["permission", "request", "--tool", "Bash", "--summary", summary, "--detail", "-", ...options];
  return /** @type {string} */ ((await coordinator.json(args, member, detail)).request_id);
}

/** Returns a request once it is no longer pending.
 * @param {Coordinator} coordinator @param {string} member @param {string} id */
async function decision(coordinator, member, id) {
  for (;;) {
    const request = await coordinator.json(["requests", id], member);
    if (request.state !== "pending") return request;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Fails if a page had problems.
 * @param {readonly string[]} problems */
const none = (problems) => assert.deepEqual(problems, []);

test("a plan is rejected with a reason, and the next one is compared with it and approved", async () => {
  const coordinator = await withMembers("ann");
  const first = await submit(coordinator, "ann", "# Steps\n\n1. copy\n2. drop **everything**\n", "copy and drop");
  const { page, problems } = await console_(coordinator, "lead", "#/approvals");

  const detail = page.getByRole("region", { name: "The request" });
  await detail.getByRole("heading", { name: "copy and drop" }).waitFor();
  // Rendered, not as its source.
  await detail.locator("strong", { hasText: "everything" }).waitFor();
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog");
  // A plan is not rejected without a reason.
  assert.equal(await dialog.getByRole("button", { name: "Reject" }).isDisabled(), true);
  // The dialog opens at its field, and is sent from there.
  await page.keyboard.type("keep a copy");
  await page.keyboard.press("Control+Enter");
  await detail.getByText("rejected by lead").waitFor();
  const rejected = await decision(coordinator, "ann", first);
  assert.deepEqual([rejected.state, rejected.reason], ["rejected", "keep a copy"]);

  const second = await submit(coordinator, "ann", "# Steps\n\n1. copy\n2. drop the old one\n", "copy, then drop");
  await page.getByRole("button", { name: "Next request for you" }).click();
  await detail.getByRole("heading", { name: "copy, then drop" }).waitFor();
  await detail.getByText("keep a copy").waitFor();
  await detail.getByRole("button", { name: "Changes +1 −1" }).click();
  const diff = detail.getByRole("region", { name: "What differs from the rejected plan" });
  await diff.waitFor();
  assert.match(await diff.locator(".added").innerText(), /2\. drop the old one/);
  assert.match(await diff.locator(".removed").innerText(), /2\. drop \*\*everything\*\*/);
  assert.match(page.url(), new RegExp(`id=${second}&view=changes`));

  await page.keyboard.press("a");
  await detail.getByText("approved by lead").waitFor();
  assert.equal((await decision(coordinator, "ann", second)).state, "approved");
  none(problems);
});

test("a permission request appears without a reload, with its edit as a difference, and is answered by keyboard", async () => {
  const coordinator = await withMembers("ann");
  const { page, problems } = await console_(coordinator, "lead", "#/approvals");
  await page.getByText("Nothing waits for your answer.").waitFor();

  const edit = { file_path: "src/a.rs", old_string: "one\ntwo", new_string: "one\nthree" };
  const id = await ask(coordinator, "ann", "change a line", JSON.stringify(edit));
  await page.getByRole("link", { name: /Bash: .*src\/a\.rs/ }).waitFor({ timeout: 2_000 });
  await page.getByText("ann describes it as: change a line").waitFor();
  await page.waitForFunction(() => document.title.startsWith("(1) Approvals"));
  await page.getByText("src/a.rs", { exact: true }).waitFor();
  const diff = page.getByRole("region", { name: "Edit 1" });
  assert.match(await diff.locator(".added").innerText(), /three/);
  assert.match(await diff.locator(".removed").innerText(), /two/);
  await page.getByText("Approving lets ann do what is shown here.").waitFor();

  await page.keyboard.press("a");
  await page.getByText("approved by lead").first().waitFor();
  assert.equal((await decision(coordinator, "ann", id)).state, "approved");
  // What was answered stays open, so that a second key answers nothing else.
  const other = await ask(coordinator, "ann", "something else", "rm -r /");
  await page.getByRole("link", { name: /Bash: rm -r \// }).waitFor();
  await page.keyboard.press("a");
  assert.match(page.url(), new RegExp(`id=${id}`));
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Bash: rm -r /" }).waitFor();
  await page.getByText("rm -r /", { exact: true }).waitFor();
  assert.equal((await coordinator.json(["requests", other], "ann")).state, "pending");
  await page.keyboard.press("r");
  await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
  assert.equal((await decision(coordinator, "ann", other)).state, "rejected");
  none(problems);
});

test("a patch is shown as a difference, an expired request leaves the list, and j and k go through it", async () => {
  const coordinator = await withMembers("ann");
  const { page, problems } = await console_(coordinator, "lead", "#/approvals");
  const patch = "update a.rs\n@@ -1,2 +1,2 @@\n one\n-two\n+three\nReason: + it is more";
  await ask(coordinator, "ann", "stays", patch);
  await page.getByRole("heading", { name: "Bash: update a.rs" }).waitFor();
  const diff = page.getByRole("region", { name: "The change" });
  const lines = async (/** @type {string} */ kind) =>
    (await diff.locator(kind).allInnerTexts()).map((line) => line.trim());
  await diff.waitFor();
  assert.match((await lines(".added")).join("|"), /^\+[^|]*three$/);
  assert.match((await lines(".removed")).join("|"), /^-[^|]*two$/);
  assert.deepEqual(await lines(".head"), ["update a.rs", "@@ -1,2 +1,2 @@", "Reason: + it is more"]);
  await ask(coordinator, "ann", "leaves", "ls", ["--deadline", "4"]);
  const leaving = page.getByRole("link", { name: /Bash: ls.*expires in \d s/s });
  await leaving.waitFor();
  await page.keyboard.press("j");
  await page.getByRole("heading", { name: "Bash: ls" }).waitFor();
  await page.keyboard.press("k");
  await page.getByRole("heading", { name: "Bash: update a.rs" }).waitFor();
  await page.keyboard.press("j");
  await page.getByRole("link", { name: /Bash: ls.*expired without an answer/s }).waitFor();
  const detail = page.getByRole("region", { name: "The request" });
  await detail.getByText("expired without an answer").waitFor();
  assert.equal(await detail.getByRole("button", { name: /Approve/ }).count(), 0);
  await page.waitForFunction(() => document.title.startsWith("(1) "));
  none(problems);
});

test("a teammate answers what it was asked, and has no buttons for anything else", async () => {
  const coordinator = await withMembers("ann", "bob");
  await submit(coordinator, "ann", "1. do it", "the plan of ann");
  await coordinator.cli(["shutdown", "ann", "the work is done"], "lead");
  const { page, problems } = await console_(coordinator, "ann", "#/approvals");

  // Its own plan waits for the lead.
  await page.getByRole("link", { name: /the plan of ann/ }).click();
  const detail = page.getByRole("region", { name: "The request" });
  await detail.getByText("Only the lead or the operator can answer a plan.").waitFor();
  assert.equal(await detail.getByRole("button", { name: /Approve|Reject/ }).count(), 0);
  // No key does either.
  await page.keyboard.press("r");
  assert.equal(await page.getByRole("dialog").count(), 0);

  const id = await ask(coordinator, "bob", "asks ann", "ls", ["--approver", "ann"]);
  await page.getByRole("link", { name: /Bash: ls/ }).click();
  await detail.getByRole("button", { name: "Approve", exact: true }).waitFor();

  // The end of a member is asked twice.
  await page.getByRole("link", { name: /Shut ann down/ }).click();
  await detail.getByText("the work is done").waitFor();
  await page.keyboard.press("a");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await page.keyboard.press("r");
  await page.getByRole("dialog").getByLabel("Reason").fill("not yet");
  await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
  await detail.getByText("rejected by ann").waitFor();
  assert.equal((await coordinator.json(["requests", id], "bob")).state, "pending");
  none(problems);
});

test("the page says who answered first when its own answer comes second", async () => {
  const coordinator = await withMembers("ann");
  const id = await ask(coordinator, "ann", "a race", "ls");
  const { page, problems } = await console_(coordinator, "lead", `#/approvals?id=${id}`);
  await page.getByText("ls", { exact: true }).waitFor();
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await coordinator.cli(["approve", id, "--as", "operator", "--team", "acme"], "lead");
  await dialog.getByRole("button", { name: "Reject" }).click();
  await page.getByText("Your answer came second: the request is approved by operator.").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  none(problems);
});

test("a hidden tab notifies of a request that arrives, with its command", async () => {
  const coordinator = await withMembers("ann");
  await ask(coordinator, "ann", "was there before", "ls");
  const { page, problems, context } = await console_(coordinator, "lead", "#/approvals");
  await page.evaluate(() => {
    const shown = /** @type {unknown[]} */ ([]);
    Object.assign(globalThis, {
      shown,
      Notification: class {
        static permission = "default";
        static async requestPermission() {
          return "granted";
        }
        /** @param {string} title @param {{ body: string }} options */
        constructor(title, { body }) {
          shown.push({ title, body });
        }
        close() {}
      },
    });
  });
  await page.getByRole("button", { name: "Notify me when one arrives" }).click();
  await page.getByText("You are notified while this tab is hidden.").waitFor();
  await ask(coordinator, "ann", "while visible", "pwd");
  await page.getByRole("link", { name: /Bash: pwd/ }).waitFor();
  await page.evaluate(() => Object.defineProperty(document, "visibilityState", { value: "hidden" }));
  await ask(coordinator, "ann", "while hidden", "rm \u202e-r x");
  const shown = () => page.evaluate(() => /** @type {any} */ (globalThis).shown);
  await page.waitForFunction(() => /** @type {any} */ (globalThis).shown.length > 0);
  assert.deepEqual(await shown(), [{ title: "ann asks you", body: "Bash: rm \\u{202e}-r x" }]);
  none(problems);
  await context.close();
});

test("hostile contents are shown as text", async () => {
  const coordinator = await withMembers("ann");
  const evil = '<img src=x onerror="document.title=1">\u001b[31m\u202etxt.exe ' + "x".repeat(60_000);
  const { page, problems } = await console_(coordinator, "lead", "#/approvals", {
    viewport: { width: 360, height: 740 },
  });
  await ask(coordinator, "ann", "evil \u202e <b>", evil);
  // On a phone, nothing opens before it is touched.
  await page.getByRole("link", { name: /img src/ }).click();
  const detail = page.getByRole("region", { name: "The request" });
  await detail.locator("pre").getByText('<img src=x onerror="document.title=1">').waitFor();
  assert.equal(await detail.locator("img").count(), 0);
  await detail.locator("pre .hidden-char", { hasText: "\\u{202e}" }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
  await page.getByRole("link", { name: "All requests" }).click();
  await page.getByRole("link", { name: /img src/ }).waitFor();
  none(problems);
});

test("an order waits for its host, and no one else answers it", async () => {
  const coordinator = await withMembers();
  const config = path.join(coordinator.directory, "host.toml");
  await writeFile(config, '[profiles.echo]\ncommand = ["cat"]\n');
  const { join_string } = await coordinator.json(["invite", "--host", "gpu-1"], "lead");
  const host = coordinator.program(["host", "--join", join_string, "--config", config], "gpu-1");
  while (!(await coordinator.cli(["hosts"], "lead")).includes("echo"))
    await new Promise((resolve) => setTimeout(resolve, 100));
  // A host that hangs.
  host.kill("SIGSTOP");
  await coordinator.cli(["spawn", "ann", "--profile", "echo", "--prompt", "Read **this**.", "--no-wait"], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/approvals");
  await page.getByText("Nothing waits for your answer.").waitFor();
  await page.getByRole("link", { name: /Start ann as echo.*waits for host gpu-1/s }).click();
  const detail = page.getByRole("region", { name: "The request" });
  await detail.getByText("Waiting for host gpu-1.").waitFor();
  await detail.locator("strong", { hasText: "this" }).waitFor();
  assert.equal(await detail.getByRole("button", { name: /Approve|Reject/ }).count(), 0);
  none(problems);
});

test("older requests are loaded as the reader scrolls to them", async () => {
  const coordinator = await withMembers("ann");
  // A newer plan cancels the one before.
  const first = await submit(coordinator, "ann", "1. begin", "the first plan");
  for (let batch = 0; batch < 6; batch++)
    await Promise.all(
      Array.from({ length: 10 }, (_, index) => submit(coordinator, "ann", "1. go on", `plan ${batch}.${index}`)),
    );
  const { page, problems } = await console_(coordinator, "lead", "#/approvals");
  const list = page.getByRole("list", { name: "Requests" });
  await list.getByText("cancelled: its author has submitted a newer plan").first().waitFor();
  const end = list.getByRole("link", { name: /the first plan/ });
  while ((await end.count()) === 0) {
    await list.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
  await end.click();
  await page.getByRole("region", { name: "The request" }).getByText("cancelled: its author").waitFor();
  assert.match(page.url(), new RegExp(`id=${first}`));
  assert.ok((await list.getByRole("link").count()) < 60);
  none(problems);
});

for (const size of [
  { width: 1280, height: 800 },
  { width: 360, height: 740 },
]) {
  test(`axe finds nothing with a plan in view, ${size.width} pixels wide`, async () => {
    const coordinator = await withMembers("ann");
    const first = await submit(coordinator, "ann", "1. a\n2. b\n", "the first");
    await coordinator.cli(["reject", first, "--reason", "more"], "lead");
    const second = await submit(coordinator, "ann", "1. a\n2. b\n3. c\n", "the second");
    const hash = `#/approvals?id=${second}&view=changes`;
    const { page, problems } = await console_(coordinator, "lead", hash, { viewport: size });
    await page.getByRole("button", { name: "Changes +1 −0" }).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("r");
    await page.getByRole("dialog").waitFor();
    assert.deepEqual(await violations(page), []);
    none(problems);
  });
}
