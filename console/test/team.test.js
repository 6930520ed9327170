// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

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
