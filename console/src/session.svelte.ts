/** Who is signed in: the credential, and the client that uses it. */

import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { connect, TeamwireError, v1, type Client } from "@teamwire/client";
import { words } from "./lib/errors.js";
import { date } from "./lib/format.js";
import { answerTabs, askTabs, tellEnded } from "./tabs.js";

/** What a person is who has signed in. */
export interface Caller {
  readonly kind: "operator" | "member" | "observer";
  /** The member's name. Empty for the operator and observers. */
  readonly member: string;
  readonly isLead: boolean;
  /** The one team that the caller belongs to. Empty for the operator. */
  readonly team: string;
  /** True: the page can only read. */
  readonly readOnly: boolean;
  /** When the sign-in ends. */
  readonly expiresAt: Timestamp | undefined;
  /** Identifies the credential of the sign-in. */
  readonly credentialId: string;
  /** The coordinator's version. */
  readonly serverVersion: string;
}

/** Where the credential survives a reload of the tab. It is gone with the tab; other tabs get it from this one while both are open. */
const KEY = "teamwire.credential";

/** How long to try to reach the coordinator with a code, in milliseconds. The code is valid for 60 s. */
const CODE_PATIENCE_MS = 30_000;

/** The longest delay of a timer, in milliseconds. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** The code that the address carried. */
let code = "";

/**
 * Takes the code out of the address, if it has one, so that neither the address bar nor the browser's history keeps it. Returns
 * whether there was one.
 */
export function takeCode(): boolean {
  const found = /^#code=(.*)$/.exec(location.hash);
  if (found) history.replaceState(undefined, "", location.pathname);
  code = found?.[1] ?? "";
  return code !== "";
}

