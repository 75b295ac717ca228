"""worker.py URL TASK [ATTEMPT]: goes on from the latest checkpoint, waits for the next ones, hands its state in."""
import http.client, json, os, sys, time
from urllib import parse, request

url, name = sys.argv[1:3]
task, state, token = parse.quote(name, safe=""), {"count": 0}, os.environ.get("CHECKPOINTD_TOKEN")
auth = {"Authorization": "Bearer " + token} if token else {}


def call(method, path, lines=(), media="application/json"):
    """Sends and receives lines of JSON, and waits for a server or store that is away: that says nothing of checkpoints."""
    body = "".join(json.dumps(line) + "\n" for line in lines).encode() or None
    sent = request.Request(url + path, body, {"Content-Type": media, **auth}, method=method)
    while True:
        try:
            with request.urlopen(sent, timeout=90) as answer:
                return [json.loads(line) for line in answer.read().splitlines()]
        except (OSError, http.client.HTTPException, ValueError) as why:  # refused, not there, broken off, or no JSON
            head = getattr(why, "headers", {})
            if getattr(why, "code", 503) in (*range(400, 429), *range(430, 500), 507) and "problem+json" in head.get("Content-Type", ""):
                problem = json.load(why)  # of the server itself, and not a proxy's page
                if problem["code"].startswith("stale_"):  # the fleet has recovered without this worker, or a later life is about
                    sys.exit(problem["detail"])
                if problem["code"].startswith(("no_completed_checkpoint", "task_not_in_checkpoint", "ack_conflict", "checkpoint_")):
                    return []  # no part to come back to yet, a part that is there already, or a checkpoint that has ended
                raise ValueError(problem["detail"])
            print(f"{method} {path}: {why}, trying again", file=sys.stderr)
            time.sleep(float(head.get("Retry-After", 0.2)))
        if method == "PUT" and [*call("GET", path.split("/task/")[0]), {}][0].get("status") != "pending":
            return []  # the checkpoint is over, perhaps by what was sent


life = {"epoch": call("GET", "/jobs/default")[0]["status"]["epoch"], **{"attempt": int(count) for count in sys.argv[3:]}}
state.update((entry["key"], entry["value"]) for entry in call("GET", f"/checkpoints/latest/restore?taskId={task}"))
while True:
    for found in reversed(call("GET", f"/checkpoints?status=pending&notAckedBy={task}&wait=30")[0]["checkpoints"]):
        path = f"/checkpoints/{found['checkpointId']}"
        try:
            state["count"] += 1  # the work of a real worker would be beside this
            part = [{"key": key, "value": value} for key, value in state.items()]
            call("PUT", f"{path}/task/state?taskId={task}&ack=true&{parse.urlencode(life)}", part, "application/x-ndjson")
        except Exception as why:  # all of them learn at once that this checkpoint cannot be
            call("POST", f"{path}/abort", [{"taskId": name, "reason": str(why), **life}])
