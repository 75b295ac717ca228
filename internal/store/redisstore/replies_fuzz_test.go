package redisstore

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// replyOf makes values as a reply of Redis has them of text: words with spaces between, of which
// ( and ) are an array, # with digits is a number, ~ is nil and the rest is strings, in which _ is a space.
func replyOf(text string) []any {
	stack := [][]any{nil}
	put := func(value any) { stack[len(stack)-1] = append(stack[len(stack)-1], value) }
	end := func() {
		last := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		put(last)
	}
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case word == "(" && len(stack) < 10:
			stack = append(stack, []any{})
		case word == ")" && len(stack) > 1:
			end()
		case word == "~":
			put(nil)
		case strings.HasPrefix(word, "#"):
			n, err := strconv.ParseInt(word[1:], 10, 64)
			if err != nil {
				put(err)
				continue
			}
			put(n)
		default:
			put(strings.ReplaceAll(word, "_", " "))
		}
	}
	for len(stack) > 1 {
		end()
	}
	return stack[0]
}

// FuzzReplies reads replies and stored records that need not be ours: they are understood, or
// there is an error, and nothing else.
func FuzzReplies(f *testing.F) {
	const (
		record = "7 ( task-2 ) ( v 1 epoch 0 status pending rev 1 ts 5 start 5 timeout 1000 required 2 acked 1 version 1 entries 0 bytes 0 tasks 1 labels {\"a\":\"b\"} )"
		ended  = "8 ( ) ( v 1 epoch 0 status expired rev 2 ts 5 start 5 timeout 1000 required 2 acked 1 version 1 entries 0 bytes 0 reason declined ftask t fmsg m ended 9 pinned 1 )"
		job    = "1 6 1000 ( epoch 1 next 8 configured 1 s_timeout 5 s_named 2 s_names x f_id 3 f_at 4 f_reason declined evlast 0-7 sch_id 1 due 77 )"
	)
	for _, seed := range []string{
		"ok #5 ( ( " + record + " ) )", "ok 5 ( ) ( 7 completed  #5 #2 ) ( 1 2 ) ( 6 expired aborted 5 0 )", "stale_epoch 1 ( 3 4 )", "checkpoint_deleted 1 ( 3  )", "checkpoint_expired 1 ( ~ )", "part_changed 1 ( t )", "nonsense ~ x",
		record, ended, job, strings.Replace(record, "{\"a\":\"b\"}", "{", 1), strings.Replace(record, "pending", "other", 1), strings.Replace(job, "0-7", "0-x", 1),
		"0-7 ( type checkpoint.triggered at 5 id 7 miss a miss b status pending req 1 fails x )", "up|1|100|2|sha256:x", "5|1|100|2|sha256:x|3|t", "1|2|3|4|5|6|t", "1|2|3|1|ops_127.0.0.1", "1|-2", "#99999999999999999999",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all := replyOf(text)
		if r, err := parseReply("get", "j", all); err == nil {
			c := cursor{values: r.body}
			if refused := parseRefusal("j", 7, r.word, &c); refused != nil && !slices.Contains(coordinator.Codes(), refused.Code) {
				t.Errorf("%q is the refusal %v", text, refused)
			}
			parseCheckpoints("j", r.now, r.body, func(int64, error) {})
		} else if coordinator.CodeOf(err) != coordinator.CodeInternal {
			t.Errorf("%q: %v", text, err)
		}
		if cp, err := parseCheckpoint("j", 10, all); err == nil {
			known := []coordinator.Status{coordinator.StatusPending, coordinator.StatusCompleted, coordinator.StatusExpired, coordinator.StatusAborted}
			if !slices.Contains(known, cp.Status) || cp.Job != "j" || (cp.Failure != nil) != (cp.Status == coordinator.StatusExpired || cp.Status == coordinator.StatusAborted) {
				t.Errorf("%q is %+v", text, cp)
			}
		}
		if state, err := parseJob("j", 10, all); err == nil && state.Job != "j" {
			t.Errorf("%q is %+v", text, state)
		}
		if len(all) == 2 {
			id, _ := all[0].(string)
			rest, _ := all[1].([]any)
			if event, err := parseEvent("j", id, rest); err == nil && id != "" && event.ID.String() != id {
				t.Errorf("%q is %+v", text, event)
			}
		}
		if part, err := parsePart(text); err == nil && (part.Bytes < 0 || part.Entries < 0 || part.chunks < 0) {
			t.Errorf("%q is %+v", text, part)
		}
		if ack, err := parseAck("t", text, 5); err == nil && (ack.Part.Bytes < 0 || ack.LatencyMs < 0) {
			t.Errorf("%q is %+v", text, ack)
		}
		_, _ = parseSample(text)
		_, _ = parseRestore(text)
	})
}
