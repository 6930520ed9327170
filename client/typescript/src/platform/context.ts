/** Who calls and where: out of the environment, and out of the context file that `teamwire join` writes. */

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Joining } from "../address.js";
import { ADDRESS_DEFAULT, type ClientOptions, type TlsOptions } from "../settings.js";

type Variables = Readonly<Record<string, string | undefined>>;

/** Who one is in one team, as the context file keeps it. */
interface Identity {
  readonly team: string;
  readonly member: string;
  readonly address: string;
  readonly credential: string;
  readonly tls?: TlsOptions;
}

/** Finds out who calls and where. What the program gives goes first, then the join string, the environment, the file. */
export async function identify(options: ClientOptions, joining: Joining | undefined, variables: Variables) {
  // A variable that is empty is one that is not set.
  const variable = (name: string) => variables[name] || undefined;
  const tls = { ca: variable("TEAMWIRE_CA"), cert: variable("TEAMWIRE_CERT"), key: variable("TEAMWIRE_KEY") };
  const environment = { address: variable("TEAMWIRE_ADDRESS"), tls };
  const joined = { address: joining?.address, tls: { fingerprint: joining?.fingerprint } };
  // The environment may be that of another member than the one who joins.
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
    const detail = code === undefined ? message : `It cannot be read: ${code}. Join with \`teamwire join\`.`;
    throw new Error(`There is no TEAMWIRE_CREDENTIAL, and no identity in the context file ${path}. ${detail}`);
  }
}

/** Chooses the identity that is named, or is current, or is the only one of the team. Never a guess. */
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
  throw new Error(`No identity is chosen; there are: ${names}. Set TEAMWIRE_AS to one of them.`);
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
    // What is thrown quotes the text, secrets and all.
  }
  throw new Error("It is no context file: mend it, or move it away.");
}
