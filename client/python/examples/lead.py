"""A minimal lead: invites a teammate, sends it a message, waits for the reply, and shuts it down.

teamwire team create acme
python examples/lead.py NAME
"""

import sys
import time

import teamwire

name = (*sys.argv[1:], "backend")[0]
with teamwire.Client() as me:
    print(f"I am {me.name} of {me.team}. Join with:\n{me.invite(name).join_string}")
    inbox = me.subscribe()
    while name not in [member.name for member in me.members()]:
        time.sleep(1)

    question = me.send(name, "a question", "What is the answer?")
    for message in inbox:
        message.ack()
        if message.proto.in_reply_to == question.message_id:
            print(f"{name} replied: {message.content}")
            break

    ended = me.shutdown(name, "Thank you.", timeout=600)
    if ended.exit:
        print(f"{name} exited with code {ended.exit.code}.")
    else:
        print(f"{name} has not exited: {ended.request.reason or 'no answer'}")
