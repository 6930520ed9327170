// @ts-check
/** Signing in to the console: with a code, which leaves no trace; until it is ended. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Coordinator, console_, open } from "./harness.js";

const coordinator = await Coordinator.start();
await coordinator.team();
await coordinator.join("ann");
const front = `${coordinator.address}/`;

/** @param {import("playwright-core").Page} page */
const isSignedIn = (page) => page.getByRole("button", { name: "Sign out" }).waitFor();

/** @param {import("playwright-core").Page} page */
const isSignedOut = (page) => page.getByRole("button", { name: "Sign in", exact: true }).waitFor();

/** @param {import("playwright-core").Page} page @returns {Promise<string>} */
const credentialOf = (page) => page.evaluate(() => sessionStorage.getItem("teamwire.credential") ?? "");

/** Types a code.
 * @param {import("playwright-core").Page} page @param {string} code */
async function enter(page, code) {
  await page.getByLabel("Code").fill(code);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}

/** Returns what the browser keeps of a page: the addresses and titles of its history, and what the page can store.
 * @param {import("playwright-core").Page} page */
async function kept(page) {
  const session = await page.context().newCDPSession(page);
  const { entries } = await session.send("Page.getNavigationHistory");
  const storage = await page.evaluate(() =>
    JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie]),
  );
  const history = entries.map(({ url, title }) => `${url} ${title}`);
  return `${history.join(" ")} ${storage} ${page.url()} ${await page.evaluate(() => document.referrer)}`;
}

test("a code signs in, and leaves no trace in the browser or in an address", async () => {
  const { page, problems } = await open();
  /** @type {string[]} */
  const sent = [];
  page.on("request", (request) => sent.push(`${request.url().split("#")[0]} ${request.headers()["referer"]}`));
  const code = await coordinator.code("ann");
  await page.goto(`${front}#code=${code}`);
  await isSignedIn(page);
  await page.getByRole("status").getByText("live", { exact: true }).waitFor();
  await page.getByRole("banner").getByText("ann", { exact: true }).waitFor();

  const secret = code.split(":").at(-1) ?? "";
  assert.ok(secret.length > 20);
  assert.ok(!(await kept(page)).includes(secret), "the browser keeps the code");

  for (const name of ["Messages", "Approvals", "Board", "Timeline", "Health", "Access", "Team"]) {
    await page.getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
  }
  const credential = await credentialOf(page);
  const ofCredential = credential.split(":").at(-1) ?? "";
  assert.match(credential, /^twc:acme:/);
  assert.ok(sent.length > 5);
  for (const one of sent) assert.ok(!one.includes(secret) && !one.includes(ofCredential), one);
  assert.deepEqual(problems, []);
});

test("a code signs in once, and a text that is not a code does not", async () => {
  const code = await coordinator.code("ann");
  const first = await open();
  await first.page.goto(`${front}#code=${code}`);
  await isSignedIn(first.page);

  const { page, problems } = await open();
  await page.goto(`${front}#code=${code}`);
  await page.getByRole("alert").getByText("was used before").waitFor();
  await isSignedOut(page);
  assert.ok(!page.url().includes("code"));

  const fresh = await coordinator.code("ann");
  await enter(page, fresh.slice(0, -4) + "0000");
  await page.getByRole("alert").getByText("not valid here").waitFor();
  await enter(page, "hello");
  await page.getByRole("alert").waitFor();
  await enter(page, await coordinator.credential("ann"));
  await page.getByRole("alert").getByText("Only a code can sign in").waitFor();

  // What is typed may have spaces around it, or be the whole address.
  await enter(page, ` ${front}#code=${fresh} `);
  await isSignedIn(page);
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.deepEqual(problems, []);
});

test("a code that newer ones have replaced is refused", async () => {
  const old = await coordinator.code("ann");
  for (let newer = 0; newer < 8; newer++) await coordinator.code("ann");
  const { page } = await open();
  await page.goto(`${front}#code=${old}`);
  await page.getByRole("alert").getByText("Run `teamwire console` again").waitFor();
});

