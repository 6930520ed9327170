/** Adds the credential, the session and an idempotency key to every call, and retries it. */

import { fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import { type Duration, durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createContextKey, type Interceptor } from "@connectrpc/connect";
import { v4, v7 } from "uuid";
import { Changes } from "./changes.js";
import { conclude, isBroken, isRetried, mayHaveChanged, readError, TeamwireError } from "./error.js";
import { SECRET, WAITS } from "./gen/policy.js";
import type { Settings } from "./settings.js";

/**
 * How long one attempt may take, in milliseconds, in addition to the time that the request asks the coordinator to
 * wait.
 */
export const ATTEMPT_MS = 10_000;

/** An attempt that breaks after this time, in milliseconds, has waited at a coordinator, if the call is one that waits. */
const WAITED_MS_MIN = 1_000;

/** How long a stream must last, in milliseconds, before its loss resets the delays. */
export const SETTLED_MS = 10_000;

/** How long a call may take, with all of its attempts, in milliseconds. */
const PATIENCE_MS = 600_000;

/** Whether a failed call is left to its caller instead of being retried. */
export const ONE_ATTEMPT = createContextKey(false);

/**
 * When the caller of a call that waits stops waiting: no attempt begins later, and none asks the coordinator to wait
 * longer.
 */
export const UNTIL = createContextKey(Number.POSITIVE_INFINITY);

/** A request, with the fields that are read or filled in here. */
type Open = Message & {
  team?: string;
  idempotencyKey?: string;
  sessionId?: string;
  timeout?: Duration;
  wait?: Duration;
};

type Next = Parameters<Interceptor>[0];
type Call = Parameters<Next>[0];

/** A series of growing delays with full jitter, in milliseconds. */
export class Delays {
  #bound = 100;
  readonly #boundMax: number;

  constructor(boundMax = 5_000) {
    this.#boundMax = boundMax;
  }

  next(): number {
    const bound = this.#bound;
    this.#bound = Math.min(2 * bound, this.#boundMax);
    return Math.random() * bound;
  }

  /**
   * Returns how long to wait after an error. Ignores the retry delay of a draining coordinator: another one is
   * available.
   */
  after(error: TeamwireError): number {
    return Math.max(this.next(), error.reason === "DRAINING" ? 0 : (error.retryAfterMs ?? 0));
  }

  reset(): void {
    this.#bound = 100;
  }
}

/** The session that calls carry. The subscription updates it. */
export class Session {
  /** Empty if there is none. */
  id = "";
  /** True while the subscription opens another session, which supersedes this one. */
  isReopening = true;
}

/** The state that all calls of a client share. */
export class Calls {
  session = new Session();
  isClosed = false;
  /** Notified when any of these changes, and of everything that a subscription waits for. */
  readonly changes = new Changes();
  readonly #settings: Settings;
  #hasAnswered = false;

  constructor(settings: Settings) {
    // The error for an invalid header would quote it.
    if (!/^[\x21-\x7e]+$/.test(settings.credential)) {
      throw new Error("The credential is malformed. Paste all of it, exactly as it was issued.");
    }
    this.#settings = settings;
  }

  /** Makes a call, and retries it until its outcome is known. */
  readonly intercept: Interceptor = (next) => async (call) => {
    const { name } = call.method;
    const given = call.stream ? (await call.message[Symbol.asyncIterator]().next()).value : call.message;
    const request = this.#fill(call, given);
    // The subscription itself reopens sessions, each outside the previous one.
    const isSession = name === "Stream";
    const hasOneAttempt = isSession || call.contextValues.get(ONE_ATTEMPT);
    const over = call.contextValues.get(UNTIL);
    const patienceMs = hasOneAttempt ? 0 : (this.#settings.patienceMs ?? PATIENCE_MS);
    let giveUp = performance.now() + patienceMs;
    const delays = new Delays();
    let hasMaybeChanged = false;
    for (;;) {
      const { turn } = this;
      const sessionId = isSession ? "" : this.session.id;
      limitWait(name, request, over);
      const tried = performance.now();
      try {
        const response = await attempt(next, call, request, this.#header(call, sessionId, request));
        this.#hasAnswered = true;
        return response.stream ? { ...response, message: this.#guarded(call, turn, response.message) } : response;
      } catch (thrown) {
        const error = this.#failed(call, turn, thrown);
        if (this.isClosed || call.signal.aborted) throw conclude(error, name, true);
        if (error.reason === "SESSION_SUPERSEDED" && sessionId && (await this.#isReplaced(sessionId))) continue;
        const now = performance.now();
        if (waitMs(name, request) > 0 && !hasOneAttempt && isBroken(error) && now - tried >= WAITED_MS_MIN) {
          // Another outage begins.
          giveUp = now + patienceMs;
          delays.reset();
        }
        const delay = delays.after(error);
        hasMaybeChanged ||= mayHaveChanged(error, name);
        const isLast = !isRetried(error, name) || now + delay >= Math.min(giveUp, over);
        if (isLast) throw conclude(error, name, hasMaybeChanged);
        await this.changes.until(() => this.isClosed, delay, call.signal);
      }
    }
  };

  /** Returns the number of the current connection. */
  get turn(): number {
    return this.#settings.route.turn;
  }

  /** Leaves a connection if it is still the current one. The next one uses another address, if there is one. */
  leave(turn: number): void {
    if (this.turn === turn) this.#settings.route.turn++;
  }

  /** Returns a copy of a request, which the program may reuse, with the team and the idempotency key filled in. */
  #fill({ method }: Call, message: Message): Open {
    // An invalid request is a bug of the program: throw here, outside the retries. `clone` would need much more code in a page.
    const request: Open = fromBinary(method.input, toBinary(method.input, message));
    if (request.team === "") request.team = this.#settings.team ?? "";
    // Version 7 sorts by time, which is the cheapest for a coordinator to keep.
    if (request.idempotencyKey === "") request.idempotencyKey = SECRET.has(method.name) ? v4() : v7();
    return request;
  }

  #header(call: Call, sessionId: string, request: Open): Headers {
    const header = new Headers(call.header);
    header.set("authorization", `Bearer ${this.#settings.credential}`);
    if (sessionId) header.set("teamwire-session", sessionId);
    if (sessionId && request.sessionId !== undefined) request.sessionId = sessionId;
    return header;
  }

  #failed(call: Call, turn: number, thrown: unknown): TeamwireError {
    if (this.isClosed) return new TeamwireError("the client is closed", Code.Canceled, false);
    const error = readError(thrown, this.#hasAnswered);
    this.#hasAnswered ||= error.reason !== undefined;
    const isCancelled = call.signal.aborted && error.code === Code.Canceled;
    if (error.reason === "DRAINING" || (error.reason === undefined && !isCancelled)) this.leave(turn);
    return error;
  }

  async *#guarded<T>(call: Call, turn: number, messages: AsyncIterable<T>): AsyncIterable<T> {
    try {
      yield* messages;
    } catch (thrown) {
      throw this.#failed(call, turn, thrown);
    }
  }

  /** Returns whether our own subscription has replaced the session in which a call was refused. */
  async #isReplaced(sessionId: string): Promise<boolean> {
    await this.changes.until(() => this.session.id !== sessionId || !this.session.isReopening, ATTEMPT_MS);
    return this.session.id !== sessionId;
  }
}

/** Makes one attempt of a call, with a timeout. For a stream, the timeout only limits its opening. */
async function attempt(next: Next, call: Call, message: Open, header: Headers): ReturnType<Next> {
  const ms = ATTEMPT_MS + waitMs(call.method.name, message);
  const controller = new AbortController();
  const cancel = () => controller.abort(call.signal.reason);
  call.signal.addEventListener("abort", cancel);
  if (call.signal.aborted) cancel();
  const late = new ConnectError(`no answer within ${ms} ms`, Code.DeadlineExceeded);
  const timer = setTimeout(() => controller.abort(late), ms);
  const { signal } = controller;
  try {
    if (call.stream) return await next({ ...call, header, signal, message: once(message) });
    header.set("grpc-timeout", `${ms}m`);
    return await next({ ...call, header, signal, message });
  } catch (thrown) {
    call.signal.removeEventListener("abort", cancel);
    throw signal.aborted ? signal.reason : thrown;
  } finally {
    clearTimeout(timer);
  }
}

/** Returns how long the request asks the coordinator to wait before it answers. */
function waitMs(name: string, request: Open): number {
  const wait = WAITS.get(name);
  if (wait === undefined) return 0;
  const asked = request[wait.field];
  return Math.min(asked === undefined ? wait.defaultMs : durationMs(asked), wait.maxMs);
}

/** Makes a request ask the coordinator to wait only for what is left of the time. */
function limitWait(name: string, request: Open, until: number): void {
  const wait = WAITS.get(name);
  if (wait === undefined || !Number.isFinite(until)) return;
  request[wait.field] = durationFromMs(Math.ceil(Math.min(Math.max(until - performance.now(), 0), wait.maxMs)));
}

async function* once<T>(message: T): AsyncIterable<T> {
  yield message;
}
