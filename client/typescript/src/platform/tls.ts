/** TLS in Node: whom a client trusts, and what it shows of itself. */

import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import * as tls from "node:tls";
import { Code } from "@connectrpc/connect";
import { parseFingerprint } from "../address.js";
import { TeamwireError } from "../error.js";
import type { TlsOptions } from "../settings.js";

/** How long the coordinator may take to show its certificates, in milliseconds. */
const SHOW_MS = 5_000;

/** Makes what a connection needs, out of options that hold for a client's whole life. */
export class Tls {
  readonly #options: TlsOptions;
  readonly #fingerprint: string | undefined;
  /** The certificate that the fingerprint stands for, once a coordinator has shown it. */
  #authority: string | undefined;

  constructor(options: TlsOptions) {
    this.#options = options;
    this.#fingerprint = options.fingerprint && !options.ca ? parseFingerprint(options.fingerprint) : undefined;
  }

  /** Makes the context of a connection. Files are read each time, so that renewed certificates are found. */
  async context(origin: string): Promise<tls.SecureContext> {
    const { ca, ...own } = await this.read();
    if (this.#fingerprint !== undefined) {
      this.#authority ??= await fetchAuthority(origin, this.#fingerprint, tls.createSecureContext(own));
    }
    const authority = ca ?? this.#authority;
    if (authority === undefined) return tls.createSecureContext({ ...own, ca: systemAuthorities() });
    // Whoever is named as an authority need not be a root.
    return tls.createSecureContext({ ...own, ca: authority, allowPartialTrustChain: true });
  }

  /** Reads what the options name. */
  async read(): Promise<{ ca?: string | undefined; cert?: string | undefined; key?: string | undefined }> {
    const { ca, cert, key } = this.#options;
    const read = { ca: await readPem("ca", ca), cert: await readPem("cert", cert), key: await readPem("key", key) };
    // Node would pass over a text without certificates, and trust nobody.
    if (read.ca !== undefined) parseCertificate(read.ca);
    return read;
  }
}

async function readPem(what: string, given: string | undefined): Promise<string | undefined> {
  if (given === undefined || given.includes("-----BEGIN")) return given;
  try {
    return await readFile(given, "utf8");
  } catch (error) {
    // Without what was given: it may be a key that was cut.
    throw new Error(`The file of the TLS option \`${what}\` cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  }
}

function parseCertificate(text: string): void {
  try {
    new X509Certificate(text);
  } catch {
    throw new Error("The TLS option `ca` holds no certificate in PEM.");
  }
}

/** Returns Node's own authorities and, where Node can read them (22.15 and newer), those of the system. */
function systemAuthorities(): string[] | undefined {
  const { getCACertificates: list } = tls as { getCACertificates?: (which: "default" | "system") => string[] };
  return list && [...list("default"), ...list("system")];
}

/**
 * Connects once, and returns the certificate of the coordinator's chain that has the fingerprint. Nothing is proved by
 * that, and nothing is sent: the real connections prove that the coordinator's certificate comes from this one.
 */
async function fetchAuthority(origin: string, fingerprint: string, secureContext: tls.SecureContext): Promise<string> {
  const { hostname, port } = new URL(origin);
  const host = hostname.replace(/^\[|\]$/g, "");
  const servername = isIP(host) ? "" : host;
  const options = { host, port: Number(port || 443), servername, secureContext, ALPNProtocols: ["h2"] };
  const socket = tls.connect({ ...options, rejectUnauthorized: false });
  try {
    await once(socket, "secureConnect", { signal: AbortSignal.timeout(SHOW_MS) });
    const seen = new Set<string>();
    let certificate = socket.getPeerCertificate(true);
    // A root is its own issuer.
    while (certificate?.raw !== undefined && !seen.has(certificate.fingerprint256)) {
      if (certificate.fingerprint256.replaceAll(":", "").toLowerCase() === fingerprint) {
        return new X509Certificate(certificate.raw).toString();
      }
      seen.add(certificate.fingerprint256);
      certificate = certificate.issuerCertificate;
    }
  } finally {
    socket.destroy();
  }
  throw new TeamwireError(
    `${origin} does not show the certificate that the join string is for. Ask for a new join string; if that does not ` +
      "help, somebody may be in between.",
    Code.FailedPrecondition,
    false,
  );
}
