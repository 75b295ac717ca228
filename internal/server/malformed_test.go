package server_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/api/apitest"
	"github.com/checkpointd/checkpointd/internal/server"
)

// CHECKPOINTD_MALFORMED says how many requests (make malformed sends 10 000, without the race
// detector, which makes each ten times as dear), CHECKPOINTD_MALFORMED_SEED which ones.
func TestMalformedRequestsAreRefusedInWordsAndChangeNothing(t *testing.T) {
	t.Parallel()
	requests, seed := 500, uint64(time.Now().UnixNano())
	if text := os.Getenv("CHECKPOINTD_MALFORMED"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		requests = n / 2 // without tokens, and as many with them
	}
	if text := os.Getenv("CHECKPOINTD_MALFORMED_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Run("without tokens", func(t *testing.T) {
		t.Parallel()
		(&trial{config: quiet(t), seed: seed}).run(t, requests)
	})
	t.Run("with tokens", func(t *testing.T) {
		t.Parallel()
		config := quiet(t)
		config.Tokens = filepath.Join(t.TempDir(), "tokens.json")
		config.Public = []string{"healthz", "readyz"}
		const ops, bound = "cpd_hunter2-of-ops", "cpd_hunter2-of-bound"
		file := fmt.Sprintf(`{"tokens":[
			{"name":"ops","sha256":"%x","roles":["trigger","ack","state","read","admin","events"]},
			{"name":"bound","sha256":"%x","roles":["ack","read"],"jobs":["m*"],"tasks":["task-1"]}]}`,
			sha256.Sum256([]byte(ops)), sha256.Sum256([]byte(bound)))
		if err := os.WriteFile(config.Tokens, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		(&trial{
			config: config, seed: seed, token: ops,
			authorization: append(slices.Repeat([]string{"Bearer " + ops, "Bearer " + bound}, 5), "Bearer cpd_hunter2-of-nobody", ""),
			secrets:       []string{"hunter2", hashOf(ops), hashOf(bound)},
		}).run(t, requests)
	})
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// quiet is a server in which nothing happens by itself: what is pending never expires.
func quiet(t *testing.T) server.Config {
	t.Helper()
	config := embedded(t)
	config.CheckpointTimeout, config.LogLevel = 0, "debug"
	return config
}

// trial sends malformed requests to a server, one after the other.
type trial struct {
	config        server.Config
	seed          uint64
	token         string // that may do everything, "" for none
	authorization []string
	secrets       []string

	url    string
	worlds int
	// metas are the first pages of the embedded store, which every change writes; content
	// is all there is in it and beside it.
	metas   []byte
	content map[string]string
}

func (r *trial) run(t *testing.T, requests int) {
	t.Helper()
	s, log := startLogged(t, r.config)
	r.url = s.URL()
	malformed, err := apitest.NewMalformed(r.seed)
	if err != nil {
		t.Fatal(err)
	}
	malformed.Authorization = r.authorization
	malformed.Members = map[string]any{"intervalMs": 0, "timeoutMs": 0, "checkpointsMaxAgeMs": 0} // nothing happens by itself
	codes, refused, silent, wrong := map[string]int{}, map[string]bool{}, 0, 0
	for i := range requests {
		if i%200 == 0 {
			malformed.Values = r.world(t)
			r.look(t)
		}
		wire := malformed.Next()
		answer, err := wire.Send(s.Addr())
		if err == nil {
			err = malformed.Judge(t, wire, answer, r.secrets...)
		}
		switch {
		case answer == nil:
			silent++
			codes["no answer"]++
		case answer.Status == apitest.ClientGone:
			codes[codeOf(answer)]++
			r.look(t) // it may have been done before its sender was missed
		case answer.Status >= http.StatusBadRequest:
			codes[codeOf(answer)]++
			refused[wire.OperationID] = true
			if changes := r.look(t); changes != "" && err == nil {
				err = fmt.Errorf("it was refused with %d and changed %s", answer.Status, changes)
			}
		default:
			codes[strconv.Itoa(answer.Status)]++
			r.settle(t, wire, answer)
		}
		if err != nil {
			t.Errorf("seed %d, request %d: %v\nto %v", r.seed, i, err, wire)
			if wrong++; wrong == 20 {
				t.Fatal("and so on")
			}
		}
	}
	t.Logf("seed %d: %v", r.seed, codes)
	if requests >= 20*malformed.Operations() && len(refused) < malformed.Operations() {
		t.Errorf("of %d operations only %d refused anything", malformed.Operations(), len(refused))
	}
	if silent > requests/4 {
		t.Errorf("%d of %d requests had no answer: the test looks at too little", silent, requests)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(log.String(), "\n") {
		for _, bad := range append(r.secrets, "panic", `"level":"error"`) {
			if strings.Contains(line, bad) {
				t.Errorf("seed %d: the log has %s", r.seed, line)
			}
		}
	}
}

func codeOf(answer *apitest.Answer) string {
	var problem struct{ Code string }
	_ = json.Unmarshal(answer.Body, &problem) // without a body it is the status
	return cmp.Or(problem.Code, strconv.Itoa(answer.Status))
}

// world makes a job with a checkpoint of each status, and gives the values that parameters
// may have in it.
func (r *trial) world(t *testing.T) map[string][]string {
	t.Helper()
	r.worlds++
	job := "m" + strconv.Itoa(r.worlds)
	for _, step := range []struct{ method, path, body string }{
		{http.MethodPut, "/jobs/" + job, `{"tasks":["task-1","task-2"]}`},
		{http.MethodPost, "/checkpoints", `{}`},
		{http.MethodPut, "/checkpoints/0/state/user-count", `1000`},
		{http.MethodPost, "/checkpoints/0/acks", `{"acks":[{"taskId":"task-1","state":{"offsets":{"p0":11}}},{"taskId":"task-2"}]}`},
		{http.MethodPost, "/checkpoints", `{}`},
		{http.MethodPost, "/checkpoints/1/abort", `{"reason":"x"}`},
		{http.MethodPost, "/checkpoints", `{}`},
		{http.MethodPut, "/checkpoints/2/state/user-count", `[1.0]`},
		{http.MethodPost, "/checkpoints/2/acks", `{"taskId":"task-2"}`},
		{http.MethodPost, "/checkpoints", `{"tasks":["task-1","task-2","task-3"],"pinned":true}`},
	} {
		var headers []string
		if r.token != "" {
			headers = []string{"Authorization", "Bearer " + r.token}
		}
		path := step.path
		if !strings.HasPrefix(path, "/jobs/") {
			path += "?job=" + job
		}
		if got := call(t, step.method, r.url+path, step.body, headers...); got.status >= http.StatusBadRequest {
			t.Fatalf("%s %s: %d %s", step.method, path, got.status, got.text)
		}
	}
	return map[string][]string{
		"job": {job}, "id": {"0", "1", "2", "2", "3", "3"}, "key": {"user-count", "user-count", "absent"}, "taskId": {"task-1", "task-2", "task-3"},
	}
}

// settle looks at what a request has changed that was not refused. That a checkpoint was
// restored is written behind its last byte.
func (r *trial) settle(t *testing.T, wire *apitest.Wire, answer *apitest.Answer) {
	t.Helper()
	recorded := wire.Method != http.MethodGet || answer.Header.Get("Checkpoint-Entries") == "" || answer.Status == http.StatusNotModified
	for ends := time.Now().Add(10 * time.Second); ; {
		if recorded = strings.Contains(r.look(t), "/restores/") || recorded; recorded {
			return
		}
		if time.Now().After(ends) {
			t.Fatalf("the restore by %v was not recorded", wire)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the store tells nobody
	}
}

// look tells what changed in the store since the last look, "" for nothing.
func (r *trial) look(t *testing.T) string {
	t.Helper()
	file, err := os.Open(filepath.Join(r.config.Data, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	metas := make([]byte, 2*os.Getpagesize())
	if _, err := file.ReadAt(metas, 0); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(metas, r.metas) {
		return ""
	}
	content := r.read(t)
	var changes []string
	for place, value := range content {
		if r.content[place] != value {
			changes = append(changes, fmt.Sprintf("%q from %q to %q", place, r.content[place], value))
		}
	}
	for place := range r.content {
		if _, still := content[place]; !still {
			changes = append(changes, fmt.Sprintf("%q, which is gone", place))
		}
	}
	slices.Sort(changes)
	r.metas, r.content = metas, content
	return strings.Join(changes, ", ")
}

// read gives all that is in the store. The server holds the lock of the database, so a copy
// is read; with one request at a time nobody writes meanwhile.
func (r *trial) read(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.config.Data, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.config.Data, "copy.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	database, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	content := map[string]string{}
	var walk func(place string, bucket *bolt.Bucket) error
	walk = func(place string, bucket *bolt.Bucket) error {
		return bucket.ForEach(func(key, value []byte) error {
			if value == nil {
				return walk(place+"/"+string(key), bucket.Bucket(key))
			}
			content[place+"/"+string(key)] = string(value)
			return nil
		})
	}
	if err := database.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error { return walk(string(name), bucket) })
	}); err != nil {
		t.Fatal(err)
	}
	return content
}
