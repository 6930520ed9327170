// Written by `cargo xtask generate` from client/helpers.toml. Do not edit.
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Client as Stub } from "@connectrpc/connect";
import type { Host, HostOfferSchema, HostService, SpawnResponse, TakeOrderResponse } from "./teamwire/v1/host_pb.js";
import type { ExitReportSchema, MessageService, SendResponse } from "./teamwire/v1/message_pb.js";
import type { Request, RequestService } from "./teamwire/v1/request_pb.js";
import type { InviteResponse, Member, Team, TeamService } from "./teamwire/v1/team_pb.js";

/** The helpers that make one call. */
export abstract class Helpers {
  abstract readonly hosts: Stub<typeof HostService>;
  abstract readonly messages: Stub<typeof MessageService>;
  abstract readonly requests: Stub<typeof RequestService>;
  abstract readonly teams: Stub<typeof TeamService>;

  /** Sends a text to every other member: to all of them, or after an error to none. */
  broadcast(summary: string, content: string): Promise<SendResponse> {
    return this.messages.send({ body: { case: "broadcast", value: { summary, content } } });
  }

  /** Approves the caller's shutdown. Returns once the approval is recorded; the subscription then ends. */
  approveShutdown(requestId: string): Promise<SendResponse> {
    return this.messages.send({ body: { case: "shutdownResponse", value: { requestId, approve: true } } });
  }

  /** Rejects the caller's shutdown. */
  rejectShutdown(requestId: string, reason: string): Promise<SendResponse> {
    return this.messages.send({ body: { case: "shutdownResponse", value: { requestId, reason, approve: false } } });
  }

  /** Asks the lead to approve a plan. Returns the id of the request, for `waitDecision`. */
  async submitPlan(plan: string, summary = ""): Promise<string> {
    return (await this.messages.send({ body: { case: "planApprovalRequest", value: { plan, summary } } })).requestId;
  }

  /** Approves or rejects a member's plan. */
  answerPlan(author: string, requestId: string, approve: boolean, feedback = ""): Promise<SendResponse> {
    return this.messages.send({ body: { case: "planApprovalResponse", value: { recipient: author, requestId, approve, feedback } } });
  }

  /**
   * Asks for permission to use a tool. An empty `approver` means the lead. Returns the id of the request, for
   * `waitDecision`.
   */
  async requestPermission(approver: string, tool: string, summary: string, detail = ""): Promise<string> {
    return (await this.messages.send({ body: { case: "permissionRequest", value: { recipient: approver, tool, summary, detail } } })).requestId;
  }

  /** Approves or rejects another member's permission request. */
  answerPermission(requestId: string, approve: boolean, reason = ""): Promise<SendResponse> {
    return this.messages.send({ body: { case: "permissionResponse", value: { requestId, approve, reason } } });
  }

  /** Approves or rejects the work of another member on a task. With `commit`, only if the review is of that commit. */
  answerReview(requestId: string, approve: boolean, reason = "", commit = ""): Promise<SendResponse> {
    return this.messages.send({ body: { case: "reviewResponse", value: { requestId, approve, reason, commit } } });
  }

  /** Withdraws a permission request of the caller's. Returns the request, unchanged if it was decided before. */
  async withdrawRequest(requestId: string): Promise<Request> {
    return given((await this.requests.withdraw({ requestId })).request);
  }

  /**
   * Creates a join token for this name, or, if it is empty, for any free one. The reply has the `joinString` to
   * pass to `join`, the `joinToken`, and `expiresAt`.
   */
  invite(name = ""): Promise<InviteResponse> {
    return this.teams.invite({ member: name });
  }

  /** Creates a join token for a host of this name, or, if it is empty, of any free one. */
  inviteHost(name = ""): Promise<InviteResponse> {
    return this.teams.invite({ member: name, host: true });
  }

  /**
   * Orders a member from a host. An empty `host` lets the coordinator choose one. The reply has the `member`,
   * which is still spawning, and the order as its `request`: `waitDecision` waits for the start.
   */
  spawn(name: string, profile: string, prompt = "", host = ""): Promise<SpawnResponse> {
    return this.hosts.spawn({ name, profile, prompt, host });
  }

  /** Says what the caller, a host, offers from now on. Returns the host after the change. */
  async updateHost(offer: MessageInitShape<typeof HostOfferSchema>): Promise<Host> {
    return given((await this.hosts.updateHost({ offer })).host);
  }

  /**
   * Takes an order that the caller, a host, has in its inbox. The reply has the order as its `request`, and the
   * `joinToken` of the member to start, a secret. The token of an earlier call is void.
   */
  takeOrder(requestId: string): Promise<TakeOrderResponse> {
    return this.hosts.takeOrder({ requestId });
  }

  /** Refuses an order as a host. Returns the order, which is still pending if another host has it now. */
  async refuseOrder(requestId: string, reason: string, tryAnotherHost = false): Promise<Request> {
    return given((await this.hosts.refuseOrder({ requestId, reason, tryAnotherHost })).request);
  }

  /**
   * Reports that nothing runs anymore of the member that the caller, a host, started for this order. Without
   * `exit`, it is unknown how it ended.
   */
  async reportExit(requestId: string, exit?: MessageInitShape<typeof ExitReportSchema>): Promise<void> {
    await this.hosts.reportExit({ requestId, ...(exit && { exit: exit }) });
  }

  /** Stops a member at once, without asking it. Returns the member after the change. */
  async forceStop(member: string, reason = ""): Promise<Member> {
    return given((await this.teams.forceStop({ member, reason })).member);
  }

  /** Makes another member the lead. Returns the team after the change. Not retried while its outcome is unknown. */
  async handOver(member: string): Promise<Team> {
    return given((await this.teams.setLead({ member })).team);
  }

  /**
   * Deletes a team and everything in it. Refused while a member other than the caller is live. Not retried while
   * its outcome is unknown.
   */
  async deleteTeam(name: string): Promise<void> {
    await this.teams.deleteTeam({ team: name });
  }
}

/** Returns a part of a reply that every coordinator sets. */
export function given<T>(part: T | undefined): T {
  if (part === undefined) throw new Error("The coordinator's reply is incomplete. Report this as a bug.");
  return part;
}
