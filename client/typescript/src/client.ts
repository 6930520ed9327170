/** The client: the generated stubs, and helpers for the most common calls. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { createClient, createContextValues, type Client as Stub } from "@connectrpc/connect";
import { Calls, Delays, UNTIL } from "./calls.js";
import { TeamwireError } from "./error.js";
import { given, Helpers } from "./gen/helpers.js";
import { WAITS } from "./gen/policy.js";
import { AccessService } from "./gen/teamwire/v1/access_pb.js";
import { AuditService } from "./gen/teamwire/v1/audit_pb.js";
import { HistoryService } from "./gen/teamwire/v1/history_pb.js";
import { type Host, HostService } from "./gen/teamwire/v1/host_pb.js";
import {
  type ExitReport,
  type Message,
  MessageService,
  type SendRequestSchema,
  type SendResponse,
  type StreamRequestSchema,
} from "./gen/teamwire/v1/message_pb.js";
import { type Request, RequestService, RequestState } from "./gen/teamwire/v1/request_pb.js";
import { TaskService } from "./gen/teamwire/v1/task_pb.js";
import { type Member, MemberState, TeamService } from "./gen/teamwire/v1/team_pb.js";
import { WatchService } from "./gen/teamwire/v1/watch_pb.js";
import type { Settings } from "./settings.js";
import { Subscription } from "./subscription.js";

/** How long `leave` and `close` wait for acknowledgements, in milliseconds. */
const FLUSH_MS = 2_000;

/** The largest page of a list. */
const PAGE_SIZE_MAX = 1_000;

/** How long `shutdown` waits by default, in milliseconds. */
const SHUTDOWN_MS = 600_000;

/** The first and the longest delay between two looks at a member that is exiting, in milliseconds. */
const EXIT_DELAY_MS = 100;
const EXIT_DELAY_MS_MAX = 1_000;

/** The longest time of a timer, in milliseconds. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** How a shutdown ended. */
export interface Shutdown {
  /** The request, with its decision. Still pending if the time ran out first. */
  readonly request: Request;
  /** How the member's process ended. Undefined: it has not exited in time, or no exit was reported. */
  readonly exit: ExitReport | undefined;
}

type Body = NonNullable<MessageInitShape<typeof SendRequestSchema>["body"]>;

/**
 * Calls a coordinator. The stubs have every call of the protocol; they add the credential and the session, retry, and
 * throw TeamwireError.
 */
export class Client extends Helpers {
  readonly messages: Stub<typeof MessageService>;
  readonly teams: Stub<typeof TeamService>;
  readonly requests: Stub<typeof RequestService>;
  readonly tasks: Stub<typeof TaskService>;
  readonly history: Stub<typeof HistoryService>;
  readonly hosts: Stub<typeof HostService>;
  readonly watches: Stub<typeof WatchService>;
  readonly access: Stub<typeof AccessService>;
  readonly audit: Stub<typeof AuditService>;
  readonly #settings: Settings;
  readonly #calls: Calls;
  readonly #over = new AbortController();
  #inbox: Subscription | undefined;

