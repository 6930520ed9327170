#!/usr/bin/env node
// Starts the program of the package for this machine, and ends as it does.
"use strict";

const { spawn } = require("node:child_process");
const { accessSync, constants } = require("node:fs");
const os = require("node:os");
const { isatty } = require("node:tty");

const BUILDS = Object.keys(require("./package.json").optionalDependencies);
const name = `@teamwire/cli-${process.platform}-${process.arch}`;

// Says what went wrong and what to do next.
function fail(what, next) {
  console.error(`teamwire: ${what}\nteamwire: next: ${next}`);
  process.exit(1);
}

// Returns the path of the program.
function find() {
  if (!BUILDS.includes(name)) {
    const next = process.platform === "win32" ? "install it in WSL2" : "build it from its sources: cargo install teamwire";
    fail(`there is no build for ${process.platform}-${process.arch}, only ${BUILDS.join(", ")}`, next);
  }
  try {
    return require.resolve(`${name}/bin/teamwire`);
  } catch {
    const what = `the package ${name} with the program is missing, as it is after an installation with --omit=optional`;
    return fail(what, "npm install --include=optional teamwire (with --global, if you installed it so)");
  }
}

// Keeps this process beside the program, for versions of Node that cannot replace themselves.
function accompany(program, args) {
  const child = spawn(program, args, { stdio: "inherit" });
  // A terminal sends these to both processes. The program would get them twice. Not `process.stdin.isTTY`: it makes a
  // pipe non-blocking, for the program too.
  const shared = [0, 1, 2].some(isatty) ? ["SIGINT", "SIGQUIT"] : [];
  const handled = ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR2", "SIGWINCH", "SIGCONT"];
  for (const signal of handled) {
    process.on(signal, () => shared.includes(signal) || child.kill(signal));
  }
  child.on("error", (error) => fail(`${program} does not start: ${error.message}`, "install teamwire again"));
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code);
    for (const handler of handled) process.removeAllListeners(handler);
    process.kill(process.pid, signal);
    // Some signals do not end Node.
    setTimeout(() => process.exit(128 + os.constants.signals[signal]), 1000);
  });
}

const program = find();
const args = process.argv.slice(2);
try {
  accessSync(program, constants.X_OK);
} catch (error) {
  fail(`${program} cannot be run: ${error.message}`, "install teamwire again");
}
// Node 22.15 and newer replace themselves with the program: no process remains between it and its caller.
if (process.execve) process.execve(program, [program, ...args], process.env);
else accompany(program, args);
