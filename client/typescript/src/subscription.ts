/** A subscription to one's own inbox, through all sessions that it takes. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { v4, validate } from "uuid";
import { ATTEMPT_MS, type Calls, Delays, once, Session } from "./calls.js";
import { sleep } from "./changes.js";
import { TeamwireError } from "./error.js";
import {
  CloseReason,
  type Delivery,
  type Message,
  MessageService,
  type SessionClosing,
  type StreamRequestSchema,
} from "./gen/teamwire/v1/message_pb.js";
import { Window } from "./window.js";

/** How many messages are remembered, and how many acknowledgements may wait. */
const IDS_MAX = 4_096;

/** How many acknowledgements one call takes. */
const IDS_IN_A_CALL_MAX = 1_000;

/** How many heartbeats may be missed before a session is taken for dead. */
const HEARTBEATS_MISSED_MAX = 3;

/** How long a session must have held, in milliseconds, for its loss to be no sign of a coordinator in trouble. */
const SETTLED_MS = 10_000;

/** Reasons of refusals that say no more than that this session is over. */
const SESSION_REASONS = ["SLOW_CONSUMER", "INTERNAL"];

/** Codes that would be the same the next time: whoever answers so without a reason is no coordinator. */
const FINAL_CODES = [
  Code.InvalidArgument,
  Code.NotFound,
  Code.PermissionDenied,
  Code.Unauthenticated,
  Code.Unimplemented,
  // TLS stands in the way.
  Code.FailedPrecondition,
  // The client is closed.
  Code.Canceled,
];

/** Why a subscription is over. */
export type Ending =
  | { readonly how: "shutdown_approved"; readonly requestId: string }
  /** Another process holds the inbox now; the team is no more; the member was stopped by force; the program closed it. */
  | { readonly how: "superseded" | "team_deleted" | "member_stopped" | "closed" };

/** A message out of the inbox. */
export type InboxMessage = Message & {
  /** Its place in the inbox. */
  readonly sequence: bigint;
  /** How many sessions have delivered it or may have. Over 1: an earlier process may have seen it. */
  readonly deliveryCount: number;
  /** Says that it is processed, and returns at once. See {@link Subscription.flush}. */
  ack(): void;
};

/** The messages of the inbox, one after the other. Leaving a loop over it does not end it: `close` does. */
export class Subscription implements AsyncIterable<InboxMessage> {
  readonly #calls: Calls;
  readonly #request: MessageInitShape<typeof StreamRequestSchema>;
  readonly #session = new Session();
  readonly #over = new AbortController();
  readonly #window = new Window(IDS_MAX);
  readonly #urgent: InboxMessage[] = [];
  readonly #others: InboxMessage[] = [];
  /** Taken and not confirmed. */
  readonly #acks = new Set<string>();
  #openedAt = 0;
  #end: Ending | TeamwireError | undefined;
  #isEndTold = false;
  /** No more acknowledgements are sent. */
  #areAcksOver = false;

  /** @internal */
  constructor(calls: Calls, request: MessageInitShape<typeof StreamRequestSchema>) {
    this.#calls = calls;
    this.#request = { instanceId: v4(), ...request };
    calls.session = this.#session;
    void this.#read();
    void this.#acknowledge();
  }

  /** Why it is over. Undefined: it is not, or an error was thrown. */
  get ending(): Ending | undefined {
    return this.#end instanceof TeamwireError ? undefined : this.#end;
  }

