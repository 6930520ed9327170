"""A teammate in a few lines: answers every message, and ends when it is asked to.

    teamwire run backend -- python3 examples/echo.py
"""

import json
import sys

for line in sys.stdin:
    said = json.loads(line)
    if said["type"] == "message":
        answer = {
            "to": said["from"],
            "message": f"You said: {said['content']}",
            "summary": "an echo",
            "in_reply_to": said["id"],
        }
        print(json.dumps(answer), flush=True)
    elif said["type"] == "shutdown_request":
        answer = {"type": "shutdown_response", "request_id": said["request_id"], "approve": True}
        print(json.dumps(answer), flush=True)
    elif "id" in said:
        print(json.dumps({"ack": said["id"]}), flush=True)
