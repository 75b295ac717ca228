"""worker.py URL TASK: goes on from the latest checkpoint, waits for the next ones, hands its state in."""
import http.client, json, sys, time
from urllib import parse, request

url, name = sys.argv[1:]
task, state = parse.quote(name, safe=""), {"count": 0}
NO_FAILURE = ("no_completed_checkpoint", "task_not_in_checkpoint", "ack_conflict", "checkpoint_")


def call(method, path, lines=(), media="application/json"):
    """Sends and receives lines of JSON, and waits for a server or store that is away: that says nothing of checkpoints."""
    body = "".join(json.dumps(line) + "\n" for line in lines).encode() or None
    while True:
        try:
            sent = request.Request(url + path, body, {"Content-Type": media}, method=method)
            with request.urlopen(sent, timeout=90) as answer:
                return [json.loads(line) for line in answer.read().splitlines()]
        except (OSError, http.client.HTTPException) as why:  # refused, not there, or broken off in the middle
            if getattr(why, "code", 503) in (*range(400, 500), 507):
                problem = json.load(why)
                if problem["code"].startswith("stale_"):
                    sys.exit(problem["detail"])  # the fleet has recovered without this worker
                if problem["code"].startswith(NO_FAILURE):
                    return []  # no part to come back to yet, a part that is there already, or a checkpoint that has ended
                raise ValueError(problem["detail"])
        time.sleep(0.2)


epoch = call("GET", "/jobs/default")[0]["status"]["epoch"]
state.update((entry["key"], entry["value"]) for entry in call("GET", f"/checkpoints/latest/restore?taskId={task}"))
while True:
    for found in reversed(call("GET", f"/checkpoints?status=pending&notAckedBy={task}&wait=30")[0]["checkpoints"]):
        path = f"/checkpoints/{found['checkpointId']}"
        try:
            state["count"] += 1  # the work of a real worker would be beside this
            part = [{"key": key, "value": value} for key, value in state.items()]
            call("PUT", f"{path}/tasks/{task}/state?ack=true&epoch={epoch}", part, "application/x-ndjson")
        except Exception as why:  # all of them learn at once that this checkpoint cannot be
            call("POST", f"{path}/abort", [{"taskId": name, "epoch": epoch, "reason": str(why)}])
