"""Renews agents/src/programs/acp_registry.json from the registry of the Agent Client Protocol, which is read from a file.

It keeps what starts each program. A program whose file the registry does not name stays only if the table names it.
"""

import json
import pathlib
import re
import sys

TABLE, COPY, REGISTRY = map(pathlib.Path, sys.argv[1:])


def entry(agent):
    """Returns what starts an agent."""
    ways = agent["distribution"]
    binary = ways.get("binary", {}).get("linux-x86_64")
    way = binary or ways.get("npx") or ways.get("uvx") or {}
    found = {"id": agent["id"], "title": agent["name"]}
    words = way.get("cmd", "").split() if binary else []
    if words:
        found["command"] = pathlib.PurePosixPath(words[0]).name
    for key, value in (("arguments", words[1:] + way.get("args", [])), ("environment", way.get("env", {}))):
        if value:
            found[key] = value
    return found


named = set(re.findall(r'^registry = "(.+)"$', TABLE.read_text(), re.MULTILINE))
entries = [entry(agent) for agent in json.loads(REGISTRY.read_text())["agents"]]
kept = sorted((one for one in entries if "command" in one or one["id"] in named), key=lambda one: one["id"])
missing = named - {one["id"] for one in kept}
if missing:
    sys.exit(f"The registry has no {', '.join(sorted(missing))}, which the table names.")
COPY.write_text("[\n" + ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in kept) + "\n]\n")
