/** The calls of a client: the transport beneath the generated stubs, which tries again what may be tried again. */

import {
  clone,
  create,
  type DescMessage,
  type DescMethodStreaming,
  type DescMethodUnary,
  type Message,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import type { Duration } from "@bufbuild/protobuf/wkt";
import { Code, type StreamResponse, type Transport, type UnaryResponse } from "@connectrpc/connect";
import { v4, v7 } from "uuid";
import { parseAddresses } from "./address.js";
import { Changes, sleep } from "./changes.js";
import { readError, TeamwireError } from "./error.js";
import type { Link, Settings } from "./settings.js";

/** How long one attempt of a call may take, in milliseconds, besides what the coordinator is asked to wait. */
export const ATTEMPT_MS = 10_000;

/** How long a call is tried in all. */
const PATIENCE_MS = 600_000;

/** How long a coordinator waits at most before it answers, and how long where the request does not say, in seconds. */
const WAIT_SECONDS_MAX = 60;
const WAIT_SECONDS: Readonly<Record<string, number>> = { WaitForDecision: 30 };

/** Calls that may not be repeated as long as their outcome is unknown. */
const ONCE = ["DeleteTeam", "SetLead"];

/** Who refuses with these has not begun. */
const NOT_BEGUN = ["DRAINING", "RATE_LIMITED"];

/** Calls whose reply holds a credential: who repeats one with its key is given it, too. */
const SECRET = ["CreateTeam", "Join"];

/** A series of delays with full jitter, in milliseconds: bounds that double from 100 to 5,000. */
export class Delays {
  #bound = 100;

  next(): number {
    const bound = this.#bound;
    this.#bound = Math.min(2 * bound, 5_000);
    return Math.random() * bound;
  }

  /** Returns how long to wait after an error. One that goes away asks to be left, and another one is there. */
  after(error: TeamwireError): number {
    return Math.max(this.next(), error.reason === "DRAINING" ? 0 : (error.retryAfterMs ?? 0));
  }

  reset(): void {
    this.#bound = 100;
  }
}

/** The session that calls belong to, as the subscription keeps it up. */
export class Session {
  /** Empty: there is none. */
  id = "";
  /** True while the subscription opens another one, which ends this. */
  isReopening = true;
  readonly changes = new Changes();

  /** Returns whether another session of our own has taken the place of the one that was refused. */
  async isReplaced(refused: string): Promise<boolean> {
    await this.changes.until(() => this.id !== refused || !this.isReopening, ATTEMPT_MS);
    return this.id !== refused;
  }
}

/** The fields that some requests have and that are looked after here. */
type Open = Message & { team?: string; idempotencyKey?: string; timeout?: Duration; wait?: Duration };

/** One call: all its attempts. */
interface Call<I extends DescMessage> {
  readonly name: string;
  readonly request: MessageShape<I>;
  readonly header: HeadersInit | undefined;
  /** For all attempts together, in milliseconds. */
  readonly patienceMs: number;
  /** Aborted by the program, or because the client is closed. */
  readonly signal: AbortSignal;
  /** Lets go of it. */
  end(): void;
}

type Fail = (thrown: unknown) => TeamwireError;

export class Calls implements Transport {
  session = new Session();
  credential: string;
  readonly #settings: Settings;
  readonly #addresses: readonly [string, ...string[]];
  readonly #underWay = new Set<AbortController>();
  #turn: number;
  #link: Promise<Link> | undefined;
  #hasAnswered = false;
  #isClosed = false;

  constructor(settings: Settings) {
    // The error of a header that cannot be would repeat it.
    if (!/^[\x21-\x7e]+$/.test(settings.credential)) {
      throw new Error("The credential is malformed. Use it as it was given, the whole of it.");
    }
    this.credential = settings.credential;
    this.#settings = settings;
    this.#addresses = parseAddresses(settings.address);
    this.#turn = Math.floor(Math.random() * this.#addresses.length);
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: HeadersInit | undefined,
    input: MessageInitShape<I>,
  ): Promise<UnaryResponse<I, O>> {
    const call = this.#begin(method, input, header, signal, timeoutMs);
    try {
      return await this.#persist(call, (transport, headers, ms) =>
        transport.unary(method, call.signal, ms, headers, call.request as MessageInitShape<I>),
      );
    } finally {
      call.end();
    }
  }

  /** Opens a stream as persistently as any call is made. Once it is open, an error ends it. */
  async stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: HeadersInit | undefined,
    input: AsyncIterable<MessageInitShape<I>>,
  ): Promise<StreamResponse<I, O>> {
    const { value } = await input[Symbol.asyncIterator]().next();
    const call = this.#begin(method, value, header, signal, timeoutMs);
    try {
      return await this.#persist(call, async (transport, headers, _, fail) => {
        const response = await transport.stream(method, call.signal, timeoutMs, headers, once(call.request));
        return { ...response, message: guarded(response.message, call, fail) };
      });
    } catch (error) {
      call.end();
      throw error;
    }
  }

  /**
   * Makes one attempt on the present connection, or on a new one, and throws a TeamwireError. When the connection is no
   * good any more, the next attempt goes to another address, where there is one.
   */
  async attempt<T>(run: (transport: Transport, fail: Fail) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const address = this.#addresses[this.#turn % this.#addresses.length] ?? this.#addresses[0];
    if (this.#isClosed) throw closed();
    this.#link ??= this.#settings.dial(address);
    const link = this.#link;
    const fail = (thrown: unknown) => {
      const error = this.#isClosed ? closed() : readError(thrown, address, this.#hasAnswered);
      this.#hasAnswered ||= error.reason !== undefined;
      const isGone = error.reason === undefined || error.reason === "DRAINING";
      if (this.#link === link && isGone && !signal?.aborted) {
        // What is under way on it may end there.
        this.#link = undefined;
        this.#turn++;
      }
      return error;
    };
    try {
      const { transport, ready } = await link;
      await ready(signal);
      const result = await run(transport, fail);
      this.#hasAnswered = true;
      return result;
    } catch (thrown) {
      throw fail(thrown);
    }
  }

  /** Returns the headers of a call, in a session or outside of any. */
  headers(sessionId: string, others?: HeadersInit): Headers {
    const headers = new Headers(others);
    headers.set("authorization", `Bearer ${this.credential}`);
    if (sessionId !== "") headers.set("teamwire-session", sessionId);
    return headers;
  }

  /** Ends all that is under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const call of this.#underWay) call.abort();
    // A connection that could not be made need not be closed.
    await this.#link?.then((link) => link.close()).catch(() => {});
  }

  async #persist<I extends DescMessage, T>(
    call: Call<I>,
    run: (transport: Transport, headers: Headers, attemptMs: number, fail: Fail) => Promise<T>,
  ): Promise<T> {
    const { name, request, signal } = call;
    const until = Date.now() + call.patienceMs;
    const delays = new Delays();
    for (;;) {
      const sessionId = this.session.id;
      // Without patience there is one attempt, and that has its time.
      const left = call.patienceMs > 0 ? until - Date.now() : Number.POSITIVE_INFINITY;
      let isSent = false;
      try {
        return await this.attempt((transport, fail) => {
          isSent = true;
          const attemptMs = Math.max(1, Math.min(ATTEMPT_MS + waitMs(name, request), left));
          return run(transport, this.headers(sessionId, call.header), attemptMs, fail);
        }, signal);
      } catch (thrown) {
        const error = thrown as TeamwireError;
        if (signal.aborted) throw this.#isClosed ? closed() : cancelled(signal);
        const isSuperseded = error.reason === "SESSION_SUPERSEDED" && sessionId !== "";
        if (isSuperseded && (await this.session.isReplaced(sessionId))) continue;
        const mayRepeat = !ONCE.includes(name) || !isSent || NOT_BEGUN.includes(error.reason ?? "");
        const delay = delays.after(error);
        if (!error.isPassing || !mayRepeat || Date.now() + delay >= until) throw error;
        await sleep(delay, signal);
      }
    }
  }

  #begin<I extends DescMessage>(
    method: { readonly name: string; readonly input: I },
    input: MessageInitShape<I>,
    header: HeadersInit | undefined,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
  ): Call<I> {
    // A copy: the program may send its own again, which is another call then, with another key.
    const request = clone(method.input, create(method.input, input));
    const open: Open = request;
    if (open.team === "") open.team = this.#settings.team ?? "";
    // Version 7 sorts by time, which is the cheapest for a coordinator to keep.
    if (open.idempotencyKey === "") open.idempotencyKey = SECRET.includes(method.name) ? v4() : v7();
    // What cannot be written is a fault of the program: it is thrown here, and not tried again.
    toBinary(method.input, request);
    const controller = new AbortController();
    const cancel = () => controller.abort(signal?.reason);
    signal?.addEventListener("abort", cancel);
    if (signal?.aborted) cancel();
    this.#underWay.add(controller);
    const end = () => {
      signal?.removeEventListener("abort", cancel);
      this.#underWay.delete(controller);
    };
    const patienceMs = timeoutMs ?? this.#settings.patienceMs ?? PATIENCE_MS;
    return { name: method.name, request, header, patienceMs, signal: controller.signal, end };
  }
}

/** Returns how long the coordinator is asked to wait before it answers. */
function waitMs(name: string, request: Open): number {
  const asked = request.timeout ?? request.wait;
  const seconds = asked === undefined ? (WAIT_SECONDS[name] ?? 0) : Number(asked.seconds) + 1;
  return 1_000 * Math.min(seconds, WAIT_SECONDS_MAX);
}

export async function* once<T>(message: T): AsyncIterable<T> {
  yield message;
}

async function* guarded<T>(messages: AsyncIterable<T>, call: Call<DescMessage>, fail: Fail): AsyncIterable<T> {
  try {
    yield* messages;
  } catch (thrown) {
    throw fail(thrown);
  } finally {
    call.end();
  }
}

function closed(): TeamwireError {
  return new TeamwireError("The client is closed.", Code.Canceled, false);
}

function cancelled(signal: AbortSignal): TeamwireError {
  return new TeamwireError("The call was cancelled.", Code.Canceled, false, {}, { cause: signal.reason });
}
