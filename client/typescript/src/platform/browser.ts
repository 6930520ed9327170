/** What is different in browsers: gRPC-web over fetch, no environment, and TLS is the browser's own business. */

import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { type Joining, parseAddresses } from "../address.js";
import { ADDRESS_DEFAULT, type ClientOptions, type Route, type Settings } from "../settings.js";

export async function settings(options: ClientOptions, joining?: Joining): Promise<Settings> {
  const credential = joining?.token ?? options.credential;
  if (!credential) throw new Error("There is no credential: give one, or join.");
  if (options.tls ?? joining?.fingerprint) {
    throw new Error(
      "A browser chooses itself whom it trusts. Leave out `tls`, and the fingerprint of the join string.",
    );
  }
  const addresses = parseAddresses(options.address ?? joining?.address ?? ADDRESS_DEFAULT);
  const [baseUrl] = addresses;
  const route: Route = {
    // Many clients spread themselves.
    turn: Math.floor(Math.random() * addresses.length),
    transport: (interceptors) =>
      createGrpcWebTransport({
        baseUrl,
        interceptors,
        fetch: (url, init) => fetch(`${addresses[route.turn % addresses.length]}${new URL(`${url}`).pathname}`, init),
      }),
    close: () => {},
  };
  return { ...options, credential, route };
}
