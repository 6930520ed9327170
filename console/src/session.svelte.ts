/** Who is signed in: the credential, and the client that uses it. */

import { connect, TeamwireError, type Client } from "@teamwire/client";
import { words } from "./lib/errors.js";

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
}

/** Where the credential survives a reload of the tab. It is gone with the tab. */
const KEY = "teamwire.credential";

/** The code that the address carried. */
let code = "";

/** Takes the code out of the address, if it has one, so that neither the address bar nor the browser's history keeps it. */
export function takeCode(): void {
  const found = /^#code=(.+)$/.exec(location.hash);
  if (!found?.[1]) return;
  code = decodeURIComponent(found[1]);
  history.replaceState(undefined, "", location.pathname);
}

class Session {
  /** Undefined: no one is signed in. */
  client = $state.raw<Client>();
  caller = $state.raw<Caller>();
  /** The page is asking the coordinator who the caller is. */
  isSigningIn = $state(true);
  /** Why no one is signed in, for the person. Empty: there is no reason to tell. */
  problem = $state("");

  /** Signs in with the code of the address, or with the credential that this tab has. */
  async start(): Promise<void> {
    const kept = sessionStorage.getItem(KEY);
    try {
      if (code) await this.signIn(code);
      else if (kept) await this.#use(kept);
    } catch (error) {
      this.#forget(words(error));
    } finally {
      code = "";
      this.isSigningIn = false;
    }
  }

  /** Exchanges a code for a credential. */
  async signIn(text: string): Promise<void> {
    await this.#use(await exchange(text.trim()));
  }

  async #use(credential: string): Promise<void> {
    const client = await connect({ credential, address: location.origin });
    const caller = await whoIs(client, credential);
    sessionStorage.setItem(KEY, credential);
    this.client = client;
    this.caller = caller;
    this.problem = "";
  }

  /** Ends the credential, here and at the coordinator. */
  async signOut(): Promise<void> {
    await this.client?.close();
    this.#forget("");
  }

  /** Forgets the credential if an error says that it is no longer valid. Returns whether it does. */
  hasEnded(error: unknown): boolean {
    const ended = error instanceof TeamwireError && ENDED.has(error.reason ?? "");
    if (ended) this.#forget(words(error));
    return ended;
  }

  #forget(problem: string): void {
    sessionStorage.removeItem(KEY);
    this.client = undefined;
    this.caller = undefined;
    this.problem = problem;
  }
}

/** The reasons after which a credential never becomes valid again. */
const ENDED = new Set([
  "CREDENTIAL_INVALID",
  "CREDENTIAL_EXPIRED",
  "CREDENTIAL_REVOKED",
  "MEMBER_STOPPED",
  "SESSION_SUPERSEDED",
]);

async function exchange(text: string): Promise<string> {
  return text;
}

/** Asks the coordinator what a credential is. */
async function whoIs(client: Client, credential: string): Promise<Caller> {
  const [kind, team = "", member = ""] = credential.split(":");
  if (kind === "two") return { kind: "operator", member: "", isLead: false, team: "", readOnly: false };
  const { team: found } = await client.teams.getTeam({ team });
  const isMember = kind === "twm";
  return {
    kind: isMember ? "member" : "observer",
    member: isMember ? member : "",
    isLead: isMember && found?.lead.toLowerCase() === member.toLowerCase(),
    team,
    readOnly: !isMember,
  };
}

/** The one session of the page. */
export const session = new Session();
