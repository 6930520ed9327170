/** Resolves a client's options from the environment and the context file that `teamwire join` writes. */

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Joining } from "../address.js";
import { ADDRESS_DEFAULT, type ClientOptions, type TlsOptions } from "../settings.js";

type Variables = Readonly<Record<string, string | undefined>>;

/** An identity of the context file. */
interface Identity {
  readonly team: string;
  readonly member: string;
  readonly address: string;
  readonly credential: string;
  readonly tls?: TlsOptions;
}

/** Resolves the options. Precedence, highest to lowest: options, join string, environment, context file. */
export async function identify(options: ClientOptions, joining: Joining | undefined, variables: Variables) {
  // An empty variable counts as unset.
  const variable = (name: string) => variables[name] || undefined;
  const tls = { ca: variable("TEAMWIRE_CA"), cert: variable("TEAMWIRE_CERT"), key: variable("TEAMWIRE_KEY") };
  const environment = { address: variable("TEAMWIRE_ADDRESS"), tls };
  const joined = { address: joining?.address, tls: { fingerprint: joining?.fingerprint } };
  // The environment may belong to another member than the one that joins.
  const team = options.team ?? (joining ? undefined : variable("TEAMWIRE_TEAM"));
  const credential = joining?.token ?? options.credential ?? variable("TEAMWIRE_CREDENTIAL");
  const kept = credential ? undefined : await readIdentity(variable, team);

  const places: ClientOptions[] = [options, joined, environment, kept ?? {}];
  const trust = places.find(({ tls }) => tls?.ca || tls?.fingerprint)?.tls;
  const shown = places.find(({ tls }) => tls?.cert || tls?.key)?.tls;
  return {
    address: places.find(({ address }) => address)?.address ?? ADDRESS_DEFAULT,
    credential: credential ?? kept?.credential ?? "",
    team,
    patienceMs: options.patienceMs,
    tls: { ca: trust?.ca, fingerprint: trust?.fingerprint, cert: shown?.cert, key: shown?.key } satisfies TlsOptions,
  };
}

async function readIdentity(variable: (name: string) => string | undefined, team?: string): Promise<Identity> {
  const config = variable("XDG_CONFIG_HOME") ?? join(homedir(), ".config");
  const path = variable("TEAMWIRE_CONTEXT") ?? join(config, "teamwire", "context.json");
  try {
    return chooseIdentity(await readFile(path, "utf8"), variable("TEAMWIRE_AS"), team);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const detail = code === undefined ? message : `Cannot read it: ${code}. Join a team with \`teamwire join\`.`;
    throw new Error(
      `TEAMWIRE_CREDENTIAL is not set, and there is no usable identity in the context file ${path}. ${detail}`,
    );
  }
}

/** Selects the named identity, else the current one, else the only one of the team. Never guesses. */
export function chooseIdentity(text: string, named?: string, team?: string): Identity {
  const { current, identities } = parseContext(text);
  const isSame = (one: string, other?: string | null) => one.toLowerCase() === other?.toLowerCase();
  const there = identities.filter((identity) => team === undefined || isSame(identity.team, team));
  const find = (who?: string | null) =>
    there.find(({ member, team }) => isSame(member, who) || isSame(`${member}@${team}`, who));
  const only = there.length === 1 ? there[0] : undefined;
  const chosen = named === undefined ? (find(current) ?? only) : find(named);
  if (chosen !== undefined) return chosen;
  const names = there.map(({ member, team }) => `${member}@${team}`).join(", ") || "none";
  throw new Error(`Cannot select an identity; there are: ${names}. Set TEAMWIRE_AS to one of them.`);
}

function parseContext(text: string): { current?: string | null; identities: Identity[] } {
  const isText = (value: unknown) => typeof value === "string";
  try {
    const { current, identities = [] } = JSON.parse(text);
    for (const { team, member, address, credential, tls } of identities) {
      if (![team, member, address, credential, ...Object.values(tls ?? {})].every(isText)) throw new TypeError();
    }
    if (isText(current ?? "")) return { current, identities };
  } catch {
    // The thrown error quotes the text, with its secrets.
  }
  throw new Error("It is not a valid context file. Fix it or delete it.");
}
