/** Subscribes to the caller's inbox: reconnects, hands out each message once, and acknowledges in the background. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { type Client, Code, ConnectError } from "@connectrpc/connect";
import { v4, validate } from "uuid";
import { ATTEMPT_MS, type Calls, Delays, SETTLED_MS, Session } from "./calls.js";
import { isReopened, readError, TeamwireError } from "./error.js";
import {
  CloseReason,
  type Delivery,
  type Message,
  type MessageService,
  type SessionClosing,
  type SessionOpened,
  type StreamRequestSchema,
} from "./gen/teamwire/v1/message_pb.js";

/** How many message ids are remembered, and how many acknowledgements may wait. */
const IDS_MAX = 4_096;

/** How many messages one call may acknowledge. */
const IDS_IN_A_CALL_MAX = 1_000;

/**
 * The shortest time between the beginnings of two calls that acknowledge, unless the second one is urgent. All clients wait equally
 * long, but a browser may fire the timers of a hidden tab only once a second.
 */
const PAUSE_MS = 20;

/** The longest such time. */
const PAUSE_MS_MAX = 100;

/** How many times as long as the first call took. It is slow if the coordinator is busy, and fewer calls help it then. */
const PAUSE_IN_CALLS = 8;

/** How many messages a session may leave unacknowledged if the request does not say. */
const UNACKED_MESSAGES_MAX = 64;

/** How many missed heartbeats end a session. */
const HEARTBEATS_MISSED_MAX = 3;

/** How a subscription ended. */
export interface End {
  /**
   * In this order: the caller approved its shutdown; another process holds the inbox; the team was deleted; the member was
   * stopped by force; the coordinator's store lost the team.
   */
  readonly reason: "shutdown_approved" | "superseded" | "team_deleted" | "member_stopped" | "data_lost";
  /** The approved request, with `shutdown_approved`; otherwise empty. */
  readonly requestId: string;
}

/** The ends, by the close reason of a session or the reason of a refusal. */
const ENDS: Readonly<Record<string, "superseded" | "team_deleted" | "member_stopped" | "data_lost">> = {
  SUPERSEDED: "superseded",
  SESSION_SUPERSEDED: "superseded",
  TEAM_DELETED: "team_deleted",
  TEAM_NOT_FOUND: "team_deleted",
  MEMBER_STOPPED: "member_stopped",
  DATA_LOST: "data_lost",
};

/** A message from the inbox. */
export type InboxMessage = Message & {
  /** Its sequence in the inbox. */
  readonly sequence: bigint;
  /** How many sessions have, or may have, delivered it. Above 1, an earlier process may have seen it. */
  readonly deliveryCount: number;
  /** Acknowledges it as processed. Returns at once; see {@link Subscription.flush}. */
  ack(): void;
};

/** An async iterable of the inbox's messages. Leaving a loop over it does not end it; `close` does. */
export class Subscription implements AsyncIterable<InboxMessage> {
  readonly #calls: Calls;
  readonly #messages: Client<typeof MessageService>;
  readonly #request: MessageInitShape<typeof StreamRequestSchema>;
  readonly #session = new Session();
  readonly #over = new AbortController();
  readonly #urgent: InboxMessage[] = [];
  readonly #others: InboxMessage[] = [];
  /** The latest messages that were handed out, and whether each is acknowledged. */
  readonly #seen = new Map<string, boolean>();
  /** Unconfirmed acknowledgements. */
  readonly #acks = new Set<string>();
  /** How many flushes wait. */
  #flushes = 0;
  /** Whether sending them has ended. */
  #areAcksOver = false;
  #openedAt = 0;
  /** The end. `closed`: the program closed it. */
  #end: End | TeamwireError | "closed" | undefined;
  #isErrorThrown = false;

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

  /** How it ended. Undefined if it has not ended, was closed, or ended with the error that was thrown. */
  get end(): End | undefined {
    return this.#end === "closed" || this.#end instanceof TeamwireError ? undefined : this.#end;
  }

