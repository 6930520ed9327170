/** What the person is writing. It survives going to another page. */

import type { v1 } from "@teamwire/client";
import { senderName } from "../../lib/sentences.js";
import { team } from "../../team.svelte.js";

/** The recipient that means all members. No member can have this name. */
export const EVERYONE = "*";

/** How long a derived summary is, in characters. The coordinator accepts 200. */
const SUMMARY_CHARS = 120;

class Draft {
  isOpen = $state(false);
  to = $state("");
  text = $state("");
  summary = $state("");
  /** URIs, one per line. */
  attachments = $state("");
  /** The message that this one answers. */
  replyTo = $state.raw<v1.Message>();
  #of = "";
  #sent = "";
  #key = "";

  /** Begins a message, or goes on with the one that was begun. */
  open(): void {
    this.isOpen = true;
  }

  /** Forgets what another person has written, or for another team. `of`: who writes, and for which team. */
  use(of: string): void {
    if (this.#of && this.#of !== of) this.clear();
    this.#of = of;
  }

  /** Begins a reply. What is already written stays. */
  reply(message: v1.Message, self: string): void {
    const sender = message.sender && team.members.has(message.sender.name) ? senderName(message.sender) : "";
    // Who answers its own message writes to the same member once more.
    this.to = sender && sender !== self ? sender : (message.recipients.find((name) => name !== self) ?? this.to);
    this.replyTo = message;
    this.isOpen = true;
  }

  clear(): void {
    this.text = this.summary = this.attachments = "";
    this.replyTo = undefined;
  }

  get links(): string[] {
    return this.attachments.split(/\s+/).filter(Boolean);
  }

  /** Returns the idempotency key of what is written: the same one if it is sent again unchanged. */
  key(): string {
    const content = JSON.stringify([this.to, this.text, this.summary, this.attachments, this.replyTo?.id]);
    if (content !== this.#sent || !this.#key) {
      this.#sent = content;
      // Unlike randomUUID, this also exists on pages that are not encrypted.
      this.#key = [...crypto.getRandomValues(new Uint8Array(16))]
        .map((byte) => byte.toString(16).padStart(2, "0"))
        .join("");
    }
    return this.#key;
  }

  /** The next message is another one, even if it says the same. */
  wasSent(): void {
    this.#key = "";
    this.clear();
  }
}

/** Returns the summary of a text: its first line that shows something. */
export function firstLine(text: string): string {
  const lines = text.split("\n").map((line) =>
    line
      .replace(/\p{C}+/gu, " ")
      .replace(/^[\s#>*-]+/, "")
      .trim(),
  );
  const chars = [...(lines.find(Boolean) ?? "Message")];
  return chars.length > SUMMARY_CHARS ? `${chars.slice(0, SUMMARY_CHARS - 1).join("")}…` : chars.join("");
}

/** The one message that is being written. */
export const draft = new Draft();
