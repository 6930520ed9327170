// A minimal lead: invites a teammate, sends it a message, waits for the reply, and shuts it down.
//
//     teamwire team create acme
//     node examples/lead.js NAME

import { setTimeout } from "node:timers/promises";
import { connect } from "@teamwire/client";

const name = process.argv[2] ?? "backend";
const client = await connect();
console.log(`I am ${client.name} of ${client.team}. Join with:\n${(await client.invite(name)).joinString}`);
const inbox = client.subscribe();
while (!(await client.members()).some((member) => member.name === name)) await setTimeout(1_000);

const { messageId } = await client.send(name, "a question", "What is the answer?");
for await (const message of inbox) {
  message.ack();
  if (message.inReplyTo !== messageId || message.body.case !== "message") continue;
  console.log(`${name} replied: ${message.body.value.content}`);
  break;
}

const { request, exit } = await client.shutdown(name, "Thank you.", 600_000);
console.log(
  exit ? `${name} exited with code ${exit.code}.` : `${name} has not exited: ${request.reason || "no answer"}`,
);
await client.close();