test("a lost reply to a code does no harm", async () => {
  const { page, problems } = await open();
  let lost = 0;
  await page.route("**/teamwire.v1.AccessService/SignIn", async (route) => {
    if (lost > 0) return await route.continue();
    lost++;
    await route.fetch();
    await route.abort("connectionreset");
  });
  await page.goto(`${front}#code=${await coordinator.code("ann")}`);
  await isSignedIn(page);
  assert.equal(lost, 1);
  assert.deepEqual(problems, []);
});

test("a reload stays signed in, and a code gives another tab its own sign-in", async () => {
  const { page, context, problems } = await console_(coordinator, "ann", "#/board");
  await page.reload();
  await isSignedIn(page);
  await page.getByRole("heading", { level: 1, name: "Board" }).waitFor();

  const other = await context.newPage();
  await other.goto(`${front}#code=${await coordinator.code("lead")}`);
  await isSignedIn(other);
  await other.getByRole("banner").getByText("lead", { exact: true }).waitFor();
  await other.getByRole("button", { name: "Sign out" }).click();
  await isSignedOut(other);

  await page.reload();
  await isSignedIn(page);
  await page.getByRole("banner").getByText("ann", { exact: true }).waitFor();
  assert.deepEqual(problems, []);
});

test("a second tab gets the sign-in of an open one, and keeps no trace of it elsewhere", async () => {
  const { page, context, problems } = await console_(coordinator, "ann", "#/board");
  const credential = await credentialOf(page);
  const other = await context.newPage();
  /** @type {string[]} */
  const sent = [];
  other.on("request", (request) => sent.push(request.url()));
  await other.goto(`${front}#/messages`);
  await isSignedIn(other);
  await other.getByRole("banner").getByText("ann", { exact: true }).waitFor();
  await other.getByRole("heading", { level: 1, name: "Messages" }).waitFor();
  assert.equal(await credentialOf(other), credential);
  const secret = credential.split(":").at(-1) ?? "";
  const elsewhere = await other.evaluate(() => JSON.stringify([{ ...localStorage }, document.cookie, location.href]));
  assert.ok(!elsewhere.includes(secret) && !sent.some((url) => url.includes(secret)));
  await page.close();
  await other.reload();
  await isSignedIn(other);

  // Another browser gets nothing.
  const stranger = await open();
  await stranger.page.goto(front);
  await isSignedOut(stranger.page);
  assert.equal(await stranger.page.getByRole("alert").count(), 0);
  // Nor does a tab that opens when no other is open.
  const [first] = context.pages();
  await first?.close();
  const late = await context.newPage();
  await late.goto(front);
  await isSignedOut(late);
  assert.deepEqual(problems, []);
});

test("signing out in one tab ends the others that share its sign-in, and so does a revocation", async () => {
  for (const how of ["sign out", "revoke"]) {
    const { page, context, problems } = await console_(coordinator, "ann");
    const credential = await credentialOf(page);
    const others = [await context.newPage(), await context.newPage()];
    for (const other of others) {
      await other.goto(front);
      await isSignedIn(other);
      assert.equal(await credentialOf(other), credential);
    }
    if (how === "sign out") await page.getByRole("button", { name: "Sign out" }).click();
    else {
      const lead = await coordinator.client(await coordinator.credential("lead"));
      await lead.access.revokeCredential({ team: "acme", id: credential.split(":").at(-2) ?? "" });
      await lead.close();
    }
    await isSignedOut(page);
    for (const other of others) {
      const why = how === "sign out" ? "You signed out in another tab." : "This sign-in was ended";
      await other.getByRole("alert").getByText(why).waitFor({ timeout: 5_000 });
      await isSignedOut(other);
      assert.equal(await credentialOf(other), "");
    }
    // None of them has anything left to share.
    const late = await context.newPage();
    await late.goto(front);
    await isSignedOut(late);
    assert.deepEqual(problems, []);
    await context.close();
  }
});

