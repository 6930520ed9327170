import assert from "node:assert/strict";
import { chmod, chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { connect } from "@teamwire/client";
import { refuseForeign } from "../dist/platform/socket.js";
import { CREDENTIAL } from "./coordinator.js";

test("a request names the host as in its address", async (context) => {
  for (const host of ["127.0.0.1", "::1"]) {
    const asked: unknown[] = [];
    const server = createServer().on("stream", (stream, headers) => {
      asked.push(headers[":authority"]);
      stream.respond({ ":status": 200, "content-type": "application/grpc", "grpc-status": 16 }, { endStream: true });
    });
    const isThere = await new Promise((resolve) => {
      server.once("error", () => resolve(false)).listen(0, host, () => resolve(true));
    });
    if (!isThere) {
      context.diagnostic(`skipped: ${host} is not available here`);
      continue;
    }
    const authority = `${host.includes(":") ? `[${host}]` : host}:${(server.address() as AddressInfo).port}`;
    const client = await connect({ address: `http://${authority}`, credential: CREDENTIAL, patienceMs: 0 });
    await assert.rejects(client.teams.getTeam({}), /unauthenticated/);
    assert.deepEqual(asked, [authority]);
    await client.close();
    server.close();
  }
});

const isRoot = process.geteuid?.() === 0;

test("a Unix socket of another user is used only if its place is that user's", { skip: !isRoot }, async () => {
  const directory = await mkdtemp("/run/teamwire-");
  const path = join(directory, "c.sock");
  await writeFile(path, "");
  for (const place of [path, directory]) await chown(place, 65_534, 65_534);
  await chmod(directory, 0o755);
  refuseForeign(path);
  await chmod(directory, 0o775);
  assert.throws(() => refuseForeign(path), /can be changed by others/);
  await chmod(directory, 0o755);
  await chown(directory, 65_533, 65_533);
  assert.throws(() => refuseForeign(path), /belongs to user 65533/);
  await rm(directory, { recursive: true });
});

test("a Unix socket is used unless others could have put it there", async () => {
  const directory = await mkdtemp(join(tmpdir(), "teamwire-"));
  const path = join(directory, "c.sock");
  const asked: unknown[] = [];
  const server = createServer().on("stream", (stream, headers) => {
    asked.push(headers[":authority"]);
    stream.respond({ ":status": 200, "content-type": "application/grpc", "grpc-status": 16 }, { endStream: true });
  });
  await new Promise<void>((resolve) => server.listen(path, () => resolve()));
  const call = async (wanted: RegExp) => {
    const client = await connect({ address: `unix://${path}`, credential: CREDENTIAL, patienceMs: 0 });
    await assert.rejects(client.teams.getTeam({}), wanted);
    await client.close();
  };
  await call(/unauthenticated/);
  await chmod(directory, 0o777);
  await call(/can be changed by others/);
  assert.deepEqual(asked, ["localhost"]);
  server.close();
  await rm(directory, { recursive: true });
});
