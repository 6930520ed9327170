"""A lead that orders a teammate from a host, waits for its start, and shuts it down after its first message.

teamwire team create acme
teamwire host --join "$(teamwire invite --host)"  # on a machine that has an agent program
python examples/spawn.py NAME PROFILE
"""

import sys

import teamwire
from teamwire.v1 import request_pb2

name, profile = (*sys.argv[1:3], "backend", "claude")[:2]
with teamwire.Client() as me:
    inbox = me.subscribe()
    order = me.spawn(name, profile, "Send me a message that says which directory you work in.").request
    print(f"{name} was ordered from {order.approver}.")
    order = me.wait_decision(order.id, timeout=600)
    if order.state != request_pb2.REQUEST_STATE_APPROVED:
        sys.exit(f"{name} was not started: {order.reason or request_pb2.RequestState.Name(order.state)}")

    for message in inbox:
        message.ack()
        if message.sender == name:
            print(f"{name} says: {message.content}")
            break

    me.shutdown(name, "Thank you.", timeout=600)
