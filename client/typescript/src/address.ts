/** Where coordinators are, and what a join string says of them. No error repeats what it was given: it may be a secret. */

/** What a join string says. */
export interface Joining {
  /** A join token, or whatever stood there without an `@`. */
  readonly token: string;
  /** Left out: not said. */
  readonly address?: string;
  /** The SHA-256 of a certificate in DER, as 64 hexadecimal digits in lower case. Left out: the usual authorities. */
  readonly fingerprint?: string;
}

const ADDRESSES_MAX = 16;

/** The origins of coordinators: all with TLS, or all without. */
export type Addresses = readonly [string, ...string[]];

/** Reads addresses with commas between them, 1 to 16, all with TLS or all without, and returns their origins. */
export function parseAddresses(text: string): Addresses {
  const parts = text.split(",");
  if (parts.length > ADDRESSES_MAX) throw new Error("There are more than 16 addresses.");
  const [first = "", ...others] = parts.map(parseAddress);
  if (others.some((other) => isTls(other) !== isTls(first))) {
    throw new Error("The addresses mix http and https. Give all with TLS, or all without.");
  }
  return [first, ...others];
}

/** Returns whether an origin is one with TLS. */
export function isTls(origin: string): boolean {
  return origin.startsWith("https:");
}

function parseAddress(text: string): string {
  const full = text.includes("://") ? text.trim() : `http://${text.trim()}`;
  const isAddress = /^https?:\/\/(\[[\da-f:.]+\]|[\w.-]+)(:\d+)?\/?$/i.test(full) && URL.canParse(full);
  if (!isAddress || new URL(full).port === "0") {
    throw new Error(
      "The address is malformed. Give http://HOST:PORT or https://HOST:PORT, or several with commas between.",
    );
  }
  return new URL(full).origin;
}

/** Reads a fingerprint, with `sha256:` before it or without. */
export function parseFingerprint(text: string): string {
  const digits = /^(?:sha256:)?([\da-f]{64})$/i.exec(text)?.[1];
  if (digits === undefined) throw new Error("The fingerprint is malformed: it is `sha256:` and 64 hexadecimal digits.");
  return digits.toLowerCase();
}

/** Takes a join string apart. One without an `@` is a bare token. */
export function parseJoinString(text: string): Joining {
  const [, token = "", place] = /^([^@]*)(?:@(.*))?$/s.exec(text.trim()) ?? [];
  if (place === undefined) return { token };
  try {
    const [, list = "", fingerprint] = /^([^+]*)(?:\+(.*))?$/s.exec(place) ?? [];
    const addresses = parseAddresses(list);
    if (!token.startsWith("twj:")) throw new Error("It does not begin with a join token.");
    if (fingerprint === undefined) return { token, address: addresses.join() };
    if (!isTls(addresses[0])) throw new Error("It has a fingerprint and no https address.");
    return { token, address: addresses.join(), fingerprint: parseFingerprint(fingerprint) };
  } catch (error) {
    const detail = error instanceof Error ? error.message : "";
    throw new Error(
      `The join string is malformed. ${detail} Paste it as \`teamwire invite\` printed it, the whole of it.`,
    );
  }
}
