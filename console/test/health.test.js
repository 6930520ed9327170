// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

test("a healthy team has no problems, and the page says that the store takes writes", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.run("ann");
  const { page, problems } = await console_(coordinator, "lead", "#/health");
  await page.getByText("No problems found.").waitFor();
  const row = page.locator("dt", { hasText: "The store takes writes" }).locator("xpath=following-sibling::dd[1]");
  await row.getByText("yes").waitFor();
  await page.getByText(/^\d+(\.\d)? ms$/).waitFor();
  const version = (await coordinator.cli(["--version"])).trim();
  await page.getByRole("definition").getByText(version, { exact: true }).waitFor();
  assert.deepEqual(problems, []);
});

test("a program that fails and leaves messages behind is a problem with a link to the member", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  // The first line says who the program is, the second one is the message.
  await coordinator.run("ann", ["--restart", "never", "--", "sh", "-c", "read line; read line; exit 3"]);
  await coordinator.cli(["send", "ann", "do it"], "lead");
  await coordinator.member("ann", (member) => member.state === "exited");
  const { page, problems } = await console_(coordinator, "lead", "#/health");
  await page.getByText(/ann failed \(exit code 3/).waitFor();
  await page.getByText("1 problem found.").waitFor();
  await page.getByRole("link", { name: "See ann" }).click();
  await page.getByRole("heading", { name: "ann" }).waitFor();
  await page.getByRole("button", { name: "Start again…" }).waitFor();
  assert.deepEqual(problems, []);
});

test("a plan that waits and a full inbox become problems, and go when they are solved", async () => {
  const coordinator = await Coordinator.start({ TEAMWIRE_LIMITS_INBOX_ENTRIES_MAX: "2" });
  await coordinator.team();
  await coordinator.join("bob");
  for (const text of ["one", "two"]) await coordinator.cli(["send", "bob", text], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/health");
  await page.getByText(/bob's inbox is full/).waitFor();
  await coordinator.cli(["inbox", "--ack"], "bob");
  await page.getByText(/bob's inbox is full/).waitFor({ state: "detached" });
  await page.getByText("No problems found.").waitFor();
  assert.deepEqual(problems, []);
});

test("the page reports a missing coordinator at once and counts its lost connections", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const { page, problems } = await console_(coordinator, "lead", "#/health");
  await page.getByText("No problems found.").waitFor();
  await coordinator.kill();
  await page.getByText(/The information below may be out of date/).waitFor({ timeout: 3_000 });
  await coordinator.serve();
  await page.getByText(/The information below may be out of date/).waitFor({ state: "detached" });
  await page.getByText(/lost 1 time since the page was opened/).waitFor();
  assert.deepEqual(problems, []);
});
