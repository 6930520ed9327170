import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { readError, TeamwireError } from "../dist/error.js";
import { message, refusal, withDetails } from "./coordinator.js";

test("a refusal carries its reason, field, facts and retry delay", () => {
  const error = readError(refusal("AGENT_NOT_FOUND", Code.NotFound, 1_500), false);
  assert.ok(error instanceof TeamwireError && error instanceof ConnectError);
  assert.deepEqual(
    [error.reason, error.code, error.rawMessage, error.field, error.retryAfterMs, error.facts, error.isRetryable],
    ["AGENT_NOT_FOUND", Code.NotFound, "No. Do this.", "recipient", 1_500, { closest: "bob" }, false],
  );
});

test("an error without teamwire details has no reason", () => {
  const foreign = message([1, "AGENT_NOT_FOUND"], [2, "elsewhere"]);
  for (const bytes of [foreign, new Uint8Array([0x0a]), new Uint8Array([0xff, 0xff, 0xff]), new Uint8Array()]) {
    const error = readError(withDetails(Code.NotFound, [["ErrorInfo", bytes]]), false);
    assert.deepEqual([error.reason, error.field, error.isRetryable], [undefined, undefined, false]);
  }
  assert.ok(!(new ConnectError("no") instanceof TeamwireError));
});

test("not-now reasons and unknown outcomes are retryable", () => {
  for (const reason of ["STORE_UNAVAILABLE", "DURABILITY_NOT_REACHED", "DRAINING", "RATE_LIMITED", "INBOX_FULL"]) {
    assert.ok(readError(refusal(reason, Code.Unavailable), false).isRetryable, reason);
  }
  for (const reason of ["QUOTA_EXCEEDED", "SESSION_SUPERSEDED", "INTERNAL"]) {
    assert.ok(!readError(refusal(reason, Code.Unavailable), false).isRetryable, reason);
  }
  for (const code of [Code.Unavailable, Code.DeadlineExceeded, Code.Canceled, Code.Unknown]) {
    assert.ok(readError(withDetails(code, []), false).isRetryable, Code[code]);
  }
  assert.ok(!readError(withDetails(Code.Unimplemented, []), false).isRetryable);
  // A local error, without a response.
  assert.ok(readError(new ConnectError("missing status", Code.Internal), false).isRetryable);
});

test("a TLS error is retryable only after a coordinator has answered", () => {
  const broken = Object.assign(new Error("expired"), { code: "CERT_HAS_EXPIRED" });
  const thrown = new ConnectError("expired", Code.Internal, undefined, undefined, new Error("", { cause: broken }));
  assert.equal(readError(thrown, false).isRetryable, false);
  assert.equal(readError(thrown, true).isRetryable, true);
});
