"""A teammate of the story: `knowledge-manager`, `task-manager` or `file-manager`, as its first argument says."""

import json
import sys

part = sys.argv[1]
plans = ["第一版：直接上线", "第二版：先备份，再上线"]
has_work_left = part == "task-manager"


def plan():
    return {"type": "plan_approval_request", "content": plans.pop(0), "summary": "上线计划"}


def answer(line):
    global has_work_left
    kind, said, summary = line["type"], line.get("from"), line.get("summary")
    if kind == "shutdown_request":
        approve, has_work_left = not has_work_left, False
        reason = "" if approve else "还有一个任务没有完成"
        return {"type": "shutdown_response", "request_id": line["request_id"], "approve": approve, "content": reason}
    if kind == "plan_approval_response" and not line["approve"]:
        return plan()
    if kind != "message":
        return None
    if part == "knowledge-manager" and summary == "请整理今日任务":
        return {"type": "message", "recipient": "task-manager", "content": "请列出今日任务", "summary": "列出今日任务"}
    if part == "task-manager" and summary == "列出今日任务":
        content = "1. 财务报表  2. 上线"
        return {"type": "message", "recipient": said, "in_reply_to": line["id"], "content": content, "summary": "今日任务"}
    if part == "task-manager" and summary == "完成财务报表":
        return {"type": "broadcast", "content": "财务报表已经完成", "summary": "任务完成"}
    if part == "task-manager" and summary == "提交上线计划":
        return plan()
    return None


for text in sys.stdin:
    line = json.loads(text)
    reply = answer(line)
    if reply:
        print(json.dumps(reply, ensure_ascii=False), flush=True)
    if line.get("id"):
        print(json.dumps({"ack": line["id"]}), flush=True)
