/** TLS in Node. */

import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import * as tls from "node:tls";
import { Code } from "@connectrpc/connect";
import { parseFingerprint } from "../address.js";
import { TeamwireError } from "../error.js";
import type { TlsOptions } from "../settings.js";

/** How long the coordinator may take to present its certificates, in milliseconds. */
const HANDSHAKE_MS = 5_000;

/** Creates the TLS contexts of a client's connections. */
export class Tls {
  readonly #options: TlsOptions;
  readonly #fingerprint: string | undefined;
  /** The certificate with the fingerprint, once a coordinator has presented it. */
  #authority: string | undefined;

  constructor(options: TlsOptions) {
    this.#options = options;
    this.#fingerprint = options.fingerprint && !options.ca ? parseFingerprint(options.fingerprint) : undefined;
  }

  /** Creates the context of a connection. Reads the files each time, so that it picks up renewed certificates. */
  async context(origin: string): Promise<tls.SecureContext> {
    const { ca, ...own } = await this.read();
    if (this.#fingerprint !== undefined) {
      this.#authority ??= await fetchAuthority(origin, this.#fingerprint, tls.createSecureContext(own));
    }
    const authority = ca ?? this.#authority;
    if (authority === undefined) return tls.createSecureContext({ ...own, ca: systemAuthorities() });
    // The given authority need not be a root.
    return tls.createSecureContext({ ...own, ca: authority, allowPartialTrustChain: true });
  }

  /** Reads the files of the options. */
  async read(): Promise<{ ca?: string | undefined; cert?: string | undefined; key?: string | undefined }> {
    const { ca, cert, key } = this.#options;
    const read = { ca: await readPem("ca", ca), cert: await readPem("cert", cert), key: await readPem("key", key) };
    // Node would ignore a text without certificates, and trust no authority.
    if (read.ca !== undefined) parseCertificate(read.ca);
    return read;
  }
}

async function readPem(what: string, given: string | undefined): Promise<string | undefined> {
  if (given === undefined || given.includes("-----BEGIN")) return given;
  try {
    return await readFile(given, "utf8");
  } catch (error) {
    // Omit the path: it may be a truncated key.
    throw new Error(`Cannot read the file of the TLS option \`${what}\`: ${(error as NodeJS.ErrnoException).code}.`);
  }
}

function parseCertificate(text: string): void {
  try {
    new X509Certificate(text);
  } catch {
    throw new Error("The TLS option `ca` contains no PEM certificate.");
  }
}

/** Returns Node's authorities and, with Node 22.15 or newer, the system's. */
function systemAuthorities(): string[] | undefined {
  const { getCACertificates: list } = tls as { getCACertificates?: (which: "default" | "system") => string[] };
  return list && [...list("default"), ...list("system")];
}

/**
 * Connects once, and returns the certificate in the coordinator's chain that has the fingerprint. This proves and sends
 * nothing: the real connections verify that this certificate has issued the coordinator's.
 */
async function fetchAuthority(origin: string, fingerprint: string, secureContext: tls.SecureContext): Promise<string> {
  const { hostname, port } = new URL(origin);
  const host = hostname.replace(/^\[|\]$/g, "");
  const servername = isIP(host) ? "" : host;
  const options = { host, port: Number(port || 443), servername, secureContext, ALPNProtocols: ["h2"] };
  const socket = tls.connect({ ...options, rejectUnauthorized: false });
  try {
    await once(socket, "secureConnect", { signal: AbortSignal.timeout(HANDSHAKE_MS) });
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
    `${origin} does not present the certificate that the join string names. Ask for a new join string; if that does not ` +
      "help, the connection may be intercepted.",
    Code.FailedPrecondition,
    false,
  );
}