test("a tab that opens beside a read-only one can only read, too", async () => {
  const { page, context, problems } = await open();
  await page.goto(`${front}#code=${await coordinator.code("lead", ["--read-only"])}`);
  await isSignedIn(page);
  const leading = await context.newPage();
  await leading.goto(`${front}#code=${await coordinator.code("lead")}`);
  await isSignedIn(leading);
  const other = await context.newPage();
  await other.goto(front);
  await isSignedIn(other);
  await other.getByRole("banner").getByText("read-only").waitFor();
  assert.equal(await credentialOf(other), await credentialOf(page));
  const client = await coordinator.client(await credentialOf(other));
  await assert.rejects(client.send("ann", "hello", "hello"), { reason: "NOT_PERMITTED" });
  await client.close();
  assert.deepEqual(problems, []);
});

test("a code in the address of an open page replaces the sign-in", async () => {
  const { page, problems } = await console_(coordinator, "ann");
  const earlier = await credentialOf(page);
  await page.goto(`${front}#code=${await coordinator.code("lead")}`);
  await page.getByRole("banner").getByText("lead", { exact: true }).waitFor();
  await page.getByRole("status").getByText("live", { exact: true }).waitFor();
  await isEnded(earlier);
  assert.deepEqual(problems, []);
});

test("signing out ends the sign-in at the coordinator", async () => {
  const { page, problems } = await console_(coordinator, "ann");
  const credential = await credentialOf(page);
  await page.getByRole("button", { name: "Sign out" }).click();
  await isSignedOut(page);
  assert.equal(await credentialOf(page), "");
  await isEnded(credential);

  // A kept copy of the credential is refused.
  await page.evaluate((text) => sessionStorage.setItem("teamwire.credential", text), credential);
  await page.reload();
  await page.getByRole("alert").getByText("This sign-in was ended").waitFor();
  await isSignedOut(page);
  assert.deepEqual(problems, []);
});

test("a sign-in ends with the member's life, and the page says why", async () => {
  await coordinator.join("bob");
  const { page, problems } = await console_(coordinator, "bob");
  await coordinator.cli(["shutdown", "bob", "--force"], "lead");
  await page
    .getByRole("alert")
    .getByText(/bob .*ended/)
    .waitFor();
  await isSignedOut(page);
  assert.equal(await credentialOf(page), "");
  assert.deepEqual(problems, []);
});

/** Returns the credential of a new observer, which expires soon.
 * @param {bigint} seconds */
async function shortLived(seconds) {
  const lead = await coordinator.client(await coordinator.credential("lead"));
  const { credential } = await lead.teams.createObserver({ ttl: { seconds } });
  await lead.close();
  return credential;
}

test("a code that has expired signs no one in, and the page says how to go on", async () => {
  const credential = await shortLived(3n);
  const code = await coordinator.code("ann", [], credential);
  await isEnded(credential, "CREDENTIAL_EXPIRED");
  const { page, problems } = await open();
  await page.goto(`${front}#code=${code}`);
  await page.getByRole("alert").getByText("has expired").waitFor();
  await isSignedOut(page);
  await enter(page, await coordinator.code("ann"));
  await isSignedIn(page);
  assert.deepEqual(problems, []);
});

test("a sign-in that expires while the page is open leads back to where the person was", async () => {
  const credential = await shortLived(8n);
  const { page, problems } = await console_(coordinator, "ann", "#/board", {}, credential);
  // An observer's sign-in ends with the observer's credential, which is soon.
  await page.getByRole("status").getByText("Your sign-in ends at").waitFor();
  await page.getByRole("alert").getByText("has expired").waitFor({ timeout: 30_000 });
  await isSignedOut(page);
  assert.equal(await credentialOf(page), "");
  await page.getByText("Run teamwire console").waitFor();
  await enter(page, await coordinator.code("ann"));
  await page.getByRole("heading", { level: 1, name: "Board" }).waitFor();
  await page.getByRole("banner").getByText("ann", { exact: true }).waitFor();
  assert.deepEqual(problems, []);
});

