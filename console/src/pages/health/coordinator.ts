/** The health of the coordinator: the standard gRPC health check, over gRPC-web. */

/** What the coordinator says about a health service. */
export type Serving = "yes" | "no" | "unknown";

/** Asks whether the store takes writes. The answer is unknown if the call cannot be made. */
export async function takesWrites(origin: string, signal: AbortSignal): Promise<Serving> {
  // A frame of five bytes, then HealthCheckRequest.service: field 1, a text of six bytes.
  const body = new Uint8Array([0, 0, 0, 0, 8, 0x0a, 6, ...new TextEncoder().encode("writes")]);
  const headers = { "content-type": "application/grpc-web+proto", "x-grpc-web": "1" };
  try {
    const response = await fetch(`${origin}/grpc.health.v1.Health/Check`, { method: "POST", headers, body, signal });
    const isAnswer = response.ok && response.headers.get("content-type")?.startsWith("application/grpc-web");
    const reply = new Uint8Array(await response.arrayBuffer());
    // The reply's frame has HealthCheckResponse.status: field 1, 1 for SERVING and 2 for NOT_SERVING.
    if (!isAnswer || reply[0] !== 0 || reply[5] !== 0x08) return "unknown";
    return reply[6] === 1 ? "yes" : reply[6] === 2 ? "no" : "unknown";
  } catch {
    return "unknown";
  }
}
