"""AGNTCY's SLIM: a node, an app that receives, and one that sends to it in a session.

A send is `publish_and_wait`, which returns when the receiving app has confirmed the message. Nothing is stored.
"""

import asyncio
import sys

import load
import slim_bindings as slim

# Both apps present it. Any text of sufficient length will do.
SECRET = "a secret of the benchmark that is shared"  # noqa: S105


async def connect(name: str, address: str) -> tuple[slim.App, int]:
    """Connects an app to the node."""
    service = slim.get_global_service()
    # Synchronous: the coroutine needs a runtime that it does not have.
    app = service.create_app_with_secret(slim.Name("bench", "teams", name), SECRET)
    connection = await service.connect_async(slim.new_insecure_client_config(f"http://{address}"))
    await app.subscribe_async(app.name(), connection)
    return app, connection


async def main() -> None:
    """Plays the role that the command line names (serve, receive or send), at an address."""
    how, address = sys.argv[1:3]
    slim.uniffi_set_event_loop(asyncio.get_running_loop())
    slim.initialize_with_defaults()
    if how == "serve":
        await slim.get_global_service().run_server_async(slim.new_insecure_server_config(address))
        await load.forever()
    app, connection = await connect("inbox" if how == "receive" else "sender", address)
    if how == "receive":
        arrivals = load.Arrivals()
        telling = asyncio.create_task(arrivals.report())
        session = await app.listen_for_session_async(None)
        while not telling.done():
            arrivals.record((await session.get_message_async(None)).payload.decode())
    inbox = slim.Name("bench", "teams", "inbox")
    await app.set_route_async(inbox, connection)
    config = slim.SessionConfig(
        session_type=slim.SessionType.POINT_TO_POINT, max_retries=5, interval=None, metadata={}, mls_settings=None
    )
    session = await app.create_session_and_wait_async(config, inbox)
    await load.send(lambda: session.publish_and_wait_async(load.text().encode(), None, None))


asyncio.run(main())
