// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

/** A member whose process is gone is lost after 10 s. */
const SHORT_LEASE = {
  TEAMWIRE_LIMITS_LEASE_TTL: "10s",
  TEAMWIRE_LIMITS_LOST_GRACE: "0s",
  TEAMWIRE_DELIVERY_HEARTBEAT_INTERVAL: "2s",
};

/** @param {import("playwright-core").Page} page @param {string} name */
const cardOf = (page, name) => page.getByRole("listitem", { name, exact: true });

test("a member that joins appears within a second, and its card tells how it ended", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const { page, problems } = await console_(coordinator);
  await page.getByText("1 member").waitFor();

  await coordinator.run("ann");
  await page.getByRole("link", { name: "ann" }).waitFor({ timeout: 1_000 });
  const card = page.getByRole("listitem").filter({ hasText: "ann" });
  await card.getByText(/^(active|idle)$/).waitFor();

  await coordinator.cli(["shutdown", "ann", "--wait"], "lead");
  await card.getByText("exited").waitFor();
  await card.getByText("exit code 0").waitFor();
  assert.deepEqual(problems, []);
});

test("a lead with an empty team invites a teammate, which joins with the string that the page shows", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const { page, problems } = await console_(coordinator);
  await page.getByRole("button", { name: "Invite a teammate" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("bob");
  await dialog.getByRole("button", { name: "Create the invitation" }).click();
  const joinString = await dialog.getByLabel("The invitation").inputValue();
  await dialog.getByText("shown once").waitFor();
  await dialog.getByRole("button", { name: "Done" }).click();
  assert.equal(await page.getByText(joinString).count(), 0);

  const [token] = joinString.split("@");
  await coordinator.cli(["join", "-"], "bob", `${token}@${coordinator.address}`);
  await page.getByRole("link", { name: "bob" }).waitFor();
  await page.getByText("No one else is in this team").waitFor({ state: "detached" });
  assert.deepEqual(problems, []);
});

test("an observer's page says why it can neither invite nor spawn", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const { token } = await coordinator.json(["invite", "--observer"], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/team", {}, token);
  for (const name of ["Invite…", "Spawn…"]) {
    const button = page.getByRole("button", { name });
    assert.equal(await button.isDisabled(), true);
    assert.match((await button.getAttribute("title")) ?? "", /can only read/);
  }
  assert.deepEqual(problems, []);
});

test("a lead spawns two teammates on a host from the page, and reads why an order fails", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.host("lab", {
    echo: ["teamwire", "echo-teammate"],
    broken: ["/opt/no-such-agent"],
  });
  const { page, problems } = await console_(coordinator);
  await cardOf(page, "lab").getByText("0 of 4 slots taken").waitFor();

  const spawn = async (/** @type {string} */ name, /** @type {string} */ profile, /** @type {string} */ host) => {
    await page.getByRole("button", { name: "Spawn…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill(name);
    await dialog.getByRole("combobox", { name: /^Host/ }).selectOption(host);
    await dialog.getByRole("combobox", { name: /^Profile/ }).selectOption(profile);
    await dialog.getByLabel("Instructions").fill(`You are ${name}.`);
    await dialog.getByRole("button", { name: "Start", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
  };
  await spawn("one", "echo", "");
  await cardOf(page, "one")
    .getByText(/^(spawning|joined|active|idle)$/)
    .waitFor();
  await spawn("two", "echo", "lab");
  for (const name of ["one", "two"]) {
    await cardOf(page, name)
      .getByText(/^(active|idle)$/)
      .waitFor();
    await cardOf(page, name).getByText("on lab").waitFor();
  }
  await cardOf(page, "lab").getByText("2 of 4 slots taken").waitFor();

  await spawn("three", "broken", "lab");
  const failed = cardOf(page, "three");
  await failed.getByText("not started").waitFor();
  await failed.getByText(/no-such-agent/).waitFor();
  // The reason survives a reload, until it is dismissed.
  await page.reload();
  await failed.getByText(/no-such-agent/).waitFor();
  await failed.getByRole("button", { name: "Dismiss the order of three" }).click();
  await failed.getByText("exited").waitFor();

  // A name that is taken: the dialog stays, and says why.
  await page.getByRole("button", { name: "Spawn…" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("one");
  await page.getByRole("dialog").getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("dialog").getByRole("alert").getByText("one").waitFor();
  assert.deepEqual(problems, []);
});

test("a member whose runner is killed comes first, with the reason, and Health says what to do", async () => {
  const coordinator = await Coordinator.start(SHORT_LEASE);
  await coordinator.team();
  await coordinator.run("alice");
  const runner = await coordinator.run("zoe");
  const { page, problems } = await console_(coordinator);
  await cardOf(page, "zoe")
    .getByText(/^(active|idle)$/)
    .waitFor();

  process.kill(-Number(runner.pid), "SIGKILL");
  await cardOf(page, "zoe")
    .getByText(/Lost: its lease has run out/)
    .waitFor({ timeout: 20_000 });
  await page
    .getByRole("region", { name: /^Needs you/ })
    .getByRole("link", { name: /^zoe lost is lost/ })
    .waitFor();
  const first = page.getByRole("list", { name: "Cards" }).getByRole("listitem").first();
  assert.equal(await first.getAttribute("aria-label"), "zoe");
  await page.getByRole("button", { name: "1 needs attention" }).click();
  await cardOf(page, "alice").waitFor({ state: "detached" });
  assert.match(page.url(), /state=attention/);

  await page.getByRole("link", { name: "Health" }).click();
  await page.getByText(/zoe has been lost for/).waitFor();
  await page.getByText(/If it is still needed/).waitFor();
  await page.getByText("1 problem found.").waitFor();
  assert.deepEqual(problems, []);
});
