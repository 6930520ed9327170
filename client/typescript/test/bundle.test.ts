import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const bundle = (platform: "browser" | "node", names = "*") =>
  build({
    stdin: { contents: `export ${names} from "@teamwire/client";`, resolveDir: import.meta.dirname },
    bundle: true,
    format: "esm",
    platform,
    write: false,
    metafile: true,
    logLevel: "silent",
  });

test("a bundle for browsers contains nothing of Node and uses gRPC-web", async () => {
  const { metafile, outputFiles } = await bundle("browser");
  const externals = Object.values(metafile.outputs).flatMap(({ imports }) => imports);
  assert.deepEqual(externals, []);
  assert.ok(!Object.keys(metafile.inputs).some((input) => input.includes("connect-node")));

  const code = outputFiles[0]?.text ?? "";
  const { connect } = await import(`data:text/javascript,${encodeURIComponent(code)}`);
  const client = await connect({ address: "https://a:7420", credential: "twm:acme:bob:x", patienceMs: 0 });
  const asked: Request[] = [];
  globalThis.fetch = async (url, init) => {
    asked.push(new Request(url, init));
    return new Response(null, { status: 404 });
  };
  await assert.rejects(client.teams.getTeam({}), { message: "[unimplemented] HTTP 404" });
  const [request] = asked;
  assert.equal(request?.url, "https://a:7420/teamwire.v1.TeamService/GetTeam");
  assert.equal(request?.headers.get("content-type"), "application/grpc-web+proto");
  assert.equal(request?.headers.get("authorization"), "Bearer twm:acme:bob:x");
  await assert.rejects(connect(), /no credential/);
  await assert.rejects(connect({ credential: "x", tls: { ca: "x" } }), /browser/);
});

test("a bundle for Node contains gRPC over HTTP/2", async () => {
  const { metafile } = await bundle("node");
  assert.ok(Object.keys(metafile.inputs).some((input) => input.includes("connect-node")));
});

test("a bundle contains watching only if the program uses it", async () => {
  const isWatching = async (names: string) => {
    const { metafile } = await bundle("browser", names);
    const inputs = Object.values(metafile.outputs).flatMap((output) => Object.entries(output.inputs));
    return inputs.some(([input, { bytesInOutput }]) => input.endsWith("dist/watch.js") && bytesInOutput > 0);
  };
  assert.equal(await isWatching("{ connect, watchTeam }"), true);
  assert.equal(await isWatching("{ connect }"), false);
});
