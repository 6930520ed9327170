"""An agent program that speaks the Agent Client Protocol, without a model.

While there is a file `down` in its directory, every turn fails. It appends each prompt to the file `prompts`. A prompt that
mentions Bash makes it ask for permission first, for the command in double brackets if there is one. It appends each answer to the
file `answers`. A prompt that mentions endless work begins a turn that nothing ends. A prompt with `uses N` uses N tokens. A prompt that mentions looking around makes a tool call.
"""

import json
import os
import re
import sys


def write(line):
    print(json.dumps({"jsonrpc": "2.0", **line}), flush=True)


def ask_for_permission(session, prompt):
    options = [
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ]
    call = {"toolCallId": "call-1", "title": "rm -r target", "kind": "execute", "status": "pending"}
    if command := re.search(r"\[\[(.*?)\]\]", prompt):
        call |= {"title": command[1], "rawInput": {"command": command[1]}}
    write(
        {
            "id": "ask",
            "method": "session/request_permission",
            "params": {"sessionId": session, "toolCall": call, "options": options},
        }
    )
    with open("answers", "a", encoding="utf-8") as answers:
        answers.write(json.loads(sys.stdin.readline())["result"]["outcome"].get("optionId", "cancelled") + "\n")


def look_around(session):
    call = {"sessionUpdate": "tool_call", "toolCallId": "call-2", "title": "ls", "kind": "read", "status": "in_progress"}
    ended = {"sessionUpdate": "tool_call_update", "toolCallId": "call-2", "status": "completed"}
    for update in (call | {"rawInput": {"path": "secret-place"}}, ended):
        write({"method": "session/update", "params": {"sessionId": session, "update": update}})


for line in sys.stdin:
    request = json.loads(line)
    match request.get("method"):
        case "initialize":
            answer = {"result": {"protocolVersion": 1, "agentCapabilities": {}}}
        case "session/new":
            answer = {"result": {"sessionId": "s1"}}
        case "session/prompt" if os.path.exists("down"):
            answer = {"error": {"code": -32603, "message": "the model is overloaded"}}
        case "session/prompt":
            with open("prompts", "a", encoding="utf-8") as prompts:
                prompts.write(json.dumps(request["params"]["prompt"], ensure_ascii=False) + "\n")
            prompt = json.dumps(request["params"]["prompt"])
            if "Bash" in prompt:
                ask_for_permission(request["params"]["sessionId"], prompt)
            if "look around" in prompt:
                look_around(request["params"]["sessionId"])
            if "endless" in prompt:
                while sys.stdin.readline():
                    pass
            used = re.search(r"uses (\d+)", prompt)
            usage = {"inputTokens": int(used[1]) if used else 0, "outputTokens": 0, "totalTokens": int(used[1]) if used else 0}
            answer = {"result": {"stopReason": "end_turn", "usage": usage}}
        case _:
            answer = {"error": {"code": -32601, "message": "not found"}}
    if "id" in request and "method" in request:
        write({"id": request["id"], **answer})
