/** What a failed call tells, out of `google.rpc.ErrorInfo`, `BadRequest` and `RetryInfo`. */

import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { DurationSchema, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

/** The domain of every ErrorInfo of teamwire. */
const DOMAIN = "teamwire";

/** What passes by itself. INBOX_FULL is not among them: two that wait for each other would wait forever. */
const PASSING_REASONS = ["STORE_UNAVAILABLE", "DURABILITY_NOT_REACHED", "DRAINING", "RATE_LIMITED"];

/** Without a reason: the outcome of the call is not known. */
const UNKNOWN_OUTCOMES = [Code.Unavailable, Code.DeadlineExceeded, Code.Canceled, Code.Unknown];

/** How Node's codes of TLS errors begin. None of them passes until somebody changes something. */
const TLS_ERROR = /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|INVALID_CA|EPROTO)/;

interface Details {
  readonly reason?: string;
  readonly field?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly retryAfterMs?: number;
}

/** A call that was refused, or that failed on its way. Its message says what to do. */
export class TeamwireError extends Error {
  override readonly name = "TeamwireError";
  /** Why the coordinator refused, such as `AGENT_NOT_FOUND`. Undefined: the error comes from elsewhere. */
  readonly reason: string | undefined;
  /** The field of the request that is at fault, where it is one. */
  readonly field: string | undefined;
  /** Facts for a program, such as the id of a pending request. */
  readonly metadata: Readonly<Record<string, string>>;
  /** When to try again, in milliseconds from now, where the coordinator said so. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    /** The gRPC code. */
    readonly code: Code,
    /** True: the same call may succeed later, without anybody doing anything. */
    readonly isPassing: boolean,
    details: Details = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.reason = details.reason;
    this.field = details.field;
    this.metadata = details.metadata ?? {};
    this.retryAfterMs = details.retryAfterMs;
  }
}

/**
 * Reads whatever a call has thrown. `address`: of the coordinator that was called. `hasAnswered`: it, or another one, has
 * answered before, so that whatever is wrong with TLS now may be put right again.
 */
export function readError(thrown: unknown, address: string, hasAnswered: boolean): TeamwireError {
  if (thrown instanceof TeamwireError) return thrown;
  const error = ConnectError.from(thrown);
  const details = readDetails(error);
  if (details.reason !== undefined) {
    return new TeamwireError(error.rawMessage, error.code, PASSING_REASONS.includes(details.reason), details);
  }
  const message = `${address}: ${error.rawMessage}`;
  if (isOfTls(error) && !hasAnswered) {
    return new TeamwireError(message, Code.FailedPrecondition, false, {}, { cause: error });
  }
  // What came over the wire has headers. What has none was made here, out of a broken connection.
  const isMadeHere = [...error.metadata.keys()].length === 0;
  const isPassing = isMadeHere || UNKNOWN_OUTCOMES.includes(error.code);
  return new TeamwireError(message, error.code, isPassing, {}, { cause: error });
}

function isOfTls(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ("code" in error && TLS_ERROR.test(String(error.code))) || isOfTls(error.cause);
}

function readDetails(error: ConnectError): Details {
  const detail = (type: string) => {
    const found = error.details.find((detail) => "type" in detail && detail.type === `google.rpc.${type}`);
    return found !== undefined && "type" in found ? found.value : new Uint8Array();
  };
  try {
    const info = detail("ErrorInfo");
    if (text(info, 2) !== DOMAIN) return {};
    const field = text(fields(detail("BadRequest"), 1)[0], 1);
    const delay = fields(detail("RetryInfo"), 1)[0];
    return {
      reason: text(info, 1),
      metadata: Object.fromEntries(fields(info, 3).map((entry) => [text(entry, 1), text(entry, 2)])),
      ...(field !== "" && { field }),
      ...(delay !== undefined && { retryAfterMs: durationMs(fromBinary(DurationSchema, delay)) }),
    };
  } catch {
    // Bytes that are no message: an error from elsewhere.
    return {};
  }
}

/** Returns the values of a field that is a text or a message. All that is read here is: no schema is needed for it. */
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

function text(message: Uint8Array | undefined, field: number): string {
  const found = message && fields(message, field)[0];
  return found === undefined ? "" : new TextDecoder().decode(found);
}
