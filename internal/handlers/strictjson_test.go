package handlers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

func TestBodiesAreReadStrictly(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":9}`)
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, test := range []struct {
		name, method, path, body string
		code                     coordinator.Code
		pointer                  string
	}{
		{"an unfinished text", "POST", "/checkpoints", `{"pinned":true`, coordinator.CodeInvalidJSON, ""},
		{"data after the end", "POST", "/checkpoints", `{} {}`, coordinator.CodeInvalidJSON, ""},
		{"a byte-order mark", "POST", "/checkpoints", "\ufeff{}", coordinator.CodeInvalidJSON, ""},
		{"only white space", "POST", "/checkpoints", " \n", coordinator.CodeInvalidJSON, ""},
		{"a comma too many", "POST", "/checkpoints", `{"pinned":true,}`, coordinator.CodeInvalidJSON, ""},
		{"a comment", "POST", "/checkpoints", `{/* */}`, coordinator.CodeInvalidJSON, ""},
		{"a repeated member", "POST", "/checkpoints", `{"labels":{"a":"1","a":"2"}}`, coordinator.CodeInvalidJSON, "/labels/a"},
		{"a repeated member in another spelling", "POST", "/checkpoints", `{"pinned":true,"\u0070inned":true}`, coordinator.CodeInvalidJSON, "/pinned"},
		{"bytes that are not UTF-8", "POST", "/checkpoints", "{\"description\":\"\xff\"}", coordinator.CodeInvalidJSON, "/description"},
		{"a lone surrogate", "POST", "/checkpoints", `{"description":"\ud800"}`, coordinator.CodeInvalidJSON, "/description"},
		{"an unknown member", "POST", "/checkpoints", `{"timeout":5}`, coordinator.CodeInvalidRequest, "/timeout"},
		{"a member in another case", "POST", "/checkpoints", `{"Pinned":true}`, coordinator.CodeInvalidRequest, "/Pinned"},
		{"an unknown member with a slash", "POST", "/checkpoints", `{"a/b":1}`, coordinator.CodeInvalidRequest, "/a~1b"},
		{"a fraction", "POST", "/checkpoints", `{"timeoutMs":1.0}`, coordinator.CodeInvalidRequest, "/timeoutMs"},
		{"an exponent", "POST", "/checkpoints", `{"timeoutMs":1e3}`, coordinator.CodeInvalidRequest, "/timeoutMs"},
		{"a number as a string", "POST", "/checkpoints", `{"timeoutMs":"1000"}`, coordinator.CodeInvalidRequest, "/timeoutMs"},
		{"a number beyond 64 bits", "POST", "/checkpoints", `{"timeoutMs":9223372036854775808}`, coordinator.CodeInvalidRequest, "/timeoutMs"},
		{"a boolean as a string", "POST", "/checkpoints", `{"pinned":"true"}`, coordinator.CodeInvalidRequest, "/pinned"},
		{"null for an optional member", "POST", "/checkpoints", `{"timeoutMs":null}`, coordinator.CodeInvalidRequest, "/timeoutMs"},
		{"null for a list", "POST", "/checkpoints", `{"tasks":null}`, coordinator.CodeInvalidRequest, "/tasks"},
		{"null in a list", "POST", "/checkpoints", `{"tasks":["a",null]}`, coordinator.CodeInvalidRequest, "/tasks/1"},
		{"null for the whole", "POST", "/checkpoints", `null`, coordinator.CodeInvalidRequest, ""},
		{"an empty list", "POST", "/checkpoints", `{"tasks":[]}`, coordinator.CodeInvalidRequest, "/tasks"},
		{"a repeated task", "POST", "/checkpoints", `{"tasks":["a","a"]}`, coordinator.CodeInvalidRequest, "/tasks/1"},
		{"a member of an empty object", "POST", path + "/complete", `{"force":true}`, coordinator.CodeInvalidRequest, "/force"},
		{"an array for an empty object", "POST", path + "/complete", `[]`, coordinator.CodeInvalidRequest, ""},
		{"a cleanup that forgot keep", "POST", "/checkpoints/cleanup", `{}`, coordinator.CodeInvalidRequest, "/keep"},
		{"a negative keep", "POST", "/checkpoints/cleanup", `{"keep":-1}`, coordinator.CodeInvalidRequest, "/keep"},
		{"an extension by nothing", "POST", path + "/extend", `{"timeoutMs":0}`, coordinator.CodeInvalidRequest, "/timeoutMs"},
		{"an extension that forgot by how much", "POST", path + "/extend", `{}`, coordinator.CodeInvalidRequest, "/timeoutMs"},
		{"an attempt of nobody", "POST", path + "/abort", `{"attempt":1}`, coordinator.CodeInvalidRequest, "/taskId"},
		{"a decline of an empty task", "POST", path + "/abort", `{"taskId":""}`, coordinator.CodeInvalidRequest, "/taskId"},
		{"null for a label", "PATCH", path, `{"labels":{"a":null}}`, coordinator.CodeInvalidRequest, "/labels/a"},
		{"a number for a text that may be null", "PATCH", path, `{"description":5}`, coordinator.CodeInvalidRequest, "/description"},
		{"an acknowledgement without task", "POST", path + "/acks", `{}`, coordinator.CodeInvalidRequest, "/taskId"},
		{"an acknowledgement with a reserved name", "POST", path + "/acks", `{"taskId":"-"}`, coordinator.CodeInvalidRequest, "/taskId"},
		{"an acknowledgement and a list", "POST", path + "/acks", `{"taskId":"a","acks":[{"taskId":"b"}]}`, coordinator.CodeInvalidRequest, "/acks"},
		{"an empty list of acknowledgements", "POST", path + "/acks", `{"acks":[]}`, coordinator.CodeInvalidRequest, "/acks"},
		{"a list with a malformed item", "POST", path + "/acks", `{"acks":[{"taskId":"a"},{"taskId":""}]}`, coordinator.CodeInvalidRequest, "/acks/1/taskId"},
		{"a list with an unknown member", "POST", path + "/acks", `{"acks":[{"taskId":"a","task":"b"}]}`, coordinator.CodeInvalidRequest, "/acks/0/task"},
		{"a list with a state of another type", "POST", path + "/acks", `{"acks":[{"taskId":"a","state":[1]}]}`, coordinator.CodeInvalidRequest, "/acks/0/state"},
		{"a state of null", "POST", path + "/acks", `{"taskId":"a","state":null}`, coordinator.CodeInvalidRequest, "/state"},
		{"a state with an empty key", "POST", path + "/acks", `{"taskId":"a","state":{"":1}}`, coordinator.CodeInvalidRequest, "/state/"},
		{"a state with a repeated key", "POST", path + "/acks", `{"taskId":"a","state":{"k":{"x":1,"x":2}}}`, coordinator.CodeInvalidJSON, "/state/k/x"},
		{"a value too deep", "POST", path + "/acks", `{"taskId":"a","state":{"k":` + deep(1001) + `}}`, coordinator.CodeInvalidJSON, "/state/k/0/0/0…"},
		{"an empty digest", "POST", path + "/acks", `{"taskId":"a","digest":""}`, coordinator.CodeInvalidRequest, "/digest"},
		{"a digest in capitals", "POST", path + "/acks", `{"taskId":"a","digest":"sha256:` + strings.Repeat("A", 64) + `"}`, coordinator.CodeInvalidRequest, "/digest"},
		{"an attempt beyond what JSON readers keep", "POST", path + "/acks", `{"taskId":"a","attempt":9007199254740992}`, coordinator.CodeInvalidRequest, "/attempt"},
		{"a patch that forgot the state", "PATCH", path + "/state", `{}`, coordinator.CodeInvalidRequest, "/state"},
		{"a patch of another type", "PATCH", path + "/state", `{"state":"x"}`, coordinator.CodeInvalidRequest, "/state"},
		{"a patch of null", "PATCH", path + "/state", `{"state":null}`, coordinator.CodeInvalidRequest, "/state"},
		{"a bare value too deep", "PUT", path + "/state/k", deep(1001), coordinator.CodeInvalidJSON, "/0/0/0…"},
		{"a bare value with data after it", "PUT", path + "/state/k", `1 2`, coordinator.CodeInvalidJSON, ""},
		{"a bare value with a repeated member", "PUT", path + "/state/k", `{"a":1,"a":1}`, coordinator.CodeInvalidJSON, "/a"},
	} {
		t.Run(test.name+" is refused", func(t *testing.T) {
			t.Parallel()
			problem := f.on(t).do(test.method, test.path, test.body).refused(test.code)
			if len(problem.Errors) != 1 || problem.Errors[0].Pointer == nil {
				t.Fatalf("errors has no pointer: %+v", problem)
			}
			got := *problem.Errors[0].Pointer
			if start, long := strings.CutSuffix(test.pointer, "…"); got != test.pointer && (!long || !strings.HasPrefix(got, start)) {
				t.Errorf("the pointer is %q, want %q", got, test.pointer)
			}
		})
	}
}

