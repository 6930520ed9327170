"""AutoGen's distributed runtime: its host, an agent that receives, and a program that sends to it.

A send is `send_message`, which returns when the agent's handler returns. Nothing is stored.
"""

import asyncio
import sys
from dataclasses import dataclass

import load
from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler, try_get_known_serializers_for_type
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime, GrpcWorkerAgentRuntimeHost


@dataclass
class Text:
    """A message, or the reply to one."""

    content: str


class Inbox(RoutedAgent):
    """Receives messages."""

    def __init__(self, arrivals: load.Arrivals) -> None:
        super().__init__("an inbox")
        self._arrivals = arrivals

    @message_handler
    async def take(self, message: Text, _: MessageContext) -> Text:
        """Counts a message. The runtime requires a reply, so it is empty."""
        self._arrivals.record(message.content)
        return Text("")


async def main() -> None:
    """Plays the role that the command line names (serve, receive or send), at an address."""
    how, address = sys.argv[1:3]
    if how == "serve":
        host = GrpcWorkerAgentRuntimeHost(address)
        host.start()
        await load.forever()
    runtime = GrpcWorkerAgentRuntime(address)
    runtime.add_message_serializer(try_get_known_serializers_for_type(Text))
    await runtime.start()
    if how == "receive":
        arrivals = load.Arrivals()
        await Inbox.register(runtime, "inbox", lambda: Inbox(arrivals))
        await arrivals.report()
    inbox = AgentId("inbox", "one")
    await load.send(lambda: runtime.send_message(Text(load.text()), inbox))
    await runtime.stop()


asyncio.run(main())
