// @ts-check
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { Coordinator, console_ } from "./harness.js";

/** A program that rejects the first request to shut down, approves the second, and says what it does. */
const PROGRAM = `
let asked = 0;
const say = (line) => process.stdout.write(JSON.stringify(line) + "\\n");
process.stdin.on("end", () => process.exit(0));
let rest = "";
process.stdin.on("data", (data) => {
  const lines = (rest + data).split("\\n");
  rest = lines.pop();
  for (const line of lines.map((text) => JSON.parse(text))) {
    if (line.type === "shutdown_request") {
      const approve = ++asked > 1;
      say({ type: "shutdown_response", request_id: line.request_id, approve, reason: approve ? "done" : "Two tests still run." });
    } else if (line.type === "message" && line.content !== "keep") {
      say({ activity: "read: " + line.content });
      say({ usage: { turns: 3, input_tokens: 1200, output_tokens: 80, cost_usd: 0.25 } });
      say({ ack: line.id });
    }
  }
});
`;

/** @param {Coordinator} coordinator @param {string} name */
async function runProgram(coordinator, name) {
  const program = path.join(coordinator.directory, "program.mjs");
  await writeFile(program, PROGRAM);
  return await coordinator.run(name, ["--", process.execPath, program]);
}

test("a shutdown request from the page is rejected with a reason, and the next is followed to the exit", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await runProgram(coordinator, "ann");
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=ann");
  const ask = async (/** @type {string} */ reason) => {
    await page.getByRole("button", { name: "Ask to shut down…" }).click();
    await page.getByRole("dialog").getByLabel("Reason").fill(reason);
    await page.getByRole("dialog").getByRole("button", { name: "Ask", exact: true }).click();
  };
  const way = page.getByRole("list", { name: "Progress of its shutdown" });

  await ask("We are done here.");
  await way.getByText("We are done here.").waitFor();
  await way.getByText("Rejected").waitFor();
  await way.getByText("Two tests still run.").waitFor();

  await ask("Now, please.");
  await way.getByText("Approved").waitFor();
  await way.getByText("Exited").waitFor();
  await way.getByText("exit code 0").waitFor();
  await page.getByRole("region", { name: "Lives" }).getByText("exit code 0").waitFor();
  assert.equal(await page.getByRole("button", { name: "Ask to shut down…" }).isDisabled(), true);
  assert.deepEqual(problems, []);
});

test("a message from the page reaches the program, whose activity and usage follow live", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await runProgram(coordinator, "ann");
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=ann");
  await page.getByText("Its program has reported nothing.").waitFor();
  const list = page.getByRole("list", { name: "What its program has done" });
  const send = async (/** @type {string} */ text) => {
    await page.getByLabel("Message", { exact: true }).fill(text);
    await page.getByLabel("Message", { exact: true }).press("Control+Enter");
    await page.getByText("Sent to ann.").first().waitFor();
  };
  await send("first");
  await list.getByText("read: first").waitFor();
  await send("second <img src=x onerror=alert(1)>\u202e");
  await list.getByText(/read: second <img/).waitFor();
  await list.getByText("\\u{202e}").waitFor();
  await page.getByRole("region", { name: "Usage" }).getByText("$0.25").first().waitFor();

  // What it does not acknowledge stays in the inbox, delivered.
  await send("keep");
  const inbox = page.getByRole("region", { name: "Inbox" });
  await inbox.getByText("keep").waitFor();
  await inbox.getByText(/, delivered/).waitFor();
  assert.deepEqual(problems, []);
});

test("activity is followed only while the page is open", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await runProgram(coordinator, "ann");
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=ann");
  const isOfActivity = (/** @type {import("playwright-core").Request} */ request) =>
    request.url().endsWith("/ListActivity");
  await page.getByText("Its program has reported nothing.").waitFor();
  const ended = page.waitForEvent("requestfailed", isOfActivity);
  await page.getByRole("link", { name: "Team", exact: true }).click();
  await ended;
  assert.deepEqual(problems, []);
});

test("a member is stopped by force in a second step, and is made the lead in another", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.run("ann");
  await coordinator.join("bob");
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=ann");
  await page.getByRole("button", { name: "Stop by force…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(/is not consulted/).waitFor();
  await dialog.getByLabel("Reason").fill("It went astray.");
  await dialog.getByRole("button", { name: "Stop ann now" }).click();
  await page.getByRole("list", { name: "Progress of its shutdown" }).getByText("Exited").waitFor();
  await page
    .getByRole("region", { name: "Lives" })
    .getByText(/forced by lead/)
    .waitFor();

  await page.goto(page.url().replace("name=ann", "name=bob"));
  await page.getByRole("heading", { name: "bob" }).waitFor();
  await page.getByRole("button", { name: "Make it the lead…" }).click();
  await dialog.getByText(/You become a teammate/).waitFor();
  await dialog.getByRole("button", { name: "Make bob the lead" }).click();
  await dialog.waitFor({ state: "detached" });
  const force = page.getByRole("button", { name: "Stop by force…" });
  await page.locator("button:disabled", { hasText: "Stop by force" }).waitFor();
  assert.match((await force.getAttribute("title")) ?? "", /Only the lead, bob/);
  assert.deepEqual(problems, []);
});

test("a host's page shows its offer, its members and its orders, and stops it by force", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  await coordinator.host("lab", { echo: ["teamwire", "echo-teammate"] });
  await coordinator.cli(["spawn", "ann", "--profile", "echo"], "lead");
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=lab");
  await page.getByText("1 of 4 slots taken").waitFor();
  await page.getByRole("region", { name: "What it offers" }).getByText("site=lab").waitFor();
  await page.getByRole("region", { name: "Members that it runs" }).getByRole("link", { name: "ann" }).waitFor();
  await page
    .getByRole("region", { name: "Its latest orders" })
    .getByText(/profile echo:\s+approved/)
    .waitFor();
  await page.getByRole("button", { name: "Stop by force…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop lab now" }).click();
  await page.getByText("Has ended. No order goes to it.").waitFor();
  await page
    .getByRole("region", { name: "Lives" })
    .getByText(/forced by lead/)
    .waitFor();
  assert.deepEqual(problems, []);
});

test("a name that no one has leads back to the team", async () => {
  const coordinator = await Coordinator.start();
  await coordinator.team();
  const { page, problems } = await console_(coordinator, "lead", "#/member?name=nobody");
  await page.getByText("There is no member and no host with this name.").waitFor();
  await page.getByRole("link", { name: "See the team" }).click();
  await page.getByRole("heading", { name: "Team" }).waitFor();
  assert.deepEqual(problems, []);
});