func TestAnUnknownMemberIsAnsweredWithTheKnownOnes(t *testing.T) {
	t.Parallel()
	problem := serve(t).do("POST", "/checkpoints/cleanup", `{"keeep":2}`).refused(coordinator.CodeInvalidRequest)
	if want := "The member is unknown. Known here: keep."; problem.Errors[0].Detail != want {
		t.Errorf("the detail is %q, want %q", problem.Errors[0].Detail, want)
	}
}

func TestWhatMayBeLeftOutMay(t *testing.T) {
	t.Parallel()
	f := serve(t)
	for i, body := range []string{"", "{}", " { } \n", `{"labels":{}}`} {
		path := fmt.Sprintf("/checkpoints/%d", i)
		f.do("POST", "/checkpoints", body).want(http.StatusCreated)
		f.do("POST", path+"/complete?force=true", body[:min(2, len(body))][:0]).want(http.StatusOK)
	}
	f.do("POST", "/checkpoints/recover", "").want(http.StatusOK)
	f.do("POST", "/checkpoints/recover", "{}").want(http.StatusOK)
	path := f.trigger("")
	f.do("POST", path+"/abort", "").want(http.StatusOK)
	// A body of unknown length that turns out to be empty is no body either.
	f.send("POST", "/checkpoints", struct{ *strings.Reader }{strings.NewReader("")}, "Content-Type", "").want(http.StatusCreated)
}