test("a sign-in that is revoked while a dialog is open ends it, and the page says so", async () => {
  const { page, problems } = await console_(coordinator, "ann", "#/messages");
  await page.getByRole("button", { name: "Write a message" }).click();
  await page.getByLabel("Message", { exact: true }).fill("half a sent");
  const credential = await credentialOf(page);
  const lead = await coordinator.client(await coordinator.credential("lead"));
  await lead.access.revokeCredential({ team: "acme", id: credential.split(":").at(-2) ?? "" });
  await lead.close();
  await page.getByRole("alert").getByText("This sign-in was ended").waitFor({ timeout: 5_000 });
  await isSignedOut(page);
  // What the person was writing is not lost.
  await enter(page, await coordinator.code("ann"));
  await isSignedIn(page);
  await page.getByLabel("Message", { exact: true }).waitFor();
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "half a sent");
  assert.deepEqual(problems, []);
});

test("an operator without a team learns that the sign-in was revoked on coming back to the page", async () => {
  const other = await Coordinator.start();
  const { page, problems } = await open();
  await page.goto(`${other.address}/#code=${await other.code("operator")}`);
  await page.getByText("There is no team yet.").waitFor();
  const credential = await credentialOf(page);
  const client = await other.client(credential);
  await client.access.revokeCredential({ team: "", id: credential.split(":").at(-2) ?? "" });
  await client.close();
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await page.getByRole("alert").getByText("This sign-in was ended").waitFor();
  await isSignedOut(page);
  assert.deepEqual(problems, []);
});

test("a sign-in that can only read has no button that acts, and the coordinator refuses", async () => {
  const { page, problems } = await open();
  await page.goto(`${front}#code=${await coordinator.code("lead", ["--read-only"])}`);
  await page.getByRole("banner").getByText("read-only").waitFor();
  await page.getByRole("status").getByText("live", { exact: true }).waitFor();
  const acts = /invite|spawn|create|revoke|delete|send|approve|reject|shut down|\bstop\b|claim|assign|hand over/i;
  const pages = ["team", "messages", "approvals", "board", "timeline", "health", "access", "member?name=ann"];
  for (const hash of pages) {
    await page.goto(`${front}#/${hash}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    // The entries of the history use such words, too.
    const enabled = page
      .getByRole("button", { name: acts, disabled: false })
      .and(page.locator("button:not([role=list] button)"));
    assert.deepEqual(await enabled.allTextContents(), [], hash);
  }

  const client = await coordinator.client(await credentialOf(page));
  await assert.rejects(client.send("ann", "hello", "hello"), { reason: "NOT_PERMITTED" });
  await assert.rejects(client.teams.invite({}), { reason: "NOT_PERMITTED" });
  await assert.rejects(client.handOver("ann"), { reason: "NOT_PERMITTED" });
  await client.close();

  // Signing out is all that it can change.
  const credential = await credentialOf(page);
  await page.getByRole("button", { name: "Sign out" }).click();
  await isEnded(credential);
  assert.deepEqual(problems, []);
});

test("the page says before a sign-in ends, and believes the coordinator, not its own clock, that it has", async () => {
  const { page, problems } = await open();
  await page.clock.install();
  await page.goto(`${front}#code=${await coordinator.code("ann")}`);
  await isSignedIn(page);
  const soon = page.getByRole("status").getByText("Your sign-in ends at");
  assert.equal(await soon.count(), 0);
  await page.clock.fastForward("07:56:00");
  await soon.waitFor();
  const asked = page.waitForResponse("**/*.AccessService/GetCaller");
  await page.clock.fastForward("00:05:00");
  await asked;
  await page.getByRole("link", { name: "Board", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Board" }).waitFor();
  assert.deepEqual(problems, []);
});

/** Waits until the coordinator refuses a credential.
 * @param {string} credential @param {string} [reason] */
async function isEnded(credential, reason = "CREDENTIAL_REVOKED") {
  const client = await coordinator.client(credential);
  for (;;) {
    const error = await client.access.getCaller({}).then(
      () => undefined,
      (/** @type {import("@teamwire/client").TeamwireError} */ thrown) => thrown,
    );
    if (error) {
      assert.equal(error.reason, reason);
      return await client.close();
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
