/** A coordinator in this process, and errors as coordinators send them. */

import { toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { DurationSchema, durationFromMs } from "@bufbuild/protobuf/wkt";
import { type Code, ConnectError, type ConnectRouter, createRouterTransport } from "@connectrpc/connect";
import { Client } from "../dist/client.js";
import type { Route } from "../dist/settings.js";

export const CREDENTIAL = "twm:acme:bob:0123456789abcdef";

/** Returns a client of services in this process. */
export function clientOf(
  routes: (router: ConnectRouter) => void,
  patienceMs?: number,
): { client: Client; route: Route } {
  const route: Route = {
    turn: 0,
    transport: (interceptors) => createRouterTransport(routes, { transport: { interceptors } }),
    clone: () => route,
    close: () => {},
  };
  return { client: new Client({ credential: CREDENTIAL, team: "acme", patienceMs, route }), route };
}

type Part = string | Uint8Array;

/** Encodes a message of string and message fields. */
export function message(...fields: [number, Part][]): Uint8Array<ArrayBuffer> {
  const writer = new BinaryWriter();
  for (const [number, value] of fields) {
    const bytes = typeof value === "string" ? new TextEncoder().encode(value) : value;
    writer.tag(number, WireType.LengthDelimited).bytes(bytes);
  }
  return writer.finish();
}

/** Returns an error with encoded details: pairs of type name and bytes. */
export function withDetails(code: Code, details: [string, Uint8Array<ArrayBuffer>][]): ConnectError {
  const error = new ConnectError("No. Do this.", code, { "grpc-status": `${code}` });
  error.details = details.map(([type, value]) => ({ type: `google.rpc.${type}`, value }));
  return error;
}

export function refusal(reason: string, code: Code, retryMs?: number): ConnectError {
  const details: [string, Uint8Array<ArrayBuffer>][] = [
    ["ErrorInfo", message([1, reason], [2, "teamwire"], [3, message([1, "closest"], [2, "bob"])])],
    ["BadRequest", message([1, message([1, "recipient"], [2, "No."])])],
  ];
  if (retryMs !== undefined) {
    details.push(["RetryInfo", message([1, toBinary(DurationSchema, durationFromMs(retryMs))])]);
  }
  return withDetails(code, details);
}
