"""A minimal teammate: replies to every message and approves its own shutdown.

    teamwire run backend -- python3 examples/echo.py

The runner writes one JSON object per line to standard input and reads the replies from standard output. A reply
acknowledges the message it answers; other messages, such as notices, need an explicit {"ack": ID}.
"""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "message":
        reply = {
            "to": message["from"],
            "message": f"You said: {message['content']}",
            "summary": "an echo",
            "in_reply_to": message["id"],
        }
        print(json.dumps(reply), flush=True)
    elif message["type"] == "shutdown_request":
        reply = {"type": "shutdown_response", "request_id": message["request_id"], "approve": True}
        print(json.dumps(reply), flush=True)
    elif "id" in message:
        print(json.dumps({"ack": message["id"]}), flush=True)
