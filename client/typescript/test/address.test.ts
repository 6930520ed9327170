import assert from "node:assert/strict";
import { test } from "node:test";
import { parseAddresses, parseFingerprint, parseJoinString } from "../dist/address.js";

const SECRET = "0123456789abcdef";
const TOKEN = `twj:acme:x1:${SECRET}`;
const DIGITS = "0a".repeat(32);

test("addresses are parsed", () => {
  for (const [text, origins] of [
    ["http://127.0.0.1:7420", ["http://127.0.0.1:7420"]],
    ["localhost:7420", ["http://localhost:7420"]],
    ["HTTPS://Coord.Example/", ["https://coord.example"]],
    ["https://[0:0::1]:443, https://a_b:1", ["https://[::1]", "https://a_b:1"]],
    ["UNIX:///A%20b/c.sock", ["unix:///A%20b/c.sock"]],
  ] as const) {
    assert.deepEqual(parseAddresses(text), origins);
  }
});

test("a malformed address is refused without quoting it", () => {
  const malformed = [
    "",
    "http://",
    "ftp://x",
    "a b",
    "http://a/b",
    "http://a:0",
    "http://a:65536",
    "http://[::1",
    "::1",
    "unix://a",
    "unix:///",
    "unix:///a/",
    "unix:///a%00",
    "unix:///%ff",
    "unix:///a,http://b",
  ];
  const odd = ["http://a:1:2", "a?b", "http://a,https://b", "a,", Array(17).fill("a").join(), `http://u:${SECRET}@a`];
  for (const text of [...malformed, ...odd]) {
    assert.throws(
      () => parseAddresses(text),
      (error: Error) => !error.message.includes(SECRET),
      text,
    );
  }
});

test("join strings are parsed", () => {
  assert.deepEqual(parseJoinString(` ${TOKEN}\n`), { token: TOKEN });
  assert.deepEqual(parseJoinString(`${TOKEN}@10.0.0.1:7420`), { token: TOKEN, address: "http://10.0.0.1:7420" });
  assert.deepEqual(parseJoinString(`${TOKEN}@https://a:1,https://[::1]+sha256:${DIGITS.toUpperCase()}`), {
    token: TOKEN,
    address: "https://a:1,https://[::1]",
    fingerprint: DIGITS,
  });
});

test("a malformed join string is refused without quoting it", () => {
  for (const text of [
    `twm:acme:bob:${SECRET}@http://a`,
    `${TOKEN}@`,
    `${TOKEN}@ftp://a`,
    `${TOKEN}@https://a+sha256:00`,
    `${TOKEN}@https://a+md5:${DIGITS}`,
    `${TOKEN}@https://a+`,
    `${TOKEN}@http://a+sha256:${DIGITS}`,
    `${TOKEN}@https://a@https://b`,
  ]) {
    assert.throws(
      () => parseJoinString(text),
      (error: Error) => {
        return error.message.includes("join string is malformed") && !error.message.includes(SECRET);
      },
      text,
    );
  }
  assert.throws(() => parseFingerprint("sha256:zz"));
});