class Session {
  /** Undefined: no one is signed in. */
  client = $state.raw<Client>();
  caller = $state.raw<Caller>();
  /** The page is asking the coordinator who the caller is. */
  isSigningIn = $state(true);
  /** Why no one is signed in, for the person. Empty: there is no reason to tell. */
  problem = $state("");
  /** The code that is being exchanged, with the key that makes it safe to send it again: a reply may be lost. */
  #exchange = { code: "", idempotencyKey: "" };
  /** How many times `start` was called. */
  #starts = 0;
  #expiry: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    // A team that is shown says when the sign-in ends. Without one, the person learns it on coming back to the page.
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) void this.#check();
    });
    answerTabs(
      () => {
        const credential = sessionStorage.getItem(KEY);
        return credential && this.caller ? { credential, readOnly: this.caller.readOnly } : undefined;
      },
      (credentialId) => credentialId === this.caller?.credentialId && this.end("You signed out in another tab."),
    );
  }

  /** Signs in with the code of the address, with the credential that this tab has, or with that of another tab. */
  async start(): Promise<void> {
    const given = code;
    const kept = sessionStorage.getItem(KEY);
    code = "";
    this.#starts++;
    this.isSigningIn = true;
    try {
      if (given) await this.signIn(given);
      else if (kept) await this.#use(kept);
      else await this.#join();
    } catch (error) {
      const had = sessionStorage.getItem(KEY);
      this.end(words(error));
      // The coordinator has not refused it: it may be valid.
      if (!given && had && !hasReason(error)) {
        sessionStorage.setItem(KEY, had);
        this.problem = "The coordinator does not answer. Reload the page to try again.";
      }
    } finally {
      this.isSigningIn = false;
    }
  }

  /** Exchanges a code for a credential. Also takes the whole address that `teamwire console` opens. */
  async signIn(text: string): Promise<void> {
    const given = text.trim().replace(/^.*#code=/, "");
    if (this.#exchange.code !== given) this.#exchange = { code: given, idempotencyKey: unguessable() };
    const { idempotencyKey } = this.#exchange;
    const client = await connect({ credential: given, address: location.origin, patienceMs: CODE_PATIENCE_MS });
    let credential = "";
    try {
      ({ credential } = await client.access.signIn({ idempotencyKey }));
    } catch (error) {
      if (hasReason(error)) throw error;
      throw new Error("The coordinator does not answer. Try again: the code is valid for one minute.", {
        cause: error,
      });
    } finally {
      await client.close();
    }
    void this.signOut();
    // From here on, a reload of the tab signs in with it.
    sessionStorage.setItem(KEY, credential);
    await this.#use(credential);
    this.#exchange = { code: "", idempotencyKey: "" };
  }

  /** Signs in as another tab is, if there is one. */
  async #join(): Promise<void> {
    const start = this.#starts;
    const shared = await askTabs();
    // Meanwhile, the address may have brought a code.
    if (!shared || start !== this.#starts) return;
    sessionStorage.setItem(KEY, shared.credential);
    await this.#use(shared.credential);
  }

  async #use(credential: string): Promise<void> {
    const client = await connect({ credential, address: location.origin });
    try {
      const { caller } = await client.access.getCaller({});
      this.caller = toCaller(caller);
    } catch (error) {
      await client.close();
      throw error;
    }
    this.client = client;
    this.problem = "";
    this.#awaitExpiry(this.caller.expiresAt);
  }

  /** Asks the coordinator at the time when the sign-in should end: the clock of this machine may be wrong. */
  #awaitExpiry(at: Timestamp | undefined): void {
    const end = date(at)?.getTime();
    if (end === undefined) return;
    const delay = Math.min(Math.max(end - Date.now() + 1_000, 0), TIMER_MS_MAX);
    this.#expiry = setTimeout(() => void this.#check(), delay);
  }

  /** Asks the coordinator whether the sign-in is valid. */
  async #check(): Promise<void> {
    await this.client?.access.getCaller({}).catch((error: unknown) => this.hasEnded(error));
  }

  /** Ends the sign-in, here and at the coordinator. */
  async signOut(): Promise<void> {
    const { client, caller } = this;
    // Whatever the coordinator says, the tab no longer has the credential.
    this.client = undefined;
    this.end("");
    if (!client || !caller) return;
    // The others forget it as well, or they would share it with this tab again.
    if (caller.credentialId) tellEnded(caller.credentialId);
    try {
      if (caller.credentialId) {
        await client.access.revokeCredential({ team: caller.team, id: caller.credentialId });
      }
    } catch (error) {
      if (!isEnded(error)) {
        const why = hasReason(error) ? words(error) : "The coordinator does not answer.";
        this.problem ||= `You are signed out here, but the coordinator still has the sign-in, which ends by itself. ${why}`;
      }
    } finally {
      await client.close();
    }
  }

  /** Forgets the credential if an error says that it is no longer valid. Returns whether it does. */
  hasEnded(error: unknown): boolean {
    const ended = isEnded(error);
    if (ended && this.caller) this.end(words(error));
    return ended;
  }

  /** Forgets the credential, and shows the page for signing in with this reason. */
  end(problem: string): void {
    clearTimeout(this.#expiry);
    sessionStorage.removeItem(KEY);
    void this.client?.close();
    this.client = undefined;
    this.caller = undefined;
    this.problem = problem;
  }
}

/** The reasons after which a credential never becomes valid again. */
const ENDED = new Set(["CREDENTIAL_INVALID", "CREDENTIAL_EXPIRED", "CREDENTIAL_REVOKED"]);

function isEnded(error: unknown): boolean {
  return error instanceof TeamwireError && ENDED.has(error.reason ?? "");
}

/** Returns whether the coordinator has refused, instead of not answering. */
function hasReason(error: unknown): boolean {
  return !(error instanceof TeamwireError) || error.reason !== undefined;
}

function toCaller(caller: v1.Caller | undefined): Caller {
  const kinds: Partial<Record<v1.CallerKind, Caller["kind"]>> = {
    [v1.CallerKind.OPERATOR]: "operator",
    [v1.CallerKind.MEMBER]: "member",
    [v1.CallerKind.OBSERVER]: "observer",
  };
  const kind = caller && kinds[caller.kind];
  if (!kind) throw new Error("This credential is for a program. Sign in with `teamwire console`.");
  const { member, isLead, team, readOnly, expiresAt, credentialId, serverVersion } = caller;
  // An observer only reads, however it has signed in.
  return {
    kind,
    member,
    isLead,
    team,
    readOnly: readOnly || kind === "observer",
    expiresAt,
    credentialId,
    serverVersion,
  };
}

function unguessable(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The one session of the page. */
export const session = new Session();
