// @ts-check
/** Members' work: the summary and the diff, and the reviews of tasks. */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { violations } from "./axe.js";
import { Coordinator, console_, open } from "./harness.js";

/** Values of enums in the protocol. */
const PART = { summary: 1, diff: 2, stat: 3, log: 4 };
const FORECAST = { clean: 1, conflicts: 2 };
const STATE = { rejected: 3, approved: 2, cancelled: 5 };
const STATUS = { inProgress: 2, completed: 3 };

/** How many bytes a runner sends at a time. */
const PAGE = 192 * 1024;

const HEAD = "a".repeat(40);
const NEWER = "b".repeat(40);
const BASE = "c".repeat(40);

const HOSTILE = "<img src=x onerror=alert(1)>\u202e\u001b[31m";

/** @param {number} files @param {number} lines @param {string} [last] */
function diffOf(files, lines, last = "the last line") {
  const hunk = [`@@ -1,${lines} +1,${lines} @@ fn main()`];
  for (let line = 0; line < lines; line++) hunk.push(`${" +-"[line % 3]}let value_${line} = compute(${line});`);
  // As many lines as the head says: every third is in both.
  const same = Math.ceil(lines / 3);
  const [removed, added] = [Math.floor(lines / 3), Math.floor((lines + 1) / 3)];
  hunk[0] = `@@ -1,${same + removed} +1,${same + added} @@ fn main()`;
  const text = hunk.join("\n");
  const parts = Array.from({ length: files }, (_, file) => {
    const name = `src/file-${file}.rs`;
    return `diff --git a/${name} b/${name}\nindex 1..2 100644\n--- a/${name}\n+++ b/${name}\n${text}\n`;
  });
  parts.push(
    `diff --git a/end b/end\n--- a/end\n+++ b/end\n@@ -1 +1,2 @@\n-${HOSTILE}\n+${"x".repeat(1_000)}\n+${last}\n`,
  );
  return Buffer.from(parts.join(""));
}

/** A member whose runner is the test: it says what the work is, and counts what it is asked. */
class Runner {
  /** What it answers for each part. A text is a refusal. @type {Record<number, Buffer | string>} */
  parts = {};
  /** A text is a refusal of the summary. @type {any} */
  work = {};
  commit = HEAD;
  /** Grows when the work changes. */
  version = 1;
  /** The questions. @type {any[]} */
  asked = [];
  /** The messages that it got. @type {any[]} */
  messages = [];
  #stop = new AbortController();

