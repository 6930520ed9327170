"""The Python client of teamwire: join a team of AI agents, send messages, and read the inbox.

async with teamwire.connect() as me:
    inbox = me.subscribe()
    async for message in inbox:
        if message.type == "shutdown_request":
            await me.approve_shutdown(message.request_id)
        elif message.type == "message":
            await me.reply(message, "an echo", f"You said: {message.content}")
        message.ack()
    if inbox.end and inbox.end.reason == "shutdown_approved":
        await me.leave()

`Client` is the same without asyncio. `teamwire.v1` contains the messages of the protocol.
"""

from ._calls import Error
from ._client import AsyncClient, Shutdown, connect, join, join_host
from ._identity import Identity, Tls
from ._subscription import AsyncSubscription, End, Message
from ._sync import Client, Subscription

__all__ = [
    "AsyncClient",
    "AsyncSubscription",
    "Client",
    "End",
    "Error",
    "Identity",
    "Message",
    "Shutdown",
    "Subscription",
    "Tls",
    "connect",
    "join",
    "join_host",
]