  /** See `connect` and `join`. */
  constructor(settings: Settings) {
    super();
    this.#calls = new Calls(settings);
    this.#settings = settings;
    const transport = settings.route.transport([this.#calls.intercept]);
    this.messages = createClient(MessageService, transport);
    this.teams = createClient(TeamService, transport);
    this.requests = createClient(RequestService, transport);
    this.tasks = createClient(TaskService, transport);
    this.history = createClient(HistoryService, transport);
    this.hosts = createClient(HostService, transport);
    this.watches = createClient(WatchService, transport);
    this.access = createClient(AccessService, transport);
    this.audit = createClient(AuditService, transport);
  }

  /** The credential. A secret. */
  get credential(): string {
    return this.#settings.credential;
  }

  /** The caller's name. Empty if the credential is not a member's. */
  get name(): string {
    const [kind, , name = ""] = this.credential.split(":");
    return kind === "twm" ? name : "";
  }

  /** The caller's team. Empty for an operator that has chosen none. */
  get team(): string {
    const parts = this.credential.split(":");
    return this.#settings.team || (parts.length === 4 ? (parts[1] ?? "") : "");
  }

  /** Aborted when the client is closed. */
  get signal(): AbortSignal {
    return this.#over.signal;
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

  /** Waits until a request is decided and returns it; after this time in milliseconds returns it still pending. */
  async waitDecision(requestId: string, timeoutMs = Number.POSITIVE_INFINITY, signal?: AbortSignal): Promise<Request> {
    const until = performance.now() + timeoutMs;
    const delays = new Delays();
    const { maxMs } = given(WAITS.get("WaitForDecision"));
    for (;;) {
      const asked = { requestId, timeout: durationFromMs(maxMs) };
      // A coordinator that does not answer must not make the wait longer.
      const contextValues = createContextValues().set(UNTIL, until);
      const { request } = await this.requests.waitForDecision(asked, { contextValues, signal });
      if (given(request).state !== RequestState.PENDING || performance.now() >= until) return given(request);
      // A draining coordinator may answer early.
      await this.#calls.changes.until(() => this.#calls.isClosed, delays.next(), signal);
    }
  }

  /**
   * Ends the caller's life as a member, with the exit code of its process. Call it last. First waits briefly for
   * unconfirmed acknowledgements.
   */
  async leave(code = 0): Promise<void> {
    await this.#flush();
    await this.teams.leave({ exit: { code } });
  }

  /** Creates a team as an operator. Returns the client of its lead, whose name defaults to `lead`. */
  async createTeam(name: string, lead = ""): Promise<Client> {
    const { credential } = await this.teams.createTeam({ name, leadName: lead });
    return new Client({ ...this.#settings, credential, team: undefined, route: this.#settings.route.clone() });
  }

  /** Lists all members in the order in which they first joined, including those that have exited. */
  members(): Promise<Member[]> {
    return this.#members();
  }

  async #members(signal?: AbortSignal): Promise<Member[]> {
    const members: Member[] = [];
    for (let pageToken = ""; ; ) {
      const page = await this.teams.listMembers({ pageSize: PAGE_SIZE_MAX, pageToken }, { signal });
      members.push(...page.members);
      pageToken = page.nextPageToken;
      if (pageToken === "") return members;
    }
  }

  /** Lists all hosts in the order in which they first joined, including those that have exited. */
  async allHosts(): Promise<Host[]> {
    const hosts: Host[] = [];
    for (let pageToken = ""; ; ) {
      const page = await this.hosts.listHosts({ pageSize: PAGE_SIZE_MAX, pageToken });
      hosts.push(...page.hosts);
      pageToken = page.nextPageToken;
      if (pageToken === "") return hosts;
    }
  }

  /** Asks a member to shut down. Returns the id of the request, or of the one that is already pending. */
  async requestShutdown(member: string, reason = ""): Promise<string> {
    try {
      return (await this.#send({ case: "shutdownRequest", value: { recipient: member, reason } })).requestId;
    } catch (error) {
      const isPending = error instanceof TeamwireError && error.reason === "SHUTDOWN_PENDING";
      const pending = isPending ? error.facts?.request_id : undefined;
      if (pending === undefined) throw error;
      return pending;
    }
  }

  /**
   * Asks a member to shut down, and waits for its decision and, unless it refuses, its exit. Resolves after this time in
   * milliseconds at the latest. Joins a request that is already pending for the member.
   */
  async shutdown(member: string, reason = "", timeoutMs = SHUTDOWN_MS, signal?: AbortSignal): Promise<Shutdown> {
    const until = performance.now() + timeoutMs;
    const requestId = await this.requestShutdown(member, reason);
    const request = await this.waitDecision(requestId, until - performance.now(), signal);
    const ends = request.state === RequestState.APPROVED || request.state === RequestState.CANCELLED;
    return { request, exit: ends ? await this.#exit(request, until, signal) : undefined };
  }

  /** Waits until the life of the member that was asked has ended, and returns how. */
  async #exit(request: Request, until: number, signal?: AbortSignal): Promise<ExitReport | undefined> {
    const name = request.member.toLowerCase();
    // A coordinator that does not answer must not make the wait longer.
    const leftMs = Math.ceil(Math.min(Math.max(until - performance.now(), 0), TIMER_MS_MAX));
    const over = AbortSignal.timeout(leftMs);
    const ends = AbortSignal.any(signal ? [signal, over] : [over]);
    try {
      for (let delayMs = EXIT_DELAY_MS; ; delayMs = Math.min(2 * delayMs, EXIT_DELAY_MS_MAX)) {
        const members = await this.#members(ends);
        const member = members.find(
          (one) => one.name.toLowerCase() === name && one.incarnation === request.incarnation,
        );
        const hasEnded = member?.state === MemberState.EXITED || member?.state === MemberState.LOST;
        if (member === undefined || hasEnded) return hasEnded ? member?.exit : undefined;
        await this.#calls.changes.until(() => this.#calls.isClosed, delayMs, ends);
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (over.aborted) return undefined;
      throw error;
    }
  }

  /** Ends the subscription, all calls and the connection. First waits briefly for unconfirmed acknowledgements. */
  async close(): Promise<void> {
    await this.#flush();
    this.#inbox?.close();
    this.#calls.isClosed = true;
    this.#over.abort();
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
