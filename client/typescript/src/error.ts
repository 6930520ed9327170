/** Converts the errors of calls, with their `google.rpc.ErrorInfo`, `BadRequest` and `RetryInfo`. */

import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { DurationSchema, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { ONCE, OUTCOME_UNKNOWN, READ, REOPENED, RETRIED, RETRYABLE } from "./gen/policy.js";

/** The domain of teamwire's ErrorInfo. */
const DOMAIN = "teamwire";

/** Codes that, without a reason, leave the outcome of the call unknown. */
const UNKNOWN_OUTCOMES = [Code.Unavailable, Code.DeadlineExceeded, Code.Canceled, Code.Unknown];

/** Codes that, without a reason, another attempt would meet again: the server is not a coordinator. */
const FINAL_CODES = [
  Code.InvalidArgument,
  Code.NotFound,
  Code.PermissionDenied,
  Code.Unauthenticated,
  Code.Unimplemented,
  // TLS failed.
  Code.FailedPrecondition,
  // The client is closed.
  Code.Canceled,
];

/** The prefixes of Node's codes for TLS errors. Retrying is pointless until the configuration changes. */
const TLS_ERROR = /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|INVALID_CA|EPROTO)/;

/** The details of a refusal. */
type Refusal = Partial<Pick<TeamwireError, "reason" | "field" | "facts" | "retryAfterMs">>;

/** A refused or failed call. `rawMessage` says what to do; `code` is the gRPC code. */
export class TeamwireError extends ConnectError {
  /** Why the coordinator refused, such as `AGENT_NOT_FOUND`. Undefined if no coordinator did. */
  declare readonly reason: string | undefined;
  /** The request field at fault, if any. */
  declare readonly field: string | undefined;
  /**
   * The metadata of the refusal: facts for a program, such as the id of a pending request. `metadata` holds the response's
   * headers, as in every ConnectError.
   */
  declare readonly facts: Readonly<Record<string, string>> | undefined;
  /** After how many milliseconds to retry, if the coordinator says so. */
  declare readonly retryAfterMs: number | undefined;
  /** Whether the call may have been carried out all the same. Repeating it with the same idempotency key is safe. */
  readonly isOutcomeUnknown: boolean = false;

  constructor(
    message: string,
    code: Code,
    /** Whether the same call, with the same idempotency key, may succeed later without a change. */
    readonly isRetryable: boolean,
    refusal: Refusal = {},
    cause?: unknown,
  ) {
    super(message, code, undefined, undefined, cause);
    Object.assign(this, refusal);
  }

  /** Replaces ConnectError's check, which accepts every ConnectError. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof ConnectError && "isRetryable" in value;
  }
}

/**
 * Converts what a call has thrown. With `hasAnswered`, a coordinator has answered before, so a TLS error may be
 * temporary.
 */
export function readError(thrown: unknown, hasAnswered: boolean): TeamwireError {
  if (thrown instanceof TeamwireError) return thrown;
  const error = ConnectError.from(thrown);
  const { rawMessage, code } = error;
  const refusal = readRefusal(error);
  if (refusal.reason) return new TeamwireError(rawMessage, code, RETRYABLE.has(refusal.reason), refusal);
  const fault = tlsFault(error);
  if (fault !== undefined && !hasAnswered) {
    const advice = "Check the address, the trusted CA (ca), and the client certificate.";
    return new TeamwireError(`TLS failed: ${fault}. ${advice}`, Code.FailedPrecondition, false, {}, error);
  }
  // A response has headers. An error without any is local: the connection broke.
  const isLocal = [...error.metadata.keys()].length === 0;
  return new TeamwireError(rawMessage, code, isLocal || UNKNOWN_OUTCOMES.includes(code), {}, error);
}

/** Returns whether the client itself repeats a call. */
export function isRetried(error: TeamwireError, call: string): boolean {
  const isPassing = error.reason === undefined ? error.isRetryable : RETRIED.has(error.reason);
  return isPassing && !(ONCE.has(call) && mayBeDone(error));
}

/** Returns whether a stream that ended with an error is opened again. */
export function isReopened({ reason, isRetryable, code }: TeamwireError): boolean {
  if (reason !== undefined) return REOPENED.has(reason);
  return isRetryable || !FINAL_CODES.includes(code);
}

/** Returns whether an attempt that failed may have changed something. */
export function mayHaveChanged(error: TeamwireError, call: string): boolean {
  return !READ.has(call) && mayBeDone(error);
}

/** Returns whether an attempt failed because its connection broke, and did not run out of time. */
export function isBroken(error: TeamwireError): boolean {
  return error.reason === undefined && mayBeDone(error) && error.code !== Code.DeadlineExceeded;
}

function mayBeDone({ reason, isRetryable, cause, facts }: TeamwireError): boolean {
  if (reason === undefined) return isRetryable && !isUnsent(cause);
  return OUTCOME_UNKNOWN.has(reason) && facts?.nothing_changed !== "true";
}

/** Records on the error of the last attempt what it means for the call. */
export function conclude(error: TeamwireError, call: string, hasMaybeChanged: boolean): TeamwireError {
  const isOutcomeUnknown = hasMaybeChanged && leavesOpen(error.reason);
  const isRetryable = error.isRetryable && !(isOutcomeUnknown && ONCE.has(call));
  return Object.assign(error, { isOutcomeUnknown, isRetryable });
}

/**
 * Returns whether a failure says nothing about what earlier attempts did. Any other refusal of the same idempotency key shows
 * that none was carried out.
 */
function leavesOpen(reason: string | undefined): boolean {
  return reason === undefined || RETRIED.has(reason) || OUTCOME_UNKNOWN.has(reason);
}

const unsent = new WeakSet<object>();

/** Marks an error: the request was not sent. */
export function markUnsent(error: ConnectError): ConnectError {
  unsent.add(error);
  return error;
}

function isUnsent(error: unknown): boolean {
  return error instanceof Error && (unsent.has(error) || isUnsent(error.cause));
}

function tlsFault(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, reason = error.message } = error as { code?: unknown; reason?: unknown };
  return TLS_ERROR.test(`${code}`) ? `${reason}` : tlsFault(error.cause);
}

function readRefusal({ details }: ConnectError): Refusal {
  const detail = (type: string) => {
    const found = details.find((detail) => "type" in detail && detail.type === `google.rpc.${type}`);
    return found !== undefined && "type" in found ? found.value : new Uint8Array();
  };
  try {
    const info = detail("ErrorInfo");
    if (text(info, 2) !== DOMAIN) return {};
    const violation = fields(detail("BadRequest"), 1)[0];
    const delay = fields(detail("RetryInfo"), 1)[0];
    return {
      reason: text(info, 1),
      facts: Object.fromEntries(fields(info, 3).map((entry) => [text(entry, 1), text(entry, 2)])),
      ...(violation && { field: text(violation, 1) }),
      ...(delay && { retryAfterMs: durationMs(fromBinary(DurationSchema, delay)) }),
    };
  } catch {
    // Undecodable details are not a coordinator's.
    return {};
  }
}

/** Returns the values of a string or message field. Decodes without a schema, because no other kind is needed here. */
function fields(message: Uint8Array, wanted: number): Uint8Array[] {
  const reader = new BinaryReader(message);
  const found: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    if (number === wanted && type === WireType.LengthDelimited) found.push(reader.bytes());
    else reader.skip(type, number);
  }
  return found;
}

function text(message: Uint8Array, field: number): string {
  return new TextDecoder().decode(fields(message, field)[0]);
}