func TestTheLargestBodiesFit(t *testing.T) {
	t.Parallel()
	f := serve(t)
	name := func(i int) string { return fmt.Sprintf("%05d", i) + strings.Repeat("n", coordinator.MaxTaskIDBytes-5) }
	names := make([]string, coordinator.MaxTasks)
	for i := range names {
		names[i] = `"` + name(i) + `"`
	}
	f.do("POST", "/checkpoints", `{"tasks":[`+strings.Join(names, ",")+`]}`).want(http.StatusCreated)
	f.do("POST", "/checkpoints", `{"tasks":[`+strings.Join(names, ",")+`,"one more"]}`).refused(coordinator.CodeLimitExceeded)

	path := f.trigger("")
	value := `"` + strings.Repeat("v", coordinator.MaxValueBytes-2) + `"`
	f.do("PUT", path+"/state/big", value+"  \n").refused(coordinator.CodeTooLarge) // with its key it is beyond sharedBytes
	problem := f.do("PUT", path+"/state/big", value[:len(value)-1]+`v"`).refused(coordinator.CodeTooLarge)
	if problem.Limit == nil || *problem.Limit != "valueBytes" {
		t.Errorf("the limit is %v, want valueBytes", problem.Limit)
	}
	f.do("PUT", path+"/state/big", value[:1]+value[1024:]).want(http.StatusCreated)
}

