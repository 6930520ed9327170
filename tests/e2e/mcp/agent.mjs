// Plays an agent program with the official TypeScript client, as agent.py does with the one for Python: reaches a
// member's tools by URL, and calls one for each line that it reads.

import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const headers = { Authorization: `Bearer ${process.env.TEAMWIRE_TOOL_CREDENTIAL}` };

async function connect() {
  const client = new Client({ name: "agent", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2]), { requestInit: { headers } }));
  return client;
}

function print(value) {
  console.log(JSON.stringify(value));
}

let client = await connect();
print({ instructions: client.getInstructions(), tools: (await client.listTools()).tools });
for await (const line of createInterface({ input: process.stdin })) {
  const { tool, arguments: input, key } = JSON.parse(line);
  const _meta = key && { "teamwire/idempotency-key": key };
  for (;;) {
    try {
      const result = await client.callTool({ name: tool, arguments: input, _meta });
      const text = result.content.map((content) => content.text).join("");
      if (key && result.isError && text.startsWith("DRAINING")) throw new Error(text);
      print({ text, is_error: Boolean(result.isError) });
      break;
    } catch (error) {
      // The coordinator has ended. What has a key may be repeated. Nothing tells a client when the next one listens.
      if (!key) throw error;
      await setTimeout(100);
    }
  }
}
await client.close();
