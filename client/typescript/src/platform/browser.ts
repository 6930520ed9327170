/** What is different in browsers: gRPC-web over fetch, no environment, and TLS is the browser's own business. */

import { createGrpcWebTransport } from "@connectrpc/connect-web";
import type { Joining } from "../address.js";
import { ADDRESS_DEFAULT, type ClientOptions, type Settings } from "../settings.js";

export async function settings(options: ClientOptions, joining?: Joining): Promise<Settings> {
  const credential = joining?.token ?? options.credential;
  if (!credential) throw new Error("There is no credential: give one, or join.");
  if (options.tls !== undefined || joining?.fingerprint !== undefined) {
    throw new Error(
      "A browser chooses itself whom it trusts. Leave out `tls`, and the fingerprint of the join string.",
    );
  }
  const dial = async (baseUrl: string) => ({
    transport: createGrpcWebTransport({ baseUrl }),
    ready: async () => {},
    close: () => {},
  });
  return { ...options, address: options.address ?? joining?.address ?? ADDRESS_DEFAULT, credential, dial };
}
