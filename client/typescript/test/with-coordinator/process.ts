/** A coordinator as a process, the client for each platform, and what a test has seen of a stream. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { Changes } from "../../dist/changes.js";

export type Platform = typeof import("@teamwire/client");

/** How long anything may take, in milliseconds. Reached only if something is wrong. */
const PATIENCE_MS = 20_000;

/** A coordinator with its own store. */
export class CoordinatorProcess {
  readonly #binary: string;
  readonly #directory: string;
  #process: ChildProcess | undefined;
  #port = 0;

  private constructor(binary: string, directory: string) {
    this.#binary = binary;
    this.#directory = directory;
  }

  /** Starts the binary that the environment variable TEAMWIRE_BINARY names. */
  static async start(): Promise<CoordinatorProcess> {
    const binary = process.env.TEAMWIRE_BINARY;
    if (binary === undefined) throw new Error("Set TEAMWIRE_BINARY to the path of the binary `teamwire`.");
    const started = new CoordinatorProcess(binary, await mkdtemp(join(tmpdir(), "teamwire-")));
    await started.restart();
    return started;
  }

  get address(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Returns the operator's credential. */
  async operator(): Promise<string> {
    return (await readFile(join(this.#directory, "operator.credential"), "utf8")).trim();
  }

  /** Starts it, after the first time on the same port, and waits until it serves. */
  async restart(): Promise<void> {
    const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("TEAMWIRE_"));
    const own = {
      HOME: this.#directory,
      TEAMWIRE_STATE_DIR: this.#directory,
      TEAMWIRE_WEB_ORIGINS: "http://page.example",
    };
    const child = spawn(this.#binary, ["serve", "--listen", `127.0.0.1:${this.#port}`], {
      env: { ...Object.fromEntries(kept), ...own },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    let said = "";
    const changes = new Changes();
    const hear = (text: unknown) => {
      said += text;
      changes.notify();
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("exit", hear);
    const port = () => Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1] ?? 0);
    await changes.until(() => port() > 0 || child.exitCode !== null, PATIENCE_MS);
    if (port() === 0) throw new Error(`The coordinator does not serve: ${said}`);
    this.#port = port();
  }

  signal(signal: NodeJS.Signals): void {
    this.#process?.kill(signal);
  }

  /** Kills it with SIGKILL. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }

  /** Kills it, and removes its store. */
  async end(): Promise<void> {
    await this.kill();
    await rm(this.#directory, { recursive: true });
  }
}

/** Returns the client as it is for Node, over gRPC, and as it is for browsers, over gRPC-web. */
export async function platforms(): Promise<Record<"gRPC" | "gRPC-web", Platform>> {
  const contents = 'export * from "@teamwire/client";';
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: import.meta.dirname },
    bundle: true,
    format: "esm",
    platform: "browser",
    write: false,
  });
  const directory = await mkdtemp(join(tmpdir(), "teamwire-"));
  const file = join(directory, "web.mjs");
  await writeFile(file, outputFiles[0]?.text ?? "");
  const web: Platform = await import(file);
  await rm(directory, { recursive: true });
  return { gRPC: await import("@teamwire/client"), "gRPC-web": web };
}

/** What a stream of events has yielded so far. */
export class Seen<E> {
  readonly events: E[] = [];
  /** What ended it. Undefined: it has not ended, or without an error. */
  error: { readonly reason?: string } | undefined;
  hasEnded = false;
  readonly #changes = new Changes();

  constructor(stream: AsyncIterable<E>) {
    void this.#read(stream);
  }

  /** Waits until a condition holds. */
  async until(what: string, condition: () => boolean): Promise<void> {
    await this.#changes.until(condition, PATIENCE_MS);
    if (!condition()) throw new Error(`${what}: not seen in ${this.#shown()}`);
  }

  /** Waits until the stream has ended, and returns the reason. */
  async end(): Promise<string | undefined> {
    await this.until("the end", () => this.hasEnded);
    return this.error?.reason;
  }

  #shown(): string {
    const plain = (_: string, value: unknown) => (typeof value === "bigint" ? `${value}` : value);
    return JSON.stringify({ events: this.events, error: `${this.error}` }, plain);
  }

  async #read(stream: AsyncIterable<E>): Promise<void> {
    try {
      for await (const event of stream) {
        this.events.push(event);
        this.#changes.notify();
      }
    } catch (error) {
      this.error = error as { readonly reason?: string };
    }
    this.hasEnded = true;
    this.#changes.notify();
  }
}
