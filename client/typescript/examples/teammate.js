// A minimal teammate: echoes every message, and exits when its shutdown is approved.
//
//     TEAMWIRE_JOIN=JOIN_STRING node examples/teammate.js NAME

import { connect, join } from "@teamwire/client";

const { TEAMWIRE_JOIN: joinString, TEAMWIRE_NAME: name = process.argv[2] } = process.env;
const client = joinString ? await join(joinString, name) : await connect();
const inbox = client.subscribe();

for await (const message of inbox) {
  if (message.body.case === "message")
    await client.reply(message, "an echo", `You said: ${message.body.value.content}`);
  if (message.body.case === "shutdownRequest") await client.approveShutdown(message.requestId);
  message.ack();
}

if (inbox.end?.reason === "shutdown_approved") await client.leave();
await client.close();
