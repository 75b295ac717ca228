package redisstore

import (
	stdflag "flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

var update = stdflag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata, or rewrites that.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if that is meant, run the test with -update:\n%s", path, diff)
	}
}

// allKeys builds every key of a job, with sample arguments.
func allKeys(k keyspace) map[string]string {
	const id, upload, names = 7, "upload", "names"
	return map[string]string{
		"job": k.job(), "index": k.index(), "pending": k.pending(), "deadlines": k.deadlines(), "completed": k.completed(),
		"retained": k.retained(), "events": k.events(), "stats": k.stats(), "samples": k.samples(), "restores": k.restores(),
		"ended": k.ended(), "remains": k.remains(), "pinned": k.pinned(), "attempts": k.attempts(),
		"uploads": k.uploads(), "stages": k.stages(), "importing": k.importing(), "garbage": k.garbage(), "void": k.void(), "pulse": k.pulse(),
		"repeat": k.repeat(repeatTrigger, "my-key"), "answer": k.answer("token"), "record": k.record(id), "adopted": k.adopted(id), "part": k.part(id, "…"), "acks": k.acks(id),
		"acked": k.acked(id), "unsorted": k.unsorted(id), "parts": k.parts(id), "staged": k.staged(id), "state": k.state(id), "leases": k.leases(id),
		"upload": k.upload(id, upload), "chunk": k.chunk(id, upload, 12), "tasks": k.tasks(names), "missing": k.missing(names),
	}
}

// Keys are what other versions of this server, and operators, find in a Redis: they do
// not change unnoticed.
func TestKeysAreThoseOfTheGoldenFile(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	fmt.Fprintf(&got, "%-10s %s\n", "jobs", jobsKey(DefaultKeyPrefix))
	fmt.Fprintf(&got, "%-10s %s\n", "wake", wakeChannel(DefaultKeyPrefix))
	for _, job := range []string{coordinator.DefaultJob, "orders", "default on a cluster"} {
		fmt.Fprintf(&got, "\njob %s\n", job)
		keys := allKeys(newKeyspace(DefaultKeyPrefix, job))
		if name, _, onCluster := strings.Cut(job, " "); onCluster {
			keys = allKeys(taggedKeyspace(DefaultKeyPrefix, name))
		}
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			fmt.Fprintf(&got, "%-10s %s\n", name, keys[name])
		}
	}
	golden(t, "keys.golden", got.String())
}

func TestTheGoldenFileHasEveryKey(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	keys := allKeys(newKeyspace(DefaultKeyPrefix, "orders"))
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv == nil {
			continue
		}
		if receiver, ok := function.Recv.List[0].Type.(*ast.Ident); !ok || receiver.Name != "keyspace" {
			continue
		}
		if keys[function.Name.Name] == "" {
			t.Errorf("keys.go builds %s, which the golden file lacks", function.Name.Name)
		}
	}
}

// A script that changes has another hash, and runs beside its older self while servers
// are replaced one by one: the golden file makes that a decision.
func TestScriptsAreThoseOfTheGoldenFile(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, verb := range slices.Sorted(maps.Keys(scripts)) {
		fmt.Fprintf(&got, "%-16s %s\n", verb, scripts[verb].text.Hash())
	}
	golden(t, "scripts.golden", got.String())
}

func TestEveryScriptLoadsUnderItsHash(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	for verb, sc := range scripts {
		hash, err := sc.text.Load(t.Context(), client).Result()
		if err != nil || hash != sc.text.Hash() {
			t.Errorf("%s: loaded as %q (%v), want %q", verb, hash, err, sc.text.Hash())
		}
	}
}

func TestEveryScriptSaysWhatItTakesAndAnswers(t *testing.T) {
	t.Parallel()
	files, err := luaFiles.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		verb, _ := strings.CutSuffix(file.Name(), ".lua")
		if strings.HasPrefix(verb, "prelude") {
			continue
		}
		if scripts[verb] == nil {
			t.Errorf("no method runs %s", file.Name())
		}
		text, err := luaFiles.ReadFile("lua/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		header, _, _ := strings.Cut(string(text), "\n\n")
		for _, part := range []string{"-- KEYS[1] ", "-- ARGV[1] ", "-- Body ", "-- Refusals ", "-- Second run: "} {
			if !strings.Contains(header, part) {
				t.Errorf("the header of %s lacks %q", file.Name(), part)
			}
		}
	}
}