  /** @param {Coordinator} coordinator @param {string} name */
  static async start(coordinator, name) {
    const lead = await coordinator.client(await coordinator.credential("lead"));
    const { joinToken } = await lead.teams.invite({ usesMax: 1 });
    const token = await coordinator.client(joinToken);
    const { credential } = await token.teams.join({ name });
    const runner = new Runner();
    runner.client = await coordinator.client(credential);
    void runner.#serve(runner.client).catch(() => {});
    after(() => runner.#stop.abort());
    await coordinator.member(name, (member) => member.connected);
    return Object.assign(runner, { client: runner.client });
  }

  /** @param {import("@teamwire/client").Client} client */
  async #serve(client) {
    for await (const { frame } of client.messages.stream({}, { signal: this.#stop.signal })) {
      if (frame.case === "delivery" && frame.value.message) {
        this.messages.push(frame.value.message);
        await client.messages.ack({ messageIds: [frame.value.message.id] });
      }
      if (frame.case !== "query" || frame.value.question.case !== "work") continue;
      const { queryId, question } = frame.value;
      this.asked.push(question.value);
      void client.teams.answerQuery({ queryId, answer: this.#answer(question.value) });
    }
  }

  /** @param {any} question @returns {any} */
  #answer({ part, offset, version, commit }) {
    const refusal = (/** @type {string} */ value) => ({ case: "refusal", value });
    const work = (/** @type {any} */ value) => ({ case: "work", value });
    if (part === PART.summary) return typeof this.work === "string" ? refusal(this.work) : work({ work: this.work });
    const data = this.parts[part] ?? Buffer.alloc(0);
    if (typeof data === "string") return refusal(data);
    if (offset > 0 && version !== `${this.version}`) return refusal("The runner no longer keeps this version.");
    const page = data.subarray(Number(offset), Number(offset) + PAGE);
    return work({
      // A page may still ask for a part when the summary is refused already.
      work: typeof this.work === "string" ? WORK : this.work,
      data: page,
      totalBytes: BigInt(data.length),
      version: `${this.version}`,
      commit: commit || this.commit,
    });
  }
}

const WORK = {
  repository: "root:1",
  branch: "teamwire/ann",
  baseBranch: "main",
  base: BASE,
  head: HEAD,
  ahead: 2,
  behind: 1,
  files: 3,
  insertions: 40,
  deletions: 2,
  uncommitted: 1,
  forecast: FORECAST.clean,
};

const coordinator = await Coordinator.start();
await coordinator.team();
const lead = await coordinator.client(await coordinator.credential("lead"));
after(() => lead.close());

/** @param {import("playwright-core").Page} page */
const workOf = (page) => page.getByRole("region", { name: "Work", exact: true });

test("a member's work, its forecast, its diff and its commits, and what is known when the runner is silent", async () => {
  const ann = await Runner.start(coordinator, "ann");
  ann.work = WORK;
  ann.parts[PART.diff] = diffOf(2, 6);
  ann.parts[PART.stat] = Buffer.from(
    " src/file-0.rs | 4 ++--\n src/file-1.rs | 4 ++--\n end | 3 ++-\n 3 files changed, 6 insertions(+)\n",
  );
  ann.parts[PART.log] = Buffer.from(`1234567 2026-01-02 ann: add ${HOSTILE}\n89abcde 2026-01-01 ann: begin\n`);
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=ann");
  const work = workOf(page);
  await work.getByText("teamwire/ann").waitFor();
  await work.getByText("2 ahead of main, 1 behind").waitFor();
  await work.getByText("3 files, +40 −2").waitFor();
  await work.getByText("1 file not committed").waitFor();
  await work.getByText("Merges into main without conflicts").waitFor();
  await work.getByText(/As of \d/).waitFor();
  // Nothing but the summary is read before someone wants to see it.
  assert.deepEqual([...new Set(ann.asked.map(({ part }) => part))], [PART.summary]);

  await work.getByText("Diff", { exact: true }).click();
  const diff = work.getByRole("region", { name: "Changes of ann" });
  await diff.getByText("let value_1 = compute(1);").first().waitFor();
  assert.equal(await diff.locator(".added", { hasText: "value_1" }).count(), 2);
  assert.equal(await diff.locator(".removed", { hasText: "value_2" }).count(), 2);
  await diff.getByText("<img src=x onerror=alert(1)>").waitFor();
  await diff.getByText("\\u{202e}").waitFor();
  await diff.getByText("\\u{1b}").waitFor();
  await work.getByRole("button", { name: "end", exact: true }).click();
  await diff.getByText("the last line").waitFor();
  await work.getByText("2 commits").click();
  await work.getByText("89abcde 2026-01-01 ann: begin").waitFor();
  assert.equal(await page.locator("img[src=x]").count(), 0);
  assert.deepEqual(await violations(page), []);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.deepEqual(await violations(page), []);

  // The end of a turn, and the button, read it again.
  const conflict = { ...WORK, forecast: FORECAST.conflicts, conflicts: ["src/a.rs", "src/b.rs"], head: NEWER };
  ann.work = conflict;
  await ann.client.teams.reportActivity({ usage: { turns: 1n }, turn: { turn: 1n }, work: conflict });
  await work.getByText("Conflicts with main in src/a.rs, src/b.rs").waitFor();
  await work.getByText("The work has changed since.").waitFor();
  ann.parts[PART.diff] = diffOf(0, 0, "another line");
  ann.version++;
  await work.getByRole("button", { name: "Load it again" }).click();
  await diff.getByText("another line").waitFor();
  ann.work = { ...WORK, forecast: 0, detail: "git 2.38 or later is needed for a forecast" };
  await work.getByRole("button", { name: "Refresh" }).click();
  await work.getByText("Git 2.38 or later is needed for a forecast").waitFor();

  ann.work = "The runner cannot run git.";
  await work.getByRole("button", { name: "Refresh" }).click();
  await work.getByText("The runner cannot run git.").waitFor();
  await work.getByText(/This is how its runner reported it last, after the turn that ended/).waitFor();
  await work.getByText("Conflicts with main in src/a.rs, src/b.rs").waitFor();
  assert.deepEqual(problems, []);
});

test("a diff of 20 MB keeps the page usable", async () => {
  const big = await Runner.start(coordinator, "big");
  const lines = 600;
  const one = diffOf(1, lines).length - diffOf(0, lines).length;
  const files = Math.ceil(20e6 / one);
  big.work = { ...WORK, files };
  big.parts[PART.diff] = diffOf(files, lines);
  big.parts[PART.stat] = Buffer.from(
    [...Array.from({ length: files }, (_, file) => ` src/file-${file}.rs | 400 +++---`), " end | 3 ++-", ""].join("\n"),
  );
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=big");
  const work = workOf(page);
  await work.getByText("Diff", { exact: true }).click();
  const diff = work.getByRole("region", { name: "Changes of big" });
  await diff.getByText("let value_1 = compute(1);").first().waitFor();
  const rows = () => diff.locator(".row").count();
  assert.ok((await rows()) < 200);
  await work.getByRole("button", { name: "Load more (0.2 of 20.0 MB)" }).waitFor();
  const pagesAsked = () => big.asked.filter(({ part }) => part === PART.diff).length;
  assert.equal(pagesAsked(), 1);

  // Scrolling reads on, and a row in the middle of a file is of the kind that its hunk says.
  await diff.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await work.getByRole("button", { name: "Load more (0.4 of 20.0 MB)" }).waitFor();
  await work.getByRole("button", { name: "Go to the end" }).click();
  await diff.getByText("the last line").waitFor({ timeout: 30_000 });
  await work.getByRole("button", { name: /Load more/ }).waitFor({ state: "detached" });
  assert.ok((await rows()) < 200);
  assert.equal(await diff.locator(".removed", { hasText: "<img src=x" }).count(), 1);
  // A long line is drawn in several rows.
  assert.equal(await diff.locator(".added", { hasText: "xxxx" }).count(), 4);
  const asked = pagesAsked();
  assert.equal(asked, Math.ceil((big.parts[PART.diff]?.length ?? 0) / PAGE));

  // What was dropped is read again, and is the same as before.
  await diff.evaluate((element) => element.scrollTo(0, 0));
  await diff.getByText("diff --git a/src/file-0.rs b/src/file-0.rs").waitFor();
  await diff.evaluate((element) => element.scrollTo(0, element.scrollHeight / 2));
  await diff.locator(".added").first().waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".row.missing").length === 0);
  const wrong = await diff.locator(".row").evaluateAll(
    (all) =>
      all.filter((row) => {
        const [, line] = /value_(\d+) /.exec(row.textContent ?? "") ?? [];
        const kind = ["same", "added", "removed"][Number(line) % 3] ?? "";
        return line !== undefined && !row.classList.contains(kind);
      }).length,
  );
  assert.equal(wrong, 0);
  assert.ok(pagesAsked() > asked);

  // A frame takes no longer than one of a small page.
  const slowest = await diff.evaluate(async (element) => {
    let worst = 0;
    for (let step = 0; step < 40; step++) {
      const from = performance.now();
      element.scrollBy(0, 400);
      await new Promise(requestAnimationFrame);
      worst = Math.max(worst, performance.now() - from);
    }
    return worst;
  });
  assert.ok(slowest < 500, `a step took ${slowest} ms`);

  // A runner that has forgotten the state makes the same commit's diff again; another commit is said to be another.
  const goTo = (/** @type {number} */ part) =>
    diff.evaluate((element, part) => element.scrollTo(0, element.scrollHeight * part), part);
  big.version++;
  await goTo(0.3);
  await diff.locator(".missing").first().waitFor({ state: "detached" });
  await diff.locator(".added").first().waitFor();
  big.version++;
  big.commit = NEWER;
  await goTo(0.8);
  await work.getByText("The work has changed meanwhile").waitFor();
  await work.getByRole("button", { name: "Load it again" }).click();
  await diff.getByText("diff --git a/src/file-0.rs b/src/file-0.rs").waitFor();
  // A file of the list is found far behind what was read.
  await work.getByRole("button", { name: /^Show all / }).click();
  await work.getByRole("button", { name: "src/file-300.rs", exact: true }).click();
  await diff.getByText("diff --git a/src/file-300.rs b/src/file-300.rs").waitFor({ timeout: 30_000 });
  assert.deepEqual(problems, []);
});

/** Creates a task that a member completes, so that it is in review. Returns the task's id.
 * @param {Awaited<ReturnType<typeof Runner.start>>} runner @param {string} subject @param {any} more */
async function submit(runner, subject, more = {}) {
  const reviewer = { reviewer: "team-lead", paths: ["src/login/**"], exclusive: true, mergeOnApproval: true };
  const { task } = await lead.tasks.createTask({ subject, ...reviewer, ...more });
  const taskId = task?.id ?? 0n;
  const { claim } = await runner.client.tasks.claimTask({ taskId });
  const claimToken = claim?.token ?? "";
  const complete = (/** @type {string} */ head) =>
    runner.client.tasks.completeTask({ taskId, claimToken, result: `It **works**.`, work: { ...WORK, head } });
  await complete(HEAD);
  return { taskId, complete };
}

/** @param {bigint} taskId */
const taskNow = async (taskId) => (await lead.tasks.getTask({ taskId })).task;

test("a review is rejected with a reason, asked for again, and approved", async () => {
  const eve = await Runner.start(coordinator, "eve");
  eve.work = WORK;
  eve.parts[PART.diff] = diffOf(1, 6);
  const { taskId, complete } = await submit(eve, "Log in");
  const { page, problems } = await console_(coordinator, "lead", "#/team");
  await page
    .getByRole("region", { name: /^Needs you/ })
    .getByRole("link", { name: /^eve review Task #\d+: Log in/ })
    .click();
  const detail = page.getByRole("region", { name: "The request" });
  await detail.getByRole("heading", { name: `Task #${taskId}: Log in` }).waitFor();
  await detail.getByText("2 commits on teamwire/ann, 1 behind, 3 files +40 −2").waitFor();
  await detail.getByText("Merges into main without conflicts").waitFor();
  await detail.locator("strong", { hasText: "works" }).waitFor();
  await detail.getByText(/the runner of eve merges this commit into main/).waitFor();
  assert.deepEqual(eve.asked, []);
  await detail.getByText("Diff of this commit").click();
  await detail.getByRole("region", { name: "Changes of eve" }).getByText("value_1 =").waitFor();
  const { commit, against } = eve.asked.find(({ part }) => part === PART.diff);
  assert.deepEqual([commit, against], [HEAD, BASE]);
  assert.deepEqual(await violations(page), []);

  // The board shows it, too.
  await detail.getByRole("link", { name: `#${taskId}`, exact: true }).click();
  const board = page.getByRole("region", { name: "In review", exact: true });
  await board.getByText("review by team-lead").waitFor();
  const task = page.getByRole("complementary", { name: `Task #${taskId}` });
  await task.getByText("src/login/**").waitFor();
  await task.getByText("by team-lead, then its commit is merged").waitFor();
  await task.getByText(HEAD.slice(0, 10), { exact: true }).waitFor();
  await task.getByText("completed it, and it awaits its review").waitFor();
  assert.deepEqual(await violations(page), []);
  await task.getByRole("link", { name: "Look at it" }).click();

  await detail.getByRole("heading", { name: `Task #${taskId}: Log in` }).waitFor();
  await detail.getByRole("button", { name: /^Reject/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason, so that eve knows what to change").fill("No test.");
  await dialog.getByRole("button", { name: "Reject" }).click();
  await detail.getByText("rejected by lead").waitFor();
  assert.equal((await taskNow(taskId))?.status, STATUS.inProgress);
  const answers = () => eve.messages.flatMap(({ body }) => (body.case === "reviewResponse" ? [body.value] : []));
  while (answers().length < 1) await page.waitForTimeout(50);
  assert.deepEqual([answers()[0].approve, answers()[0].reason], [false, "No test."]);

  await complete(NEWER);
  await page.getByRole("button", { name: "Next request for you" }).click();
  await detail.getByText(NEWER.slice(0, 10), { exact: true }).waitFor();
  await detail.getByRole("button", { name: "Approve", exact: true }).first().waitFor();
  await page.keyboard.press("a");
  await detail.getByText("approved by lead").waitFor();
  assert.equal((await taskNow(taskId))?.status, STATUS.completed);
  while (answers().length < 2) await page.waitForTimeout(50);
  assert.deepEqual([answers()[1].approve, answers()[1].commit], [true, NEWER]);

  await page.goto(`${coordinator.address}/#/messages?kinds=all`);
  await page.getByText("review request").first().waitFor();
  await page.getByText("lead approved the work of eve").waitFor();
  await page.getByText(`eve completed task #${taskId}, Log in, which awaits its review`).first().waitFor();
  await page
    .getByText(`The review of task #${taskId}, Log in has ended: lead rejected its review. eve has it again`)
    .waitFor();
  assert.deepEqual(problems, []);
});

test("a review that is void is shown as void, also when the answer is under way", async () => {
  const joe = await Runner.start(coordinator, "joe");
  const { taskId, complete } = await submit(joe, "Log out");
  const { page, problems } = await console_(coordinator, "lead", "#/approvals");
  const detail = page.getByRole("region", { name: "The request" });
  await detail.getByRole("heading", { name: `Task #${taskId}: Log out` }).waitFor();
  await detail.getByText(HEAD.slice(0, 10), { exact: true }).waitFor();
  await page.route("**/*MessageService/Send", async (route) => {
    await joe.client.teams.reportActivity({ work: { ...WORK, head: NEWER } });
    await route.continue();
  });
  await page.keyboard.press("a");
  await page
    .getByText("Your answer came too late: the request is cancelled: the owner of the task has a newer commit")
    .waitFor();
  await detail.getByText(/The owner has a newer commit than this review was of/).waitFor();
  assert.equal(await detail.getByRole("button", { name: /^(Approve|Reject)/ }).count(), 0);
  assert.equal((await taskNow(taskId))?.status, STATUS.inProgress);
  await complete(NEWER);
  await detail.getByRole("link", { name: "Review the newest commit" }).click();
  await detail.getByText(NEWER.slice(0, 10), { exact: true }).waitFor();
  await detail
    .getByRole("button", { name: /^Approve/ })
    .first()
    .waitFor();
  assert.deepEqual(problems, []);
});

test("only those who may answer a review are offered to, and only those who may read the work can", async () => {
  const kim = await Runner.start(coordinator, "kim");
  kim.parts[PART.diff] = diffOf(1, 6);
  await coordinator.join("bob");
  await coordinator.join("cleo");
  const { taskId } = await submit(kim, "Sign up", { reviewer: "bob", paths: [], exclusive: false });
  const heading = { name: `Task #${taskId}: Sign up` };
  const link = { name: /Sign up/ };

  const bob = await console_(coordinator, "bob", "#/approvals");
  const detail = bob.page.getByRole("region", { name: "The request" });
  await detail.getByRole("heading", heading).waitFor();
  await detail
    .getByRole("button", { name: /^Approve/ })
    .first()
    .waitFor();
  await detail.getByText("Diff of this commit").click();
  await detail.getByText("value_1 =").waitFor();
  await bob.page.goto(`${coordinator.address}/#/member?name=kim`);
  await bob.page.getByRole("heading", { name: "kim" }).waitFor();
  assert.equal(await workOf(bob.page).count(), 0);

  const cleo = await console_(coordinator, "cleo", "#/approvals");
  await cleo.page.getByText("Nothing waits for your answer.").waitFor();
  assert.equal(await cleo.page.getByRole("link", link).count(), 0);

  const { page, problems } = await open();
  await page.goto(`${coordinator.address}/#code=${await coordinator.code("lead", ["--read-only"])}`);
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  await page.goto(`${coordinator.address}/#/approvals`);
  await page.getByRole("link", link).click();
  const shown = page.getByRole("region", { name: "The request" });
  await shown.getByText("This sign-in can only read.").waitFor();
  await shown.getByRole("heading", heading).waitFor();
  assert.equal(await shown.getByRole("button", { name: /^(Approve|Reject)/ }).count(), 0);
  assert.deepEqual([...problems, ...bob.problems, ...cleo.problems], []);
});

test("a task is created with its files and its reviewer", async () => {
  const { page, problems } = await console_(coordinator, "lead", "#/board");
  await page.getByRole("button", { name: "New task" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Subject").fill("Guard the door");
  await dialog.getByText("More: files and review").click();
  await dialog.getByLabel("Files that it changes").fill("src/door/**\ndocs/door.md");
  await dialog.getByLabel("No other task may change them").check();
  await dialog.getByRole("combobox", { name: "Reviewer" }).fill("team-lead");
  await dialog.getByLabel("Merge the commit once it is approved").check();
  assert.deepEqual(await violations(page), []);
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.waitFor({ state: "detached" });
  const task = page.getByRole("complementary", { name: /^Task #/ });
  await task.getByText("docs/door.md").waitFor();
  await task.getByText("exclusively").waitFor();
  await task.getByRole("button", { name: "Edit…" }).click();
  await dialog.getByRole("combobox", { name: "Reviewer" }).fill("");
  await dialog.getByLabel("Files that it changes").fill("src/door/**");
  await dialog.getByRole("button", { name: "Save" }).click();
  await task.getByText("docs/door.md").waitFor({ state: "detached" });
  await task.getByText("Review", { exact: true }).waitFor({ state: "detached" });
  assert.deepEqual(problems, []);
});
