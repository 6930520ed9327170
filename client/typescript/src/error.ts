/** What a failed call tells, out of `google.rpc.ErrorInfo`, `BadRequest` and `RetryInfo`. */

import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { DurationSchema, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { RETRIED } from "./gen/policy.js";

/** The domain of every ErrorInfo of teamwire. */
const DOMAIN = "teamwire";

/** Without a reason: the outcome of the call is not known. */
const UNKNOWN_OUTCOMES = [Code.Unavailable, Code.DeadlineExceeded, Code.Canceled, Code.Unknown];

/** How Node's codes of TLS errors begin. None of them passes until somebody changes something. */
const TLS_ERROR = /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|INVALID_CA|EPROTO)/;

/** What a coordinator says of a refusal. */
type Refusal = Partial<Pick<TeamwireError, "reason" | "field" | "facts" | "retryAfterMs">>;

/** A call that was refused, or that failed on its way. `rawMessage` says what to do, `code` is gRPC's. */
export class TeamwireError extends ConnectError {
  /** Why the coordinator refused, such as `AGENT_NOT_FOUND`. Undefined: the error comes from elsewhere. */
  declare readonly reason: string | undefined;
  /** The field of the request that is at fault, where it is one. */
  declare readonly field: string | undefined;
  /** Facts for a program, such as the id of a pending request. */
  declare readonly facts: Readonly<Record<string, string>> | undefined;
  /** When to try again, in milliseconds from now, where the coordinator says so. */
  declare readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    code: Code,
    /** True: the same call may succeed later, without anybody doing anything. */
    readonly isPassing: boolean,
    refusal: Refusal = {},
    cause?: unknown,
  ) {
    super(message, code, undefined, undefined, cause);
    Object.assign(this, refusal);
  }

  /** ConnectError's own would take any of its kind for one of this. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof ConnectError && "isPassing" in value;
  }
}

/** Reads what a call has thrown. `hasAnswered`: a coordinator has before, so that TLS may be put right again. */
export function readError(thrown: unknown, hasAnswered: boolean): TeamwireError {
  if (thrown instanceof TeamwireError) return thrown;
  const error = ConnectError.from(thrown);
  const { rawMessage, code } = error;
  const refusal = readRefusal(error);
  if (refusal.reason) return new TeamwireError(rawMessage, code, RETRIED.has(refusal.reason), refusal);
  const fault = faultOfTls(error);
  if (fault !== undefined && !hasAnswered) {
    const advice = "Check the address, the authority that is trusted (ca), and the certificate that is shown.";
    return new TeamwireError(`TLS fails: ${fault}. ${advice}`, Code.FailedPrecondition, false, {}, error);
  }
  // What came over the wire has headers. What has none was made here, out of a broken connection.
  const isMadeHere = [...error.metadata.keys()].length === 0;
  return new TeamwireError(rawMessage, code, isMadeHere || UNKNOWN_OUTCOMES.includes(code), {}, error);
}

function faultOfTls(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, reason = error.message } = error as { code?: unknown; reason?: unknown };
  return TLS_ERROR.test(`${code}`) ? `${reason}` : faultOfTls(error.cause);
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
    // Bytes that are no message: an error from elsewhere.
    return {};
  }
}

/** Returns the values of a field that is a text or a message. All that is read here is, so that it needs no schema. */
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
