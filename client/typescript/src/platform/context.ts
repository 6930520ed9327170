/** Resolves a client's options from the environment and the context file that `teamwire join` writes. */

import { readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { isUnproven, type Joining, parseAddresses } from "../address.js";
import type { ClientOptions, TlsOptions } from "../settings.js";

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
  checkWithinRunner(variable, joining?.token ?? options.credential);
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
  const place = places.find(({ address }) => address);
  const address = place?.address ?? defaultAddress(variable);
  if (kept && place === kept && parseAddresses(address).some(isUnproven)) {
    throw new Error(
      `${kept.member}@${kept.team} was saved for ${address}, where any program on this machine can listen, so its credential is ` +
        "not sent there unasked. If the coordinator is there, set TEAMWIRE_ADDRESS.",
    );
  }
  if (joining) refusePlaintext("The join string is", "it", joining.address, address);
  if (kept) refusePlaintext(`${kept.member}@${kept.team} was saved`, "its credential", kept.address, address);
  return {
    address,
    credential: credential ?? kept?.credential ?? "",
    team,
    patienceMs: options.patienceMs,
    tls: { ca: trust?.ca, fingerprint: trust?.fingerprint, cert: shown?.cert, key: shown?.key } satisfies TlsOptions,
  };
}

/** Returns the socket of this user's coordinator, in its state directory. */
function defaultAddress(variable: (name: string) => string | undefined): string {
  const base = variable("XDG_STATE_HOME") ?? join(variable("HOME") ?? homedir(), ".local", "state");
  const directory = variable("TEAMWIRE_STATE_DIR") ?? join(base, "teamwire");
  return `unix://${join(directory, "coordinator.sock").split("/").map(encodeURIComponent).join("/")}`;
}

/** Throws if a secret belongs to an https address and would be sent to an http one. */
function refusePlaintext(whose: string, what: string, secure = "", address: string) {
  if (!/^https:/i.test(secure) || !parseAddresses(address)[0].startsWith("http:")) return;
  throw new Error(
    `${whose} for ${secure}, so ${what} is not sent over http. Write the address with https://, or leave it out ` +
      "(TEAMWIRE_ADDRESS).",
  );
}

/**
 * Throws if a runner started this process and anything selects another identity than the runner's member. This prevents
 * mistakes, such as a program that loses its credential and then acts as the person who started it.
 */
function checkWithinRunner(
  variable: (name: string) => string | undefined,
  credential = variable("TEAMWIRE_CREDENTIAL"),
) {
  if (variable("TEAMWIRE_RUN") === undefined) return;
  const own = variable("TEAMWIRE_CREDENTIAL");
  if (own === undefined) {
    throw new Error(
      "This process runs under `teamwire run`, so it may only act as the runner's member, but TEAMWIRE_CREDENTIAL is not " +
        "set. Run it with the environment that the runner gave to its program.",
    );
  }
  const [kind, team = "", member = "", secret] = own.split(":");
  const [name, of] = (variable("TEAMWIRE_AS") ?? "").split("@");
  const agrees = (selected: string | undefined, own: string) =>
    !selected || selected.toLowerCase() === own.toLowerCase();
  const isOwn = kind === "twm" && secret !== undefined && credential === own;
  const isNamed = agrees(variable("TEAMWIRE_MEMBER"), member) && agrees(name, member);
  if (isOwn && isNamed && agrees(variable("TEAMWIRE_TEAM"), team) && agrees(of, team)) return;
  throw new Error(
    `This process runs under \`teamwire run\` as ${variable("TEAMWIRE_MEMBER") ?? member}, and may act as no other identity. ` +
      "Use no other credential, join string or name (--as, TEAMWIRE_AS), and keep TEAMWIRE_CREDENTIAL as the runner set it.",
  );
}

async function readIdentity(variable: (name: string) => string | undefined, team?: string): Promise<Identity> {
  const config = variable("XDG_CONFIG_HOME") ?? join(homedir(), ".config");
  const path = variable("TEAMWIRE_CONTEXT") ?? join(config, "teamwire", "context.json");
  try {
    await refuseShared(path);
    return chooseIdentity(await readFile(path, "utf8"), variable("TEAMWIRE_AS"), team);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const detail = code === undefined ? message : `Cannot read it: ${code}. Join a team with \`teamwire join\`.`;
    throw new Error(
      `TEAMWIRE_CREDENTIAL is not set, and there is no usable identity in the context file ${path}. ${detail}`,
    );
  }
}

/**
 * Throws if other users can read or change a file, or could have planted it. Root's passes whatever its mode: container
 * platforms mount files so.
 */
async function refuseShared(path: string) {
  const { uid, mode } = await stat(path);
  const me = process.geteuid?.();
  if (me === undefined || (uid === me ? (mode & 0o077) === 0 : uid === 0)) return;
  throw new Error(
    `Other users can access ${path} (mode ${(mode & 0o777).toString(8)}), so it is not trusted. If only you have written ` +
      `there, make it private: chmod 600 ${path}`,
  );
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
