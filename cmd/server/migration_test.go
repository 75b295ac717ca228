package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

const migrationPath = "../../docs/migration.md"

// What the library redis-streaming has left in a Redis, as the page tells of it.
var leftBySeedLibrary = map[string]string{
	"checkpoint:3": `{"@class":"io.github.cuihairu.redis.streaming.checkpoint.DefaultCheckpoint","checkpointId":3,"completed":true,` +
		`"stateSnapshot":{"@class":"io.github.cuihairu.redis.streaming.checkpoint.DefaultCheckpoint$StateSnapshotImpl",` +
		`"stateMap":{"@class":"java.util.HashMap","count":1000}},"timestamp":1700000000123}`,
	"checkpoint:5": `{"@class":"io.github.cuihairu.redis.streaming.checkpoint.DefaultCheckpoint","checkpointId":5,"completed":false,"snapshotVersion":1,"timestamp":1700000000456}`,
	"checkpoint:7": `{"@class":"io.github.cuihairu.redis.streaming.checkpoint.DefaultCheckpoint","checkpointId":7,"completed":true,"snapshotVersion":1,` +
		`"stateSnapshot":{"@class":"io.github.cuihairu.redis.streaming.checkpoint.DefaultCheckpoint$StateSnapshotImpl",` +
		`"stateMap":{"@class":"java.util.HashMap","offsets":{"@class":"java.util.HashMap","0":["java.lang.Long",11],"1":["java.lang.Long",9007199254740993]},` +
		`"count":1000}},"timestamp":1700000000789}`,
	"checkpoint:41": "\x01\x00io.github.cuihairu.redis.streaming.checkpoint.DefaultCheckpoin\xf4\x01\x52\x00",
}

// seeded is a Redis of the test's own that the library has used.
func seeded(t *testing.T) *redistest.Server {
	t.Helper()
	redis := redistest.Start(t, redistest.Options{Own: true})
	for key, value := range leftBySeedLibrary {
		if err := redis.Client(t).Set(t.Context(), key, value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return redis
}

func TestMovingFromRedisStreamingWorksAsPrinted(t *testing.T) {
	t.Parallel()
	needTools(t)
	redis := seeded(t)
	config := defaults(t)
	config.Redis, config.Adopt = redis.URL, true
	adopting := start(t, config)
	// The server has adopted them; so that the command has something to do, another Redis is its.
	walk(t, readSteps(t, migrationPath, "adopt"), 3, map[string]string{
		"redis://127.0.0.1:6379": seeded(t).URL, "127.0.0.1:8080": adopting,
	})
	for key, want := range leftBySeedLibrary {
		if got := redis.Client(t).Get(t.Context(), key).Val(); got != want {
			t.Errorf("%s is not as the library left it: %q", key, got)
		}
	}
}

func TestMovingAJobWorksAsPrinted(t *testing.T) {
	t.Parallel()
	needTools(t)
	config := defaults(t)
	config.Data = t.TempDir()
	from := start(t, config)
	redis := redistest.Start(t, redistest.Options{Own: true})
	config = defaults(t)
	config.Redis = redis.URL
	into := start(t, config)
	client := &http.Client{Timeout: time.Minute}
	for _, call := range []struct{ method, path, body string }{
		{http.MethodPut, "/jobs/orders", `{"checkpointsToKeep":9}`},
		{http.MethodPost, "/checkpoints?job=orders", `{"requiredTaskAcks":1}`},
		{http.MethodPut, "/checkpoints/0/state/user-count?job=orders", `1000`},
		{http.MethodPost, "/checkpoints/0/acks?job=orders", `{"taskId":"task-1","state":{"offsets":{"p0":11}}}`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), call.method, "http://"+from+call.path, strings.NewReader(call.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode > 299 {
			t.Fatalf("%s %s: %s", call.method, call.path, answer.Status)
		}
	}
	folder := t.TempDir()
	walk(t, readSteps(t, migrationPath, "move"), 1, map[string]string{
		"127.0.0.1:8080": from, "127.0.0.1:9090": into,
		"orders.ndjson": filepath.Join(folder, "orders.ndjson"), "imported.json": filepath.Join(folder, "imported.json"),
		// Each call gets a line break for the comparison of what it prints, which a file must not get.
		"curl -sS": "command curl -sS",
	})
}

func TestImportSaysWhatIsWrongWithItsFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"name their Redis with --redis":  {"adopt"},
		"must begin with redis://":       {"adopt", "--redis", "127.0.0.1"},
		"--take-over":                    {"adopt", "--help"},
		"store_unavailable":              {"adopt", "--redis", "redis://127.0.0.1:1"},
		"--adopt needs --redis":          {"--adopt"},
		"checkpointd adopt --help":       {"--help"},
		"unexpected argument everything": {"adopt", "everything"},
	} {
		command := exec.CommandContext(t.Context(), os.Args[0], args...)
		command.Env = append(os.Environ(), asMain+"=1")
		out, _ := command.CombinedOutput() // judged by what it says
		wantCode := 1
		if args[len(args)-1] == "--help" {
			wantCode = 0
		}
		if got := command.ProcessState.ExitCode(); got != wantCode && (wantCode == 0 || got == 0) || !bytes.Contains(out, []byte(want)) {
			t.Errorf("%q ended with %d and wrote\n%s\nwithout %q", args, got, out, want)
		}
	}
}
