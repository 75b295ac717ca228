#!/usr/bin/env python3
"""worker.py URL TASK: goes on from the latest checkpoint, waits for the next ones, hands its state in."""
import http.client, json, sys, time
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

url, task, state = sys.argv[1], sys.argv[2], {"count": 0}


def call(method, path, body=None, media="application/json"):
    """Sends until there is an answer: a server or a store that is away says nothing about checkpoints."""
    while True:
        try:
            with urlopen(Request(url + path, body, {"Content-Type": media}, method=method), timeout=90) as answer:
                return answer.status, answer.read()
        except HTTPError as refusal:
            if refusal.code < 500 or refusal.code == 507:
                return refusal.code, json.load(refusal)
        except (OSError, http.client.HTTPException):
            pass  # not there, or broken off in the middle
        time.sleep(0.2)


def must(method, path, *fresh):
    """The answer, or none for these codes; any other refusal ends the worker."""
    status, answer = call(method, path)
    if status != 200 and answer["code"] not in fresh:
        sys.exit(answer["detail"])
    return answer if status == 200 else b""


epoch = json.loads(must("GET", "/jobs/default"))["status"]["epoch"]
part = must("GET", f"/checkpoints/latest/restore?taskId={quote(task)}", "no_completed_checkpoint", "task_not_in_checkpoint")
state.update((entry["key"], entry["value"]) for entry in map(json.loads, part.splitlines()))
while True:
    pending = must("GET", f"/checkpoints?status=pending&notAckedBy={quote(task)}&wait=30")
    for path in (f"/checkpoints/{found['checkpointId']}" for found in reversed(json.loads(pending)["checkpoints"])):
        try:
            state["count"] += 1  # the work of a real worker would be beside this
            lines = "".join(json.dumps({"key": key, "value": value}) + "\n" for key, value in state.items())
            upload = f"{path}/tasks/{quote(task, safe='')}/state?ack=true&epoch={epoch}"
            status, answer = call("PUT", upload, lines.encode(), "application/x-ndjson")
            if status == 409 and answer["code"].startswith("stale_"):
                sys.exit(answer["detail"])  # the fleet has recovered without this worker
            if status not in (200, 404, 409):  # a checkpoint that has ended, or has the part: go on
                raise ValueError(answer["detail"])
        except Exception as error:
            call("POST", f"{path}/abort", json.dumps({"taskId": task, "epoch": epoch, "reason": str(error)}).encode())
