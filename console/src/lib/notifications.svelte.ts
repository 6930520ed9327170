/** Notifications on the desktop, of requests that arrive for the person while the page is hidden. */

import { v1 } from "@teamwire/client";
import { href } from "../route.svelte.js";
import { oneLine, permission } from "./text.js";

class Notifications {
  /** Whether the person has allowed them. Undefined: this browser has none, or not at this address. */
  permission = $state<NotificationPermission | undefined>(
    "Notification" in window ? Notification.permission : undefined,
  );
  #team = "";
  #seen = new Set<string>();

  /** Asks the person, who must have pressed a button for that. */
  async ask(): Promise<void> {
    this.permission = await Notification.requestPermission();
  }

  /** Takes note of the requests that wait for the person in a team. Those that wait when the page opens are no news. */
  see(team: string, requests: readonly v1.Request[]): void {
    const isFirst = team !== this.#team;
    if (isFirst) this.#seen.clear();
    this.#team = team;
    for (const request of requests) {
      if (!isFirst && !this.#seen.has(request.id)) this.#show(team, request);
      this.#seen.add(request.id);
    }
  }

  #show(team: string, request: v1.Request): void {
    const { id, kind, member, summary, requester } = request;
    if (this.permission !== "granted" || document.visibilityState === "visible") return;
    const name = kind === v1.RequestKind.SHUTDOWN ? (requester?.name ?? "") : member;
    const about = kind === v1.RequestKind.PERMISSION ? permission(request, request.content) : summary;
    const asks = { title: `${name} asks you`, body: oneLine(about) || "to shut down" };
    if (kind === v1.RequestKind.REVIEW) asks.body = `to review task #${request.taskId}: ${oneLine(summary)}`;
    try {
      // The tag keeps a second tab from showing it again.
      const shown = new Notification(asks.title, { body: asks.body, tag: id });
      shown.onclick = () => {
        focus();
        location.hash = href("approvals", { team, id });
        shown.close();
      };
    } catch {
      // Some browsers only allow them from a service worker, which the page does not have.
      this.permission = undefined;
    }
  }
}

export const notifications = new Notifications();
