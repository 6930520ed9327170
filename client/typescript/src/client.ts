/** The client: the generated stubs, and helpers for the most common calls. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { createClient, type Client as Stub } from "@connectrpc/connect";
import { Calls, Delays } from "./calls.js";
import { HistoryService } from "./gen/teamwire/v1/history_pb.js";
import {
  type ExitReportSchema,
  type Message,
  MessageService,
  type SendRequestSchema,
  type SendResponse,
  type StreamRequestSchema,
} from "./gen/teamwire/v1/message_pb.js";
import { type Request, RequestService, RequestState } from "./gen/teamwire/v1/request_pb.js";
import { TaskService } from "./gen/teamwire/v1/task_pb.js";
import { TeamService } from "./gen/teamwire/v1/team_pb.js";
import type { Settings } from "./settings.js";
import { Subscription } from "./subscription.js";

/** How long one call may wait for a decision, in milliseconds: the coordinator's limit. */
const WAIT_MS_MAX = 60_000;

/** How long `leave` and `close` wait for acknowledgements, in milliseconds. */
const FLUSH_MS = 2_000;

type Body = NonNullable<MessageInitShape<typeof SendRequestSchema>["body"]>;

/**
 * Calls a coordinator. The stubs have every call of the protocol; they add the credential and the session, retry, and
 * throw TeamwireError.
 */
export class Client {
  readonly messages: Stub<typeof MessageService>;
  readonly teams: Stub<typeof TeamService>;
  readonly requests: Stub<typeof RequestService>;
  readonly tasks: Stub<typeof TaskService>;
  readonly history: Stub<typeof HistoryService>;
  readonly #settings: Settings;
  readonly #calls: Calls;
  #inbox: Subscription | undefined;

  /** See `connect` and `join`. */
  constructor(settings: Settings) {
    this.#calls = new Calls(settings);
    this.#settings = settings;
    const transport = settings.route.transport([this.#calls.intercept]);
    this.messages = createClient(MessageService, transport);
    this.teams = createClient(TeamService, transport);
    this.requests = createClient(RequestService, transport);
    this.tasks = createClient(TaskService, transport);
    this.history = createClient(HistoryService, transport);
  }

  /** The credential. A secret. */
  get credential(): string {
    return this.#settings.credential;
  }

  /** The member's name. Undefined if the credential is not a member's. */
  get member(): string | undefined {
    const [kind, , member] = this.credential.split(":");
    return kind === "twm" ? member : undefined;
  }

  /**
   * Subscribes to the caller's inbox. An older subscription of the same member ends. From now on, this client's calls
   * carry the session: the coordinator refuses them once another process has taken over.
   */
  subscribe(request: MessageInitShape<typeof StreamRequestSchema> = {}): Subscription {
    this.#inbox = new Subscription(this.#calls, this.messages, request);
    return this.#inbox;
  }

  /** Sends a text to one member; `team-lead` is the lead. `inReplyTo` is the id of the message that it answers. */
  send(recipient: string, summary: string, content: string, inReplyTo = ""): Promise<SendResponse> {
    return this.messages.send({ body: { case: "message", value: { recipient, summary, content } }, inReplyTo });
  }

  /** Sends a text to the sender of a message. */
  reply(to: Message, summary: string, content: string): Promise<SendResponse> {
    return this.send(to.sender?.name ?? "", summary, content, to.id);
  }

  /** Sends a text to every other member. */
  broadcast(summary: string, content: string): Promise<SendResponse> {
    return this.#send({ case: "broadcast", value: { summary, content } });
  }

  /** Approves the caller's shutdown. Resolves once the approval is recorded; the subscription then ends. */
  approveShutdown(requestId: string): Promise<SendResponse> {
    return this.#send({ case: "shutdownResponse", value: { requestId, approve: true } });
  }

  /** Rejects the caller's shutdown. */
  rejectShutdown(requestId: string, reason: string): Promise<SendResponse> {
    return this.#send({ case: "shutdownResponse", value: { requestId, approve: false, reason } });
  }

  /** Asks the lead to approve a plan. Pass the reply's request id to `waitDecision`. */
  submitPlan(plan: string, summary = ""): Promise<SendResponse> {
    return this.#send({ case: "planApprovalRequest", value: { plan, summary } });
  }

  /** Approves or rejects a member's plan. */
  answerPlan(author: string, requestId: string, approve: boolean, feedback = ""): Promise<SendResponse> {
    return this.#send({ case: "planApprovalResponse", value: { recipient: author, requestId, approve, feedback } });
  }

  /** Waits until a request is decided and returns it; after this time in milliseconds returns it still pending. */
  async waitDecision(requestId: string, timeoutMs = Number.POSITIVE_INFINITY, signal?: AbortSignal): Promise<Request> {
    const until = performance.now() + timeoutMs;
    const delays = new Delays();
    for (;;) {
      const waitMs = Math.ceil(Math.min(Math.max(until - performance.now(), 0), WAIT_MS_MAX));
      const asked = { requestId, timeout: durationFromMs(waitMs) };
      const { request } = await this.requests.waitForDecision(asked, signal && { signal });
      if (request === undefined) throw new Error("The coordinator answered without the request.");
      if (request.state !== RequestState.PENDING || performance.now() >= until) return request;
      // A draining coordinator may answer early.
      await this.#calls.changes.until(() => this.#calls.isClosed, delays.next(), signal);
    }
  }

  /**
   * Ends the caller's life as a member, with the exit code of its process (default 0). Call it last. First waits briefly
   * for unconfirmed acknowledgements.
   */
  async leave(exit: MessageInitShape<typeof ExitReportSchema> = { code: 0 }): Promise<void> {
    await this.#flush();
    await this.teams.leave({ exit });
  }

  /** Ends the subscription, all calls and the connection. First waits briefly for unconfirmed acknowledgements. */
  async close(): Promise<void> {
    await this.#flush();
    this.#inbox?.close();
    this.#calls.isClosed = true;
    this.#calls.changes.notify();
    this.#settings.route.close();
  }

  #send(body: Body): Promise<SendResponse> {
    return this.messages.send({ body });
  }

  async #flush(): Promise<void> {
    // Unconfirmed messages are redelivered, so a failure must not prevent the end.
    await this.#inbox?.flush(AbortSignal.timeout(FLUSH_MS)).catch(() => {});
  }
}
