// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

test("the page says that the coordinator is gone, goes on by itself, and has missed nothing", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.join("ann");
  const { page, problems } = await console_(coordinator);
  await page.getByRole("link", { name: "ann" }).waitFor();

  await coordinator.kill();
  await page.getByText("coordinator unreachable").waitFor();
  await coordinator.serve();
  await coordinator.join("bob");
  await page.getByRole("link", { name: "bob" }).waitFor();
  await page.getByRole("status").getByText("live", { exact: true }).waitFor();
  assert.deepEqual(problems, []);
});

test("a page whose team was deleted says so", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const { page, problems } = await console_(coordinator);
  await coordinator.cli(["team", "delete", "acme", "--yes"], "lead");
  await page.getByRole("alert").waitFor();
  assert.deepEqual(problems, []);
});
