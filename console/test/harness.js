// @ts-check
/** A real coordinator, real members and a real Chromium for the tests of the console. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after } from "node:test";
import { chromium } from "playwright-core";

const BINARY = process.env["TEAMWIRE_TEST_BINARY"];
if (!BINARY) throw new Error("TEAMWIRE_TEST_BINARY must name the teamwire program to test.");

/** The programs that run, by which they are ended when the test process ends, however it does. */
const running = new Set();
process.on("exit", () => {
  for (const child of running) killTree(child);
});

/** @param {import("node:child_process").ChildProcess} child */
function killTree(child) {
  try {
    if (child.pid) process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/** Returns a port that is free now. */
async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (!address || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** Returns the arguments that make a member of a script. The script reads with `lines(callback)`, and writes to standard output;
 * see docs/line-protocol.md.
 * @param {string} script */
export function scripted(script) {
  const lines = `const lines = (callback) =>
    require("node:readline").createInterface(process.stdin).on("line", (line) => callback(JSON.parse(line)));`;
  return ["--", process.execPath, "-e", `${lines}\n${script}`];
}

/** A coordinator with its own state directory. It can be killed and started again. */
export class Coordinator {
  /** @type {import("node:child_process").ChildProcess | undefined} */
  #serving;
  /** @type {import("node:child_process").ChildProcess[]} */
  #programs = [];

  /** @param {string} directory @param {number} port */
  constructor(directory, port) {
    /** Further variables of the environment of every program. @type {Record<string, string>} */
    this.variables = {};
    this.directory = directory;
    this.address = `http://127.0.0.1:${port}`;
  }

  /** Starts a coordinator; it ends with the test.
   * @param {Record<string, string>} [variables] configure it, such as TEAMWIRE_LIMITS_LEASE_TTL */
  static async start(variables = {}) {
    const coordinator = new Coordinator(await mkdtemp(path.join(tmpdir(), "teamwire-console-")), await freePort());
    coordinator.variables = variables;
    after(() => coordinator.end());
    await coordinator.serve();
    return coordinator;
  }

  /** Starts it, or starts it again. Returns when it answers. */
  async serve() {
    const listen = new URL(this.address).host;
    this.#serving = this.program(["serve", "--listen", listen]);
    while (!(await this.cli(["health"]).catch(() => undefined))) {
      if (this.#serving.exitCode !== null) throw new Error(`teamwire serve ended with ${this.#serving.exitCode}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** Kills it, as a crash of its machine would. */
  async kill() {
    if (!this.#serving) return;
    const ended = once(this.#serving, "exit");
    this.#serving.kill("SIGKILL");
    await ended;
  }

  /** @param {string} [context] */
  environment(context = "operator") {
    return {
      PATH: process.env["PATH"],
      HOME: this.directory,
      TEAMWIRE_ADDRESS: this.address,
      TEAMWIRE_STATE_DIR: path.join(this.directory, "state"),
      TEAMWIRE_CONTEXT: path.join(this.directory, `${context}.context`),
      ...this.variables,
    };
  }

  /** Starts a program of teamwire's that goes on until the test ends.
   * @param {string[]} args @param {string} [context] */
  program(args, context) {
    const child = spawn(/** @type {string} */ (BINARY), args, {
      env: this.environment(context),
      detached: true,
      stdio: ["ignore", "ignore", process.env["TEAMWIRE_TEST_VERBOSE"] ? "inherit" : "ignore"],
    });
    running.add(child);
    child.once("exit", () => running.delete(child));
    this.#programs.push(child);
    return child;
  }

  /** Runs a command to its end and returns what it printed. Fails if the command does.
   * @param {string[]} args @param {string} [context] @param {string} [input] @param {Record<string, string>} [variables] */
  async cli(args, context, input = "", variables = {}) {
    const env = { ...this.environment(context), ...variables };
    const child = spawn(/** @type {string} */ (BINARY), args, { env, detached: true });
    running.add(child);
    let [out, err] = ["", ""];
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (err += data));
    // A command that fails at once reads nothing.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    const [code] = await once(child, "close");
    running.delete(child);
    if (code !== 0) throw new Error(`teamwire ${args.join(" ")} failed with ${code}:\n${err}${out}`);
    return out;
  }

  /** Runs a command with --json.
   * @param {string[]} args @param {string} [context] @param {string} [input] @returns {Promise<any>} */
  async json(args, context, input) {
    return JSON.parse(await this.cli([...args, "--json"], context, input));
  }

  /** Creates a team. The context `lead` is its lead's.
   * @param {string} [name] */
  async team(name = "acme") {
    await this.cli(["team", "create", name], "lead");
  }

  /** Lets a person join as a member. The context is called like the member.
   * @param {string} name */
  async join(name) {
    const { join_string } = await this.json(["invite", name], "lead");
    await this.cli(["join", "-"], name, join_string);
  }

  /** Starts a program as a member. Returns when the member has opened its inbox.
   * @param {string} name @param {string[]} args */
  async run(name, args = ["--echo"]) {
    const { join_string } = await this.json(["invite", name], "lead");
    const child = this.program(["run", name, "--join", join_string, ...args], name);
    await this.member(name, (member) => member.connected);
    return child;
  }

  /** Waits until a text is in the history.
   * @param {string} text */
  async said(text) {
    const args = ["history", "--follow", "-n", "10"];
    const child = spawn(/** @type {string} */ (BINARY), args, { env: this.environment("lead"), detached: true });
    running.add(child);
    this.#programs.push(child);
    let out = "";
    for await (const data of child.stdout) {
      out += data;
      if (out.includes(text)) break;
      out = out.slice(-1_000);
    }
    killTree(child);
    running.delete(child);
  }

  /** Starts a host with a profile of each of these commands, to join with this string.
   * @param {string} name @param {Record<string, string[]>} profiles @param {string} joinString
   * @param {string} [more] lines of TOML for each profile */
  async startHost(name, profiles, joinString, more = "") {
    const config = path.join(this.directory, `${name}.toml`);
    const tables = Object.entries(profiles).map(
      ([profile, command]) => `[profiles.${profile}]\ncommand = ${JSON.stringify(command)}\n${more}\n`,
    );
    await writeFile(config, `labels = { site = "lab" }\n${tables.join("\n")}`);
    return this.program(["host", "--name", name, "--join", joinString, "--config", config], name);
  }

  /** Starts a host with a profile of each of these commands. Returns when it has opened its inbox.
   * @param {string} name @param {Record<string, string[]>} profiles */
  async host(name, profiles) {
    const { join_string } = await this.json(["invite", name, "--host"], "lead");
    const child = await this.startHost(name, profiles, join_string);
    for (;;) {
      const hosts = (await this.cli(["hosts", "--json"], "lead")).trim().split("\n");
      if (hosts.some((line) => line !== "" && JSON.parse(line).name === name && JSON.parse(line).offer)) return child;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** Lets members join that no process keeps going, as cheaply as possible.
   * @param {number} count @param {(index: number) => string} name */
  async crowd(count, name) {
    const { v1 } = await clientModule();
    const lead = await this.client(await this.credential("lead"));
    const { joinToken } = await lead.teams.invite({ usesMax: count });
    const token = await this.client(joinToken);
    const liveness = v1.Liveness.DETACHED;
    const names = Array.from({ length: count }, (_, index) => name(index));
    const next = async () => {
      for (let one = names.shift(); one !== undefined; one = names.shift()) {
        await token.teams.join({ name: one, liveness, attributes: { agentType: "crowd" } });
      }
    };
    await Promise.all(Array.from({ length: 4 }, next));
  }

  /** Waits until a member is as a test wants it.
   * @param {string} name @param {(member: any) => boolean} isSo */
  async member(name, isSo) {
    for (;;) {
      const { members } = await this.json(["status"], "lead");
      const found = members.find((/** @type {any} */ member) => member.name === name);
      if (found && isSo(found)) return found;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** Creates a code for signing in to the console, as a person does: as the member of a context, or as the operator.
   * @param {string} as @param {string[]} [options] @param {string} [credential] instead of the context's */
  async code(as, options = [], credential = "") {
    const caller = as === "operator" ? ["--as", "operator"] : [];
    const context = as === "operator" ? "lead" : as;
    const variables = credential ? { TEAMWIRE_CREDENTIAL: credential } : {};
    const args = ["console", "--no-open", "--json", ...caller, ...options];
    const { address, code } = JSON.parse(await this.cli(args, context, "", variables));
    if (address !== `${this.address}/`) throw new Error(`the console is at ${address}`);
    return /** @type {string} */ (code);
  }

  /** Returns a client of this coordinator, for what no command does.
   * @param {string} credential */
  async client(credential) {
    const { connect } = await clientModule();
    return /** @type {import("@teamwire/client").Client} */ (await connect({ credential, address: this.address }));
  }

  /** Returns the credential that a context has.
   * @param {string} context */
  async credential(context) {
    const text = await readFile(path.join(this.directory, `${context}.context`), "utf8");
    return JSON.parse(text).identities[0].credential;
  }

  /** Kills what the programs have left behind: a host's members outlive the host. */
  async #killOthers() {
    for (const pid of (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name))) {
      const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
      if (!environment.split("\0").includes(`HOME=${this.directory}`)) continue;
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // It has ended.
      }
    }
  }

  async end() {
    for (const child of this.#programs) killTree(child);
    await this.#killOthers();
    await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** @type {Promise<import("playwright-core").Browser> | undefined} */
let launched;

/** Returns the browser, which is started once for each file of tests. */
export async function browser() {
  launched ??= chromium.launch({
    executablePath: process.env["TEAMWIRE_TEST_CHROMIUM"] ?? "/usr/bin/chromium",
    // Chromium's sandbox does not work for root.
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
  return await launched;
}

after(async () => await (await launched)?.close());

/** Goes to a page by the navigation. @param {import("playwright-core").Page} page @param {string} name */
export async function goTo(page, name) {
  // The link to Approvals also says how many wait.
  await page
    .getByRole("navigation", { name: "Pages" })
    .getByRole("link", { name: new RegExp(`^${name}`) })
    .click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

/** Returns the card of a member or a host on the page Team. @param {import("playwright-core").Page} page @param {string} name */
export const cardOf = (page, name) => page.getByRole("listitem", { name, exact: true });

/** Has a host start a teammate, on the page Team. Returns when it works.
 * @param {import("playwright-core").Page} page
 * @param {{ name: string, profile: string, prompt: string, needsPlan?: boolean }} teammate */
export async function spawnTeammate(page, { name, profile, prompt, needsPlan = false }) {
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Spawn…" }).click();
  await dialog.getByLabel("Name").fill(name);
  await dialog.getByRole("combobox", { name: /^Profile/ }).selectOption(profile);
  await dialog.getByLabel("Instructions").fill(prompt);
  if (needsPlan) await dialog.getByLabel("It needs an approved plan").check();
  await dialog.getByRole("button", { name: "Start", exact: true }).click();
  await dialog.waitFor({ state: "detached" });
  await cardOf(page, name)
    .getByText(/^(active|idle)$/)
    .waitFor();
}

/** @type {Promise<import("vite").ViteDevServer> | undefined} */
let vite;

/** Returns the module of the TypeScript client, from its sources. */
async function clientModule() {
  vite ??= import("vite").then(({ createServer }) =>
    createServer({ server: { middlewareMode: true, ws: false }, appType: "custom", logLevel: "silent" }),
  );
  return await (await vite).ssrLoadModule("@teamwire/client");
}

after(async () => await (await vite)?.close());

/** Shows the page that is built in a directory instead of the one in the program, with the program's headers: for work on the page
 * without building the program again.
 * @param {import("playwright-core").BrowserContext} context */
async function showBuilt(context) {
  const directory = process.env["TEAMWIRE_TEST_DIST"];
  if (!directory) return;
  const isFile = (/** @type {URL} */ { pathname }) => pathname === "/" || /^\/assets\/|\.svg$/.test(pathname);
  await context.route(isFile, async (route) => {
    const { origin, pathname } = new URL(route.request().url());
    const answer = await route.fetch({ url: `${origin}/` }).catch(() => undefined);
    if (!answer) return await route.abort();
    const headers = answer.headers();
    for (const own of ["content-encoding", "content-length", "content-type"]) delete headers[own];
    await route.fulfill({ headers, path: path.join(directory, pathname === "/" ? "index.html" : pathname) });
  });
}

/** A page in a new browser context. `problems` collects what must never happen: errors of scripts, violations of the
 * Content-Security-Policy, requests to anywhere else.
 * @param {import("playwright-core").BrowserContextOptions} [options] */
export async function open(options) {
  const context = await (await browser()).newContext(options);
  await showBuilt(context);
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  /** @type {string[]} */
  const problems = [];
  page.on("pageerror", (error) => problems.push(`${error.stack}`));
  page.on("console", (message) => {
    // A call that fails while a coordinator is down, or that it refuses, is not the page's fault.
    const isOfNetwork = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isOfNetwork) problems.push(message.text());
  });
  return { context, page, problems };
}

/** Opens the console, signed in as the member of a context or as `operator`. The page is live when this returns.
 * @param {Coordinator} coordinator @param {string} [as] @param {string} [hash]
 * @param {import("playwright-core").BrowserContextOptions} [options]
 * @param {string} [credential] instead of the context's */
export async function console_(coordinator, as = "lead", hash = "#/team", options = {}, credential = "") {
  const opened = await open(options);
  opened.page.on("request", (request) => {
    const url = new URL(request.url());
    const isOwn = url.origin === coordinator.address || url.protocol === "data:" || url.protocol === "blob:";
    if (!isOwn) opened.problems.push(`a request to ${url.origin}`);
  });
  await opened.page.goto(`${coordinator.address}/#code=${await coordinator.code(as, [], credential)}`);
  await opened.page.getByRole("button", { name: "Sign out" }).waitFor();
  await opened.page.goto(`${coordinator.address}/${hash}`);
  await opened.page.getByRole("status").getByText("live", { exact: true }).waitFor();
  return opened;
}
