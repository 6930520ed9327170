/** Parses addresses and join strings. No error quotes its input, which may be a secret. */

/** A parsed join string. */
export interface Joining {
  /** The join token. Unchecked in a string without `@`. */
  readonly token: string;
  /** Absent in a bare token. */
  readonly address?: string;
  /**
   * The SHA-256 of a certificate in DER form, as 64 lowercase hexadecimal digits. Absent: trust the usual authorities.
   */
  readonly fingerprint?: string;
}

const ADDRESSES_MAX = 16;

/** The origins of coordinators, or `unix:///PATH` for sockets: all with the same scheme. */
export type Addresses = readonly [string, ...string[]];

/** Parses 1 to 16 addresses, separated by commas, all with the same scheme, and returns their origins. */
export function parseAddresses(text: string): Addresses {
  const parts = text.split(",");
  if (parts.length > ADDRESSES_MAX) throw new Error("There are more than 16 addresses.");
  const [first = "", ...others] = parts.map(parseAddress);
  if (others.some((other) => scheme(other) !== scheme(first))) {
    throw new Error("The addresses mix http, https and unix. Use one of them for all.");
  }
  return [first, ...others];
}

/** Returns whether an origin uses TLS. */
export function isTls(origin: string): boolean {
  return origin.startsWith("https:");
}

/** Returns the path of a socket. Absent: the origin is no socket. */
export function socketPath(origin: string): string | undefined {
  return origin.startsWith("unix:") ? decodeURIComponent(origin.slice("unix://".length)) : undefined;
}

/** Returns whether any program on this machine could listen at an origin. */
export function isUnproven(origin: string): boolean {
  return origin.startsWith("http:") && /^(?:.*\.)?localhost$|^127\.|^\[::1\]$/.test(new URL(origin).hostname);
}

function scheme(origin: string): string {
  return origin.slice(0, origin.indexOf(":"));
}

function parseAddress(text: string): string {
  const path = /^\s*unix:\/\/(\/(?:[^\s%,@+?#]|%[\da-f]{2})+)\s*$/i.exec(text)?.[1];
  if (path !== undefined && !path.endsWith("/") && isPath(path)) return `unix://${path}`;
  const full = text.includes("://") ? text.trim() : `http://${text.trim()}`;
  const isAddress = /^https?:\/\/(\[[\da-f:.]+\]|[\w.-]+)(:\d+)?\/?$/i.test(full) && URL.canParse(full);
  if (!isAddress || new URL(full).port === "0") {
    throw new Error(
      "The address is malformed. Write https://HOST:PORT, http://HOST:PORT or unix:///PATH, or several separated by commas.",
    );
  }
  return new URL(full).origin;
}

/** Returns whether an encoded path can be one of a file. */
function isPath(encoded: string): boolean {
  try {
    return !decodeURIComponent(encoded).includes("\0");
  } catch {
    return false;
  }
}

/** Parses a fingerprint, with or without the prefix `sha256:`. */
export function parseFingerprint(text: string): string {
  const digits = /^(?:sha256:)?([\da-f]{64})$/i.exec(text)?.[1];
  if (digits === undefined)
    throw new Error("The fingerprint is malformed. Write `sha256:` followed by 64 hexadecimal digits.");
  return digits.toLowerCase();
}

/** Parses a join string. One without `@` is a bare token. */
export function parseJoinString(text: string): Joining {
  const [, token = "", place] = /^([^@]*)(?:@(.*))?$/s.exec(text.trim()) ?? [];
  if (place === undefined) return { token };
  try {
    const [, list = "", fingerprint] = /^([^+]*)(?:\+(.*))?$/s.exec(place) ?? [];
    const addresses = parseAddresses(list);
    if (!token.startsWith("twj:")) throw new Error("It does not start with a join token.");
    if (fingerprint === undefined) return { token, address: addresses.join() };
    if (!isTls(addresses[0])) throw new Error("It has a fingerprint but no https address.");
    return { token, address: addresses.join(), fingerprint: parseFingerprint(fingerprint) };
  } catch (error) {
    const detail = error instanceof Error ? error.message : "";
    throw new Error(
      `The join string is malformed. ${detail} Paste all of it, exactly as \`teamwire invite\` printed it.`,
    );
  }
}
