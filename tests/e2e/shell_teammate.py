"""A teammate that runs shell commands in its directory.

It runs what follows `$ ` in a message, and answers with the exit code and the output. It does a task by running its
description. With ON_CONFLICT, it runs that when its work conflicts, with the ref to merge in BASE. It approves its
shutdown. In the commands, `teamwire` acts as the teammate. What it reads is recorded in HEARD, outside its directory.
"""

import json
import os
import re
import subprocess
import sys


def run(script, **variables):
    ended = subprocess.run(
        ["sh", "-c", 'teamwire() { "$TW" "$@"; }\n' + script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **variables},
    )
    return ended.returncode, ended.stdout.decode(errors="replace")


def say(**line):
    print(json.dumps(line), flush=True)


heard = open(os.path.join(os.environ["HEARD"], os.environ["TEAMWIRE_MEMBER"]), "a", buffering=1)
for line in sys.stdin:
    heard.write(line)
    read = json.loads(line)
    kind, content = read["type"], read.get("content", "")
    if kind == "shutdown_request":
        say(type="shutdown_response", request_id=read["request_id"], approve=True)
    elif kind == "task":
        code, output = run(read["description"])
        if code == 0:
            say(complete=read["task_id"], result=output[-1000:])
        else:
            say(release=read["task_id"], reason=f"exit {code}\n{output[-1000:]}")
    elif kind == "message" and content.startswith("$ "):
        code, output = run(content[2:])
        say(to=read["from"], summary=f"exit {code}", message=f"exit {code}\n{output}", in_reply_to=read["id"])
    elif "delivery_count" in read:
        conflict = re.search(r"Run `git merge ([^`]+)`", content)
        if conflict and "ON_CONFLICT" in os.environ:
            code, output = run(os.environ["ON_CONFLICT"], BASE=conflict.group(1))
            heard.write(json.dumps({"type": "resolved", "code": code, "output": output}) + "\n")
        say(ack=read["id"])
