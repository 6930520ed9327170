/** A subscription to one's own inbox, through all sessions that it takes. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { type Client, Code, ConnectError } from "@connectrpc/connect";
import { v4, validate } from "uuid";
import { ATTEMPT_MS, type Calls, Delays, Session } from "./calls.js";
import { readError, TeamwireError } from "./error.js";
import { REOPENED } from "./gen/policy.js";
import {
  CloseReason,
  type Delivery,
  type Message,
  type MessageService,
  type SessionClosing,
  type SessionOpened,
  type StreamRequestSchema,
} from "./gen/teamwire/v1/message_pb.js";

/** How many messages are remembered, and how many acknowledgements may wait. */
const IDS_MAX = 4_096;

/** How many acknowledgements one call takes. */
const IDS_IN_A_CALL_MAX = 1_000;

/** How many heartbeats may be missed before a session is taken for dead. */
const HEARTBEATS_MISSED_MAX = 3;

/** How long a session must have held, in milliseconds, for its loss to be no sign of a coordinator in trouble. */
const SETTLED_MS = 10_000;

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

/** How a coordinator says so: in the last frame of a session, or as the reason of a refusal. */
const ENDINGS: Readonly<Record<string, "superseded" | "team_deleted" | "member_stopped">> = {
  SUPERSEDED: "superseded",
  SESSION_SUPERSEDED: "superseded",
  TEAM_DELETED: "team_deleted",
  TEAM_NOT_FOUND: "team_deleted",
  MEMBER_STOPPED: "member_stopped",
};

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
  readonly #messages: Client<typeof MessageService>;
  readonly #request: MessageInitShape<typeof StreamRequestSchema>;
  readonly #session = new Session();
  readonly #over = new AbortController();
  readonly #urgent: InboxMessage[] = [];
  readonly #others: InboxMessage[] = [];
  /** The latest messages that were handed out, and whether each was acknowledged. */
  readonly #seen = new Map<string, boolean>();
  /** Acknowledgements that are not confirmed. */
  readonly #acks = new Set<string>();
  /** No more of them are sent. */
  #areAcksOver = false;
  #openedAt = 0;
  #end: Ending | TeamwireError | undefined;
  #isEndTold = false;

  /** @internal */
  constructor(
    calls: Calls,
    messages: Client<typeof MessageService>,
    request: MessageInitShape<typeof StreamRequestSchema>,
  ) {
    this.#calls = calls;
    this.#messages = messages;
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
      await this.#calls.changes.until(hasNews, undefined, signal);
    }
  }

  /** Says that a message is processed, and returns at once. What is no message's id is ignored. */
  ack(messageId: string): void {
    // One malformed id would have the coordinator refuse all those that it is sent with.
    if (!validate(messageId)) return;
    trim(this.#seen.set(messageId, true));
    this.#acks.add(messageId);
    trim(this.#acks);
    this.#calls.changes.ring();
  }

  /** Waits until the coordinator has confirmed every acknowledgement so far; fails when they cannot be sent any more. */
  async flush(signal?: AbortSignal): Promise<void> {
    const taken = [...this.#acks];
    const waits = () => taken.some((id) => this.#acks.has(id));
    await this.#calls.changes.until(() => this.#areAcksOver || !waits(), undefined, signal);
    if (!waits()) return;
    signal?.throwIfAborted();
    const how = this.ending?.how ?? "refused";
    throw new TeamwireError(`Not acknowledged: the subscription is over (${how}).`, Code.Aborted, false);
  }

  /** Ends it. Acknowledgements that are not flushed are lost, and their messages come again. */
  close(): void {
    this.#areAcksOver = true;
    this.#finish({ how: "closed" });
    this.#calls.changes.ring();
  }

  /** Reads sessions one after the other, until one ends for good. */
  async #read(): Promise<void> {
    const delays = new Delays();
    while (this.#end === undefined) {
      this.#openedAt = Number.POSITIVE_INFINITY;
      try {
        this.#finish(await this.#hold());
      } catch (thrown) {
        const error = readError(thrown, true);
        const end = endOf(error);
        if (end !== undefined) return this.#finish(end);
        if (performance.now() - this.#openedAt >= SETTLED_MS || error.reason === "DRAINING") delays.reset();
        this.#session.isReopening = true;
        await this.#calls.changes.until(() => this.#end !== undefined, delays.after(error));
      }
    }
  }

  /** Opens one session and reads it to its end. */
  async #hold(): Promise<Ending> {
    const { turn } = this.#calls;
    const controller = new AbortController();
    const close = () => controller.abort();
    this.signal.addEventListener("abort", close);
    let timer: ReturnType<typeof setInterval> | undefined;
    let intervalMs = ATTEMPT_MS / HEARTBEATS_MISSED_MAX;
    const heard = () => {
      let missed = 0;
      const late = new ConnectError(`nothing heard ${HEARTBEATS_MISSED_MAX} times`, Code.DeadlineExceeded);
      clearInterval(timer);
      // Ticks are counted, not time: a program that was busy has not read yet what is there.
      timer = setInterval(() => ++missed === HEARTBEATS_MISSED_MAX && controller.abort(late), intervalMs);
    };
    heard();
    try {
      for await (const { frame } of this.#messages.stream(this.#request, { signal: controller.signal })) {
        if (frame.case === "opened") intervalMs = this.#opened(frame.value);
        else if (frame.case === "delivery") this.#deliver(frame.value);
        else if (frame.case === "closing") return this.#closing(frame.value, turn);
        heard();
      }
      throw new ConnectError("the stream ended without a reason", Code.Unavailable);
    } finally {
      clearInterval(timer);
      this.signal.removeEventListener("abort", close);
      controller.abort();
    }
  }

  /** Notes a new session, and returns how often it is to be heard, in milliseconds. */
  #opened({ sessionId, heartbeatInterval }: SessionOpened): number {
    this.#openedAt = performance.now();
    this.#session.id = sessionId;
    this.#session.isReopening = false;
    this.#calls.changes.ring();
    return Math.max(heartbeatInterval === undefined ? 0 : durationMs(heartbeatInterval), 334);
  }

  #closing({ reason, detail, requestId }: SessionClosing, turn: number): Ending {
    const how = ENDINGS[CloseReason[reason] ?? ""];
    if (how !== undefined) return { how };
    if (reason === CloseReason.SHUTDOWN_APPROVED) return { how: "shutdown_approved", requestId };
    if (reason !== CloseReason.DRAINING) throw new ConnectError(detail, Code.Unavailable);
    this.#calls.leave(turn);
    throw new TeamwireError(detail, Code.Unavailable, true, { reason: "DRAINING" });
  }

  #deliver({ message, sequence, deliveryCount }: Delivery): void {
    if (message === undefined) return;
    const isAcked = this.#seen.get(message.id);
    if (isAcked) this.ack(message.id);
    if (isAcked !== undefined) return;
    trim(this.#seen.set(message.id, false));
    const queue = message.body.case === "shutdownRequest" ? this.#urgent : this.#others;
    queue.push(Object.assign(message, { sequence, deliveryCount, ack: () => this.ack(message.id) }));
    this.#calls.changes.ring();
  }

  /** Sends what is taken, many at a time, until it is confirmed or the coordinator will not have it for good. */
  async #acknowledge(): Promise<void> {
    const delays = new Delays();
    const isReady = () => this.#acks.size > 0 && this.#session.id !== "" && !this.#session.isReopening;
    for (;;) {
      await this.#calls.changes.until(() => this.#areAcksOver || isReady());
      if (this.#areAcksOver) return;
      const messageIds = [...this.#acks].slice(0, IDS_IN_A_CALL_MAX);
      try {
        await this.#messages.ack({ messageIds });
        for (const id of messageIds) this.#acks.delete(id);
        this.#calls.changes.ring();
        delays.reset();
      } catch (thrown) {
        const error = readError(thrown, true);
        this.#areAcksOver ||= endOf(error) !== undefined;
        this.#calls.changes.ring();
        await this.#calls.changes.until(() => this.#areAcksOver, delays.after(error));
      }
    }
  }

  #finish(end: Ending | TeamwireError): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    const how = this.ending?.how;
    // A member that is stopping may still say what it has processed.
    if (how !== "shutdown_approved") this.#areAcksOver = true;
    // The calls of a process that was superseded stay in its session, and are refused.
    if (how === "closed") this.#session.id = "";
    this.#session.isReopening = false;
    this.#over.abort();
    this.#calls.changes.ring();
  }
}

/** Returns how a subscription ends by an error. Undefined: another session may be had. */
function endOf(error: TeamwireError): Ending | TeamwireError | undefined {
  const how = ENDINGS[error.reason ?? ""];
  if (how !== undefined) return { how };
  if (error.isPassing || REOPENED.has(error.reason ?? "")) return undefined;
  return error.reason !== undefined || FINAL_CODES.includes(error.code) ? error : undefined;
}

/** Forgets the oldest when there are too many. The first key is the one that came first. */
function trim(ids: Map<string, unknown> | Set<string>): void {
  const [oldest = ""] = ids.keys();
  if (ids.size > IDS_MAX) ids.delete(oldest);
}
