import assert from "node:assert/strict";
import { chmod, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { chooseIdentity, identify } from "../dist/platform/context.js";

const identity = (member: string, team: string) => ({
  team,
  member,
  address: `https://${team}:7420`,
  credential: `twm:${team}:${member}:0123456789abcdef`,
});

const FILE = {
  current: "bob@acme",
  identities: [
    identity("ann", "acme"),
    { ...identity("bob", "acme"), tls: { fingerprint: `sha256:${"0a".repeat(32)}` } },
    identity("bob", "blue"),
  ],
};

test("the identity is the named one, else the current one, else the only one", () => {
  const choose = (file: object, named?: string, team?: string) => {
    const { member, team: of } = chooseIdentity(JSON.stringify(file), named, team);
    return `${member}@${of}`;
  };
  assert.equal(choose(FILE), "bob@acme");
  assert.equal(choose(FILE, "ANN"), "ann@acme");
  assert.equal(choose(FILE, "Bob@Blue"), "bob@blue");
  assert.equal(choose(FILE, "bob", "blue"), "bob@blue");
  assert.equal(choose(FILE, undefined, "BLUE"), "bob@blue");
  assert.equal(choose({ current: null, identities: FILE.identities.slice(0, 1) }), "ann@acme");
  assert.throws(() => choose(FILE, "zoe"), /there are: ann@acme, bob@acme, bob@blue\. Set TEAMWIRE_AS/);
  assert.throws(() => choose({ identities: FILE.identities }), /TEAMWIRE_AS/);
  assert.throws(() => choose({}), /there are: none/);
});

test("a malformed context file is refused without quoting it", () => {
  const secret = FILE.identities[0]?.credential ?? "";
  const malformed = [`{"credential": "${secret}"`, "null", "[]x", '{"identities": 1}', '{"identities": [null]}'];
  for (const text of [...malformed, `{"identities": [{"credential": "${secret}"}]}`, '{"current": 1}']) {
    assert.throws(
      () => chooseIdentity(text),
      (error: Error) => {
        return error.message.includes("not a valid context file") && !error.message.includes(secret);
      },
      text,
    );
  }
});

test("precedence is options, then environment, then context file", async () => {
  const path = join(await mkdtemp(join(tmpdir(), "teamwire-")), "context.json");
  await writeFile(path, JSON.stringify(FILE), { mode: 0o600 });
  const variables = { TEAMWIRE_CONTEXT: path, TEAMWIRE_CREDENTIAL: "", TEAMWIRE_ADDRESS: "" };

  const kept = await identify({}, undefined, variables);
  assert.equal(kept.credential, "twm:acme:bob:0123456789abcdef");
  assert.equal(kept.address, "https://acme:7420");
  assert.match(kept.tls.fingerprint ?? "", /0a/);

  const said = { ...variables, TEAMWIRE_ADDRESS: "https://b", TEAMWIRE_CA: "ca.crt", TEAMWIRE_AS: "ann" };
  const found = await identify({}, undefined, said);
  assert.deepEqual([found.address, found.credential], ["https://b", "twm:acme:ann:0123456789abcdef"]);
  assert.deepEqual([found.tls.ca, found.tls.fingerprint], ["ca.crt", undefined]);

  const given = await identify({ address: "http://c", credential: "two:x" }, undefined, said);
  assert.deepEqual([given.address, given.credential], ["http://c", "two:x"]);
  const standard = await identify({ credential: "two:x" }, undefined, { TEAMWIRE_STATE_DIR: "/a b" });
  assert.equal(standard.address, "unix:///a%20b/coordinator.sock");
});

test("a credential for plain loopback is not sent there unasked", async () => {
  const path = join(await mkdtemp(join(tmpdir(), "teamwire-")), "context.json");
  for (const address of ["http://127.0.0.1:7420", "localhost:1", "http://[::1]:1"]) {
    const identities = [{ team: "acme", member: "bob", address, credential: "twm:acme:bob:0123456789abcdef" }];
    await writeFile(path, JSON.stringify({ identities }), { mode: 0o600 });
    const variables = { TEAMWIRE_CONTEXT: path };
    await assert.rejects(identify({}, undefined, variables), /any program on this machine can listen/);
    assert.equal((await identify({ address }, undefined, variables)).address, address);
  }
});

test("a join takes from the environment only what the join string leaves open", async () => {
  const variables = {
    TEAMWIRE_CREDENTIAL: "twm:x",
    TEAMWIRE_TEAM: "blue",
    TEAMWIRE_ADDRESS: "http://e",
    TEAMWIRE_CA: "e",
  };
  const fingerprint = "0a".repeat(32);
  const joined = await identify({}, { token: "twj:t", address: "https://j", fingerprint }, variables);
  assert.deepEqual([joined.credential, joined.address, joined.team], ["twj:t", "https://j", undefined]);
  assert.deepEqual([joined.tls.ca, joined.tls.fingerprint], [undefined, fingerprint]);
  const bare = await identify({}, { token: "twj:t" }, variables);
  assert.deepEqual([bare.address, bare.tls.ca], ["http://e", "e"]);
});

test("a credential for https is not sent over http", async () => {
  const path = join(await mkdtemp(join(tmpdir(), "teamwire-")), "context.json");
  await writeFile(path, JSON.stringify(FILE), { mode: 0o600 });
  const variables = { TEAMWIRE_CONTEXT: path };
  const saved = /^Error: bob@acme was saved for https:\/\/acme:7420, so its credential is not sent over http\./;
  for (const address of ["http://acme:7420", "acme:7420"]) {
    await assert.rejects(identify({ address }, undefined, variables), saved);
    await assert.rejects(identify({}, undefined, { ...variables, TEAMWIRE_ADDRESS: address }), saved);
    await assert.rejects(
      identify({ address }, { token: "twj:t", address: "https://j" }, {}),
      /join string is for https/,
    );
  }
});

test("a context file that other users can access is refused", async () => {
  const path = join(await mkdtemp(join(tmpdir(), "teamwire-")), "context.json");
  await writeFile(path, JSON.stringify(FILE));
  for (const mode of [0o644, 0o620, 0o602]) {
    await chmod(path, mode);
    await assert.rejects(identify({}, undefined, { TEAMWIRE_CONTEXT: path }), /so it is not trusted.*: chmod 600 /);
  }
  await chmod(path, 0o600);
  await identify({}, undefined, { TEAMWIRE_CONTEXT: path });
});

const OWN = {
  TEAMWIRE_RUN: "run-1",
  TEAMWIRE_CREDENTIAL: "twm:acme:ann:0123456789abcdef",
  TEAMWIRE_MEMBER: "ann",
};

test("within a runner only the runner's member is used", async () => {
  const lead = "twm:acme:lead:0123456789abcdef";
  const own = { ...OWN, TEAMWIRE_AS: "Ann@Acme", TEAMWIRE_TEAM: "ACME" };
  assert.equal((await identify({}, undefined, own)).credential, OWN.TEAMWIRE_CREDENTIAL);
  assert.equal((await identify({ credential: OWN.TEAMWIRE_CREDENTIAL }, undefined, own)).team, "ACME");
  const refused = /runs under `teamwire run`(?!.*0123456789abcdef)/s;
  await assert.rejects(identify({ credential: lead }, undefined, OWN), refused);
  await assert.rejects(identify({}, { token: "twj:t", address: "http://j" }, OWN), refused);
  for (const change of [
    { TEAMWIRE_CREDENTIAL: "" },
    { TEAMWIRE_CREDENTIAL: lead },
    { TEAMWIRE_CREDENTIAL: "two:0123456789abcdef", TEAMWIRE_MEMBER: "" },
    { TEAMWIRE_TEAM: "blue" },
    { TEAMWIRE_AS: "lead" },
    { TEAMWIRE_AS: "ann@blue" },
  ]) {
    await assert.rejects(identify({}, undefined, { ...OWN, ...change }), refused);
  }
});
