// @ts-check
/** The page Access: who may come in. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Coordinator, console_, open } from "./harness.js";

test("the lead invites a person, who joins with the string that the page shows once", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const { page, problems } = await console_(coordinator, "lead", "#/access");
  const open = page.getByRole("list", { name: "Invitations" });
  await page.getByText("No invitation is open.").waitFor();
  await page.getByRole("button", { name: "Invite…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("ann");
  await dialog.getByRole("button", { name: "Create the invitation" }).click();
  const joinString = await dialog.getByLabel("The invitation").inputValue();
  await dialog.getByRole("button", { name: "Done" }).click();
  // The history tells the page of the new invitation.
  await open.getByRole("listitem").filter({ hasText: "ann" }).getByText("1 use left").waitFor();
  assert.ok(!(await page.content()).includes(joinString));

  await coordinator.cli(["join", "-"], "ann", joinString);
  await page.getByText("No invitation is open.").waitFor();

  // One that is revoked is worth nothing.
  await page.getByRole("button", { name: "Invite…" }).click();
  await dialog.getByLabel("How many can join with it").fill("3");
  await dialog.getByRole("button", { name: "Create the invitation" }).click();
  const revoked = await dialog.getByLabel("The invitation").inputValue();
  await dialog.getByRole("button", { name: "Done" }).click();
  await open.getByText("3 uses left").waitFor();
  await open.getByRole("button", { name: "Revoke" }).click();
  await dialog.getByText("No one can join with it any longer").waitFor();
  await dialog.getByRole("button", { name: "Revoke" }).click();
  await page.getByText("No invitation is open.").waitFor();
  await assert.rejects(coordinator.cli(["join", "--name", "eve", "-"], "eve", revoked), /revoked/);
  assert.deepEqual(problems, []);
});

test("the lead ends the sign-in of a member, whose page says so", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.join("ann");
  const { page, problems } = await console_(coordinator, "lead", "#/access");
  const signedIn = page.getByRole("list", { name: "Signed in to the console" });
  await signedIn.getByRole("listitem").filter({ hasText: "this page" }).getByText("lead", { exact: true }).waitFor();

  const ann = await console_(coordinator, "ann", "#/access");
  // A member sees its own, and no one else's.
  await ann.page.getByRole("heading", { name: "Your sign-ins" }).waitFor();
  await ann.page.getByRole("list", { name: "Signed in to the console" }).getByText("ann", { exact: true }).waitFor();
  assert.equal(await ann.page.getByRole("list", { name: "Signed in to the console" }).getByRole("listitem").count(), 1);
  assert.equal(await ann.page.getByRole("heading", { name: "Invitations" }).count(), 0);
  assert.equal(await ann.page.getByRole("button", { name: "Invite…" }).isDisabled(), true);

  await signedIn.getByRole("button", { name: "Revoke ann" }).click();
  await page.getByRole("dialog").getByText("signed out within 2 seconds").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await ann.page.getByRole("alert").getByText("This sign-in was ended").waitFor({ timeout: 5_000 });
  await ann.page.getByLabel("Code").waitFor();
  await signedIn.getByRole("button", { name: "Revoke ann" }).waitFor({ state: "detached" });
  assert.deepEqual([...problems, ...ann.problems], []);
});

test("a revoked observer's credential ends the sign-ins with it", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const { token } = await coordinator.json(["invite", "--observer"], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/access");
  const observer = await console_(coordinator, "lead", "#/access", {}, token);
  await observer.page.getByText("You are signed in as an observer").waitFor();
  assert.equal(await observer.page.getByRole("button", { name: /Revoke|Delete/ }).count(), 0);

  const observers = page.getByRole("list", { name: "Observers" });
  await observers.getByRole("listitem").filter({ hasText: "by lead" }).waitFor();
  await observers.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await observer.page.getByRole("alert").getByText("observer's credential was revoked").waitFor({ timeout: 5_000 });
  await page.getByText("There is no observer.").waitFor();
  assert.deepEqual([...problems, ...observer.problems], []);
});

test("the operator creates a team, chooses it, and deletes it after typing its name", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.team("other");
  const { page, problems } = await open();
  await page.goto(`${coordinator.address}/#code=${await coordinator.code("operator")}`);
  // With more than one team, the operator has to choose.
  const teams = page.getByRole("list", { name: "Teams" });
  await teams.getByRole("link", { name: "acme" }).waitFor();
  await page.getByRole("link", { name: "Board", exact: true }).click();
  await page.waitForURL(/#\/access$/);

  await page.getByRole("button", { name: "Create a team…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("acme");
  await dialog.getByRole("button", { name: "Create the team" }).click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("Name", { exact: true }).fill("billing");
  await dialog.getByLabel("The lead's name").fill("zoe");
  await dialog.getByRole("button", { name: "Create the team" }).click();
  const credential = await dialog.getByLabel("The lead's credential").inputValue();
  await dialog.getByRole("button", { name: "Done" }).click();

  await teams.getByRole("link", { name: "billing" }).click();
  await page.getByRole("status").getByText("live", { exact: true }).waitFor();
  await page.getByRole("heading", { name: "Credentials of billing" }).waitFor();
  await page.getByRole("link", { name: "Team", exact: true }).click();
  await page.getByRole("link", { name: "zoe" }).click();
  // The choice is in the address: a reload keeps it.
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "zoe" }).waitFor();
  await page.getByText("away", { exact: true }).waitFor();
  const status = await coordinator.cli(["status"], "nobody", "", { TEAMWIRE_CREDENTIAL: credential });
  assert.match(status, /zoe/);
  await page.getByText("active", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Access", exact: true }).click();

  await page.getByRole("button", { name: "Delete billing" }).click();
  await dialog.getByLabel("To confirm").fill("bill");
  await dialog.getByRole("button", { name: "Delete the team" }).click();
  await dialog.getByRole("alert").getByText("Type billing to confirm").waitFor();
  await dialog.getByLabel("To confirm").fill("billing");
  await dialog.getByRole("button", { name: "Delete the team" }).click();
  // The coordinator refuses while the lead is live, and names it.
  await dialog.getByRole("alert").getByText("zoe (active)").waitFor();
  await coordinator.cli(["leave", "--yes"], "nobody", "", { TEAMWIRE_CREDENTIAL: credential });
  await dialog.getByRole("button", { name: "Delete the team" }).click();
  await teams.getByRole("link", { name: "billing" }).waitFor({ state: "detached" });
  await teams.getByRole("link", { name: "acme" }).click();
  await page.getByRole("status").getByText("live", { exact: true }).waitFor();
  await page
    .getByRole("region", { name: "The operator's sign-ins" })
    .getByRole("listitem")
    .filter({ hasText: "this page" })
    .waitFor();
  assert.deepEqual(problems, []);
});

test("the lead deletes the team, and the page says that the sign-in ended with it", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.run("ann");
  const { page, problems } = await console_(coordinator, "lead", "#/access");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Delete the team…" }).click();
  await dialog.getByText("2 members, with their inboxes").waitFor();
  await dialog.getByLabel("To confirm").fill("acme");
  await dialog.getByRole("button", { name: "Delete the team" }).click();
  // The coordinator refuses while ann is at work, and names it.
  await dialog.getByRole("alert").getByText("ann").waitFor();
  await coordinator.cli(["shutdown", "ann", "--wait"], "lead");
  await dialog.getByRole("button", { name: "Delete the team" }).click();
  await page.getByRole("alert").getByText("The team acme was deleted").waitFor();
  await page.getByLabel("Code").waitFor();
  assert.deepEqual(problems, []);
});

test("hosts show what they have left, and orders wait under their names", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const host = await coordinator.host("lab", { sleeper: ["sleep", "600"] });
  const { page, problems } = await console_(coordinator, "lead", "#/access");
  const row = page.getByRole("list", { name: "Hosts" }).getByRole("listitem").filter({ hasText: "lab" });
  await row.getByText(/^0 of \d+ slots taken$/).waitFor();
  await row.getByText("sleeper").waitFor();

  if (host.pid) process.kill(host.pid, "SIGSTOP");
  await coordinator.cli(["spawn", "ann", "--profile", "sleeper", "--no-wait"], "lead");
  const order = page.getByRole("list", { name: "Pending orders" }).getByRole("listitem");
  await order.getByRole("link", { name: "ann" }).waitFor();
  await order.getByText(/^on lab$/).waitFor();
  await row.getByText(/^1 of \d+ slots taken$/).waitFor();
  if (host.pid) process.kill(host.pid, "SIGCONT");
  await order.waitFor({ state: "detached" });
  await row.getByRole("link", { name: "lab" }).click();
  await page.getByRole("heading", { level: 1, name: "lab" }).waitFor();
  assert.deepEqual(problems, []);
});