func TestABodyBeyondItsLimitIsRefusedWithTheLimit(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":2}`)
	spaces := strings.Repeat(" ", 17<<20)
	for _, test := range []struct{ method, path, limit string }{
		{"POST", path + "/acks", "ackBodyBytes"},
		{"POST", "/checkpoints", "bodyBytes"},
		{"PATCH", path + "/state", "bodyBytes"},
		{"PUT", path + "/state/k", "valueBytes"},
		{"PUT", path + "/tasks/a/state", "objectUploadBytes"},
	} {
		t.Run(test.limit+" by "+test.method, func(t *testing.T) {
			t.Parallel()
			g := f.on(t)
			announced := g.do(test.method, test.path, spaces).refused(coordinator.CodeTooLarge)
			chunked := g.send(test.method, test.path, struct{ *strings.Reader }{strings.NewReader(spaces)}, "Content-Type", "application/json").refused(coordinator.CodeTooLarge)
			for _, problem := range []struct{ limit any }{{*announced.Limit}, {*chunked.Limit}} {
				if fmt.Sprint(problem.limit) != test.limit {
					t.Errorf("the limit is %v, want %s", problem.limit, test.limit)
				}
			}
		})
	}
}

// FuzzBodies decodes each text as each of the bodies: what is taken is JSON without repeated
// names, holds what encoding/json finds in it, and says the same when it is written and read
// again; what is not is refused in our words.
func FuzzBodies(f *testing.F) {
	targets := []func() any{
		func() any { return new(api.TriggerRequest) },
		func() any { return new(api.AckBody) },
		func() any { return new(api.AbortRequest) },
		func() any { return new(api.ExtendRequest) },
		func() any { return new(api.CleanupRequest) },
		func() any { return new(api.CheckpointUpdate) },
		func() any { return new(api.JobSettings) },
		func() any { return new(api.SharedStatePatch) },
		func() any { return new(api.EmptyObject) },
	}
	for _, seed := range []string{
		`{}`, `null`, `[]`, ``, `{"keep":2}`, `{"keep":2.0}`, `{"keep":null}`, `{"timeoutMs":9007199254740993}`, `{"labels":{"a":"b"},"description":null,"pinned":true}`,
		`{"requiredTaskAcks":3,"tasks":["a","a"],"timeoutMs":-1}`, `{"taskId":"a","state":{"k":[1,{"x":1e400}]},"digest":"x","epoch":0,"attempt":1}`,
		`{"acks":[{"taskId":"a"},{"taskId":"b","state":{}}]}`, `{"reason":"x","taskId":"t"}`, `{"state":{"a":1,"a":2}}`, `{"state":null}`, `{"Keep":1}`, "{\"keep\":1}\n\x00",
		`{"intervalMs":50,"paused":false,"tasks":[]}`, `{"acks":[],"taskId":"a"}`, `{"labels":{"a":1}}`, `{"keep":"2"}`, "\xef\xbb\xbf{}", `{"tasks":[null]}`,
	} {
		f.Add([]byte(seed), uint8(len(seed)))
	}
	f.Fuzz(func(t *testing.T, raw []byte, which uint8) {
		body := targets[int(which)%len(targets)]
		target := body()
		if err := handlers.DecodeStrict(raw, target); err != nil {
			refusal, ours := errors.AsType[*coordinator.Error](err)
			if !ours || refusal.Code != coordinator.CodeInvalidJSON && refusal.Code != coordinator.CodeInvalidRequest || len(refusal.Fields) != 1 {
				t.Fatalf("%q as %T: %v", raw, target, err)
			}
			for _, word := range []string{"json", "unmarshal", "strconv", "api."} {
				if strings.Contains(refusal.Fields[0].Detail, word) {
					t.Fatalf("%q as %T is refused with %q", raw, target, refusal.Fields[0].Detail)
				}
			}
			return
		}
		if _, err := snapshot.Canonical(raw); err != nil {
			t.Fatalf("%q is taken for %T and is no strict JSON: %v", raw, target, err)
		}
		lax := body()
		if err := json.Unmarshal(raw, lax); err != nil {
			t.Fatalf("%q is taken for %T and encoding/json refuses it: %v", raw, target, err)
		}
		if diff := cmp.Diff(lax, target); diff != "" {
			if _, empty := target.(*api.EmptyObject); !empty {
				t.Fatalf("%q as encoding/json (-) and we (+) read it:\n%s", raw, diff)
			}
		}
	})
}
