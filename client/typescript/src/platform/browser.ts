/** The browser platform: gRPC-web over fetch, without environment or TLS settings. */

import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { type Addresses, type Joining, parseAddresses, socketPath } from "../address.js";
import type { ClientOptions, Route, Settings } from "../settings.js";

export async function settings(options: ClientOptions, joining?: Joining): Promise<Settings> {
  const credential = joining?.token ?? options.credential;
  if (!credential) throw new Error("There is no credential. Pass one to `connect`, or call `join`.");
  if (options.tls ?? joining?.fingerprint) {
    throw new Error("A browser has its own trusted authorities. Omit `tls`, and the fingerprint of the join string.");
  }
  const address = options.address ?? joining?.address;
  if (!address) throw new Error("There is no address. Pass the coordinator's to `connect`.");
  const addresses = parseAddresses(address);
  if (socketPath(addresses[0]) !== undefined)
    throw new Error("A browser cannot use a Unix socket. Use an https address.");
  return { ...options, credential, route: routeTo(addresses) };
}

function routeTo(addresses: Addresses): Route {
  const [baseUrl] = addresses;
  const route: Route = {
    // Spread clients over the addresses.
    turn: Math.floor(Math.random() * addresses.length),
    transport: (interceptors) =>
      createGrpcWebTransport({
        baseUrl,
        interceptors,
        fetch: (url, init) => fetch(`${addresses[route.turn % addresses.length]}${new URL(`${url}`).pathname}`, init),
      }),
    clone: () => routeTo(addresses),
    close: () => {},
  };
  return route;
}