  /** Aborted when the subscription is over, also while the program is busy with a message. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<InboxMessage, void, undefined> {
    for (let message = await this.receive(); message !== undefined; message = await this.receive()) yield message;
  }

  /**
   * Returns the next message, a shutdown request before all others, and waits for it first. Undefined: it is over, see
   * `ending`; an end by an error is thrown, once. Nothing is lost when the signal is aborted, whose reason is thrown.
   */
  async receive(signal?: AbortSignal): Promise<InboxMessage | undefined> {
    for (;;) {
      if (this.#end !== undefined) {
        const isNews = this.#end instanceof TeamwireError && !this.#isEndTold;
        this.#isEndTold = true;
        if (isNews) throw this.#end;
        return undefined;
      }
      const message = this.#urgent.shift() ?? this.#others.shift();
      if (message !== undefined) return message;
      signal?.throwIfAborted();
      const hasNews = () => this.#end !== undefined || this.#urgent.length + this.#others.length > 0;
      await this.#session.changes.until(hasNews, undefined, signal);
    }
  }

  /** Says that a message is processed, and returns at once. What is no message's id is ignored. */
  ack(messageId: string): void {
    // One malformed id would have the coordinator refuse all those that it is sent with.
    if (!validate(messageId)) return;
    this.#window.ack(messageId);
    this.#acks.add(messageId);
    const [oldest] = this.#acks;
    if (this.#acks.size > IDS_MAX && oldest !== undefined) this.#acks.delete(oldest);
    this.#session.changes.ring();
  }

  /** Waits until the coordinator has confirmed every acknowledgement so far; fails when they cannot be sent any more. */
  async flush(signal?: AbortSignal): Promise<void> {
    const taken = [...this.#acks];
    const waits = () => taken.some((id) => this.#acks.has(id));
    await this.#session.changes.until(() => this.#areAcksOver || !waits(), undefined, signal);
    if (!waits()) return;
    signal?.throwIfAborted();
    const how = this.ending?.how ?? "refused";
    throw new TeamwireError(`Not acknowledged: the subscription is over (${how}).`, Code.Aborted, false);
  }

  /** Ends it. Acknowledgements that are not flushed are lost, and their messages come again. */
  close(): void {
    this.#areAcksOver = true;
    this.#finish({ how: "closed" });
    this.#session.changes.ring();
  }

  /** Reads sessions one after the other, until one ends for good. */
  async #read(): Promise<void> {
    const delays = new Delays();
    while (this.#end === undefined) {
      this.#openedAt = Number.POSITIVE_INFINITY;
      try {
        this.#finish(await this.#calls.attempt((transport) => this.#hold(transport), this.signal));
      } catch (thrown) {
        const error = thrown as TeamwireError;
        const end = endOf(error);
        if (end !== undefined) return this.#finish(end);
        if (Date.now() - this.#openedAt >= SETTLED_MS || error.reason === "DRAINING") delays.reset();
        this.#session.isReopening = true;
        await sleep(delays.after(error), this.signal);
      }
    }
  }

  /** Opens one session and reads it to its end. */
  async #hold(transport: Transport): Promise<Ending> {
    const controller = new AbortController();
    const abort = () => controller.abort();
    this.signal.addEventListener("abort", abort);
    let timer: ReturnType<typeof setInterval> | undefined;
    // Ticks are counted, rather than the time taken: a program that was busy has not read what is there.
    const heard = (intervalMs: number) => {
      let missed = 0;
      const tick = () => {
        if (++missed === HEARTBEATS_MISSED_MAX) {
          controller.abort(new ConnectError(`nothing heard for ${missed * intervalMs} ms`, Code.DeadlineExceeded));
        }
      };
      clearInterval(timer);
      timer = setInterval(tick, intervalMs);
    };
    let intervalMs = ATTEMPT_MS / HEARTBEATS_MISSED_MAX;
    heard(intervalMs);
    try {
      // Outside of any session: the earlier one is about to be ended by this one.
      const headers = this.#calls.headers("");
      const { stream } = MessageService.method;
      const response = await transport.stream(stream, controller.signal, undefined, headers, once(this.#request));
      for await (const { frame } of response.message) {
        if (frame.case === "opened") {
          intervalMs = Math.max(frame.value.heartbeatIntervalMs, 334);
          this.#openedAt = Date.now();
          this.#session.id = frame.value.sessionId;
          this.#session.isReopening = false;
          this.#session.changes.ring();
        } else if (frame.case === "delivery") {
          this.#deliver(frame.value);
        } else if (frame.case === "closing") {
          return closing(frame.value);
        }
        heard(intervalMs);
      }
      throw new ConnectError("the stream ended without a reason", Code.Unavailable);
    } finally {
      clearInterval(timer);
      this.signal.removeEventListener("abort", abort);
      controller.abort();
    }
  }

  #deliver({ message, sequence, deliveryCount }: Delivery): void {
    if (message === undefined) return;
    const known = this.#window.deliver(message.id);
    if (known === "acked") this.ack(message.id);
    if (known !== "new") return;
    const queue = message.body.case === "shutdownRequest" ? this.#urgent : this.#others;
    queue.push(Object.assign(message, { sequence, deliveryCount, ack: () => this.ack(message.id) }));
    this.#session.changes.ring();
  }

  /** Sends what is taken, many at a time, until it is confirmed or the coordinator will not have it for good. */
  async #acknowledge(): Promise<void> {
    const { changes } = this.#session;
    const delays = new Delays();
    const isReady = () => this.#acks.size > 0 && this.#session.id !== "" && !this.#session.isReopening;
    for (;;) {
      await changes.until(() => this.#areAcksOver || isReady());
      if (this.#areAcksOver) return;
      const { id } = this.#session;
      const request = { sessionId: id, messageIds: [...this.#acks].slice(0, IDS_IN_A_CALL_MAX) };
      try {
        const { ack } = MessageService.method;
        const headers = this.#calls.headers(id);
        await this.#calls.attempt((transport) => transport.unary(ack, undefined, ATTEMPT_MS, headers, request));
        for (const messageId of request.messageIds) this.#acks.delete(messageId);
        delays.reset();
        changes.ring();
      } catch (thrown) {
        const error = thrown as TeamwireError;
        if (error.reason === "SESSION_SUPERSEDED" ? await this.#session.isReplaced(id) : this.#session.id !== id)
          continue;
        this.#areAcksOver ||= endOf(error) !== undefined;
        changes.ring();
        await changes.until(() => this.#areAcksOver, delays.after(error));
      }
    }
  }

  #finish(end: Ending | TeamwireError): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    const how = this.ending?.how;
    // A member that is stopping may still say what it has processed.
    if (how !== "shutdown_approved") this.#areAcksOver = true;
    // Calls of a process that was superseded stay in its session, and are refused.
    if (how === "closed") this.#session.id = "";
    this.#session.isReopening = false;
    this.#over.abort();
    this.#session.changes.ring();
  }
}

function closing({ reason, detail, requestId }: SessionClosing): Ending {
  switch (reason) {
    case CloseReason.SHUTDOWN_APPROVED:
      return { how: "shutdown_approved", requestId };
    case CloseReason.SUPERSEDED:
      return { how: "superseded" };
    case CloseReason.TEAM_DELETED:
      return { how: "team_deleted" };
    case CloseReason.MEMBER_STOPPED:
      return { how: "member_stopped" };
    case CloseReason.DRAINING:
      throw new TeamwireError(detail, Code.Unavailable, true, { reason: "DRAINING" });
    default:
      throw new ConnectError(detail, Code.Unavailable);
  }
}

/** Returns how a subscription ends by an error. Undefined: another session may be had. */
function endOf(error: TeamwireError): Ending | TeamwireError | undefined {
  switch (error.reason) {
    case "SESSION_SUPERSEDED":
      return { how: "superseded" };
    case "MEMBER_STOPPED":
      return { how: "member_stopped" };
    case "TEAM_NOT_FOUND":
      return { how: "team_deleted" };
    case undefined:
      return !error.isPassing && FINAL_CODES.includes(error.code) ? error : undefined;
    default:
      return error.isPassing || SESSION_REASONS.includes(error.reason) ? undefined : error;
  }
}