  /** Aborted when the subscription ends, to interrupt work on a message. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<InboxMessage, void, undefined> {
    for (let message = await this.next(); message !== undefined; message = await this.next()) yield message;
  }

  /**
   * Waits for the next message; shutdown requests come first. Resolves to undefined if the subscription has ended, see
   * `end`; throws, once, the error that ended it. Aborting the signal throws its reason, and loses no message.
   */
  async next(signal?: AbortSignal): Promise<InboxMessage | undefined> {
    for (;;) {
      if (this.#end !== undefined) {
        const isFirst = this.#end instanceof TeamwireError && !this.#isErrorThrown;
        this.#isErrorThrown = true;
        if (isFirst) throw this.#end;
        return undefined;
      }
      const message = this.#urgent.shift() ?? this.#others.shift();
      if (message !== undefined) return message;
      signal?.throwIfAborted();
      const isReady = () => this.#end !== undefined || this.#urgent.length + this.#others.length > 0;
      await this.#calls.changes.until(isReady, undefined, signal);
    }
  }

  /**
   * Acknowledges a message as processed. Returns at once, and ignores a malformed id. After a pause, it is sent at once. Those
   * that follow within 20 ms share a call, or within up to 100 ms if the coordinator is busy. A flush does not wait for them.
   */
  ack(messageId: string): void {
    // The coordinator would refuse the whole batch for one malformed id.
    if (!validate(messageId)) return;
    trim(this.#seen.set(messageId, true));
    this.#acks.add(messageId);
    trim(this.#acks);
    this.#calls.changes.notify();
  }

  /** Waits until the coordinator has confirmed every acknowledgement so far. Throws if they can no longer be sent. */
  async flush(signal?: AbortSignal): Promise<void> {
    const taken = [...this.#acks];
    const waits = () => taken.some((id) => this.#acks.has(id));
    this.#flushes++;
    this.#calls.changes.notify();
    await this.#calls.changes.until(() => this.#areAcksOver || !waits(), undefined, signal);
    this.#flushes--;
    if (!waits()) return;
    signal?.throwIfAborted();
    const why = this.end?.reason ?? "closed or refused";
    throw new TeamwireError(`Not acknowledged: the subscription has ended (${why}).`, Code.Aborted, false);
  }

  /** Ends it. Acknowledgements that are not flushed are lost, and their messages are redelivered. */
  close(): void {
    this.#areAcksOver = true;
    this.#finish("closed");
    this.#calls.changes.notify();
  }

  /** Runs sessions, one after the other, until the subscription ends. */
  async #read(): Promise<void> {
    const delays = new Delays();
    while (this.#end === undefined) {
      this.#openedAt = Number.POSITIVE_INFINITY;
      try {
        this.#finish(await this.#hold());
      } catch (thrown) {
        if (this.#end !== undefined) return;
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
  async #hold(): Promise<End> {
    const { turn } = this.#calls;
    const controller = new AbortController();
    const close = () => controller.abort();
    this.signal.addEventListener("abort", close);
    let timer: ReturnType<typeof setInterval> | undefined;
    let intervalMs = ATTEMPT_MS / HEARTBEATS_MISSED_MAX;
    const restartTimer = () => {
      let missed = 0;
      const late = new ConnectError(`missed ${HEARTBEATS_MISSED_MAX} heartbeats`, Code.DeadlineExceeded);
      clearInterval(timer);
      // Count ticks, not time: a busy program has not yet read the frames that have arrived.
      timer = setInterval(() => ++missed === HEARTBEATS_MISSED_MAX && controller.abort(late), intervalMs);
    };
    restartTimer();
    try {
      for await (const { frame } of this.#messages.stream(this.#request, { signal: controller.signal })) {
        if (frame.case === "opened") intervalMs = this.#opened(frame.value);
        else if (frame.case === "delivery") this.#deliver(frame.value);
        else if (frame.case === "closing") return this.#closing(frame.value, turn);
        restartTimer();
      }
      throw new ConnectError("the stream ended without a reason", Code.Unavailable);
    } finally {
      clearInterval(timer);
      this.signal.removeEventListener("abort", close);
      controller.abort();
    }
  }

  /** Records a new session, and returns its heartbeat interval in milliseconds. */
  #opened({ sessionId, heartbeatInterval }: SessionOpened): number {
    this.#openedAt = performance.now();
    this.#session.id = sessionId;
    this.#session.isReopening = false;
    this.#calls.changes.notify();
    return Math.max(heartbeatInterval === undefined ? 0 : durationMs(heartbeatInterval), 334);
  }

  #closing({ reason, detail, requestId }: SessionClosing, turn: number): End {
    const end = ENDS[CloseReason[reason] ?? ""];
    if (end !== undefined) return { reason: end, requestId: "" };
    if (reason === CloseReason.SHUTDOWN_APPROVED) return { reason: "shutdown_approved", requestId };
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
    this.#calls.changes.notify();
  }

  /** Sends acknowledgements in batches, and retries until the coordinator confirms them or refuses permanently. */
  async #acknowledge(): Promise<void> {
    const delays = new Delays();
    const isReady = () => this.#acks.size > 0 && this.#session.id !== "" && !this.#session.isReopening;
    const urgentFrom = (this.#request.unackedMessagesMax || UNACKED_MESSAGES_MAX) / 2;
    const isUrgent = () => this.#flushes > 0 || this.#end !== undefined || this.#acks.size >= urgentFrom;
    let due = 0;
    for (;;) {
      await this.#calls.changes.until(() => this.#areAcksOver || isReady());
      const pauseMs = due - performance.now();
      if (pauseMs > 0) await this.#calls.changes.until(isUrgent, pauseMs);
      if (this.#areAcksOver) return;
      const began = performance.now();
      const messageIds = [...this.#acks].slice(0, IDS_IN_A_CALL_MAX);
      try {
        await this.#messages.ack({ messageIds });
        const tookMs = performance.now() - began;
        due = began + Math.min(Math.max(tookMs * PAUSE_IN_CALLS, PAUSE_MS), PAUSE_MS_MAX);
        for (const id of messageIds) this.#acks.delete(id);
        this.#calls.changes.notify();
        delays.reset();
      } catch (thrown) {
        const error = readError(thrown, true);
        // The repetition has its own delay.
        due = 0;
        const isSuperseded = error.reason === "SESSION_SUPERSEDED";
        // While it is being reopened, our own next session may have superseded this one, although no answer has come.
        if (!isSuperseded || !this.#session.isReopening) this.#areAcksOver ||= endOf(error) !== undefined;
        // Another process holds the inbox. If the stream is silent, its reader must not take the inbox back.
        if (isSuperseded && !this.#session.isReopening) this.#finish({ reason: "superseded", requestId: "" });
        this.#calls.changes.notify();
        await this.#calls.changes.until(() => this.#areAcksOver, delays.after(error));
      }
    }
  }

  #finish(end: End | TeamwireError | "closed"): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    // A stopping member may still acknowledge.
    if (this.end?.reason !== "shutdown_approved") this.#areAcksOver = true;
    // The calls of a superseded process keep its session, so they are refused.
    if (end === "closed") this.#session.id = "";
    this.#session.isReopening = false;
    this.#over.abort();
    this.#calls.changes.notify();
  }
}

/** Returns how an error ends a subscription. Undefined if it should open another session. */
function endOf(error: TeamwireError): End | TeamwireError | undefined {
  const reason = ENDS[error.reason ?? ""];
  if (reason !== undefined) return { reason, requestId: "" };
  return isReopened(error) ? undefined : error;
}

/** Removes the oldest if there are too many. The first key is the oldest. */
function trim(ids: Map<string, unknown> | Set<string>): void {
  const [oldest = ""] = ids.keys();
  if (ids.size > IDS_MAX) ids.delete(oldest);
}
