package torture

import (
	"testing"
	"time"
)

// call is a record whose times are in ms.
func call(begin, end int64, in input, out output) record {
	if in.Verb != ack {
		in.Epoch = -1
	}
	return record{In: in, Out: out, Call: begin * 1e6, Return: end * 1e6}
}

func TestTheModelKnowsWhatMayBeAnswered(t *testing.T) {
	t.Parallel()
	var (
		lost    = output{Unknown: true}
		made    = output{Status: pending}
		begun   = call(0, 10, input{Verb: trigger}, made)
		limited = call(0, 10, input{Verb: trigger, TimeoutMs: 100}, made)
		first   = call(20, 30, input{Verb: ack, Task: "task-0", Value: "v", Epoch: -1}, output{Status: pending, Acks: 1})
		second  = input{Verb: ack, Task: "task-1", Epoch: -1}
		done    = output{Status: completed, Acks: 2}
		whole   = `{"taskId":"task-0","key":"first","value":"v"}` + "\n" + `{"taskId":"task-0","key":"second","value":"v"}` + "\n"
		none    = refused("no_completed_checkpoint")
	)
	for name, test := range map[string]struct {
		records []record
		want    bool
		keep    int
		lent    []lending
		jumps   bool
	}{
		"two acknowledgements complete":              {[]record{begun, first, call(40, 50, second, done), call(60, 70, input{Verb: latest}, done)}, true, 0, nil, false},
		"one does not":                               {[]record{begun, first, call(60, 70, input{Verb: latest}, done)}, false, 0, nil, false},
		"what is answered is not forgotten":          {[]record{begun, first, call(40, 50, second, done), call(60, 70, input{Verb: latest}, none)}, false, 0, nil, false},
		"what goes on at once may come in any order": {[]record{begun, first, call(40, 80, second, done), call(60, 70, input{Verb: latest}, none)}, true, 0, nil, false},
		"a lost answer may be a change":              {[]record{begun, first, call(40, 50, second, lost), call(60, 70, input{Verb: latest}, done)}, true, 0, nil, false},
		"or none":                                    {[]record{begun, first, call(40, 50, second, lost), call(60, 70, input{Verb: latest}, none)}, true, 0, nil, false},
		"or a late one":                              {[]record{begun, first, call(40, 50, second, lost), call(60, 70, input{Verb: latest}, none), call(80, 90, input{Verb: latest}, done)}, true, 0, nil, false},
		"but none before it was asked for":           {[]record{begun, first, call(32, 35, input{Verb: latest}, done), call(40, 50, second, lost)}, false, 0, nil, false},
		"and none that goes again":                   {[]record{begun, first, call(40, 50, second, lost), call(60, 70, input{Verb: latest}, done), call(80, 90, input{Verb: latest}, none)}, false, 0, nil, false},
		"a restore is what was handed in":            {[]record{begun, first, call(40, 50, second, done), call(60, 70, input{Verb: restore}, output{Text: whole})}, true, 0, nil, false},
		"and not half of it":                         {[]record{begun, first, call(40, 50, second, done), call(60, 70, input{Verb: restore}, output{Text: whole[:len(whole)/2]})}, false, 0, nil, false},
		"it expires after its deadline":              {[]record{limited, call(200, 210, input{Verb: get}, output{Status: expired})}, true, 0, nil, false},
		"not before":                                 {[]record{limited, call(20, 40, input{Verb: get}, output{Status: expired})}, false, 0, nil, false},
		"and is not pending long after":              {[]record{limited, call(300, 310, input{Verb: get}, made)}, false, 0, nil, false},
		"nor again":                                  {[]record{limited, call(60, 130, input{Verb: get}, output{Status: expired}), call(131, 132, input{Verb: get}, made)}, false, 0, nil, false},
		"what has come of a lost answer may show only after the deadline": {[]record{limited, call(20, 30, input{Verb: ack, Task: "task-0"}, lost), call(200, 210, input{Verb: shared}, refused("checkpoint_expired")), call(220, 230, input{Verb: get}, output{Status: expired, Acks: 1, Text: "task-0= "})}, true, 0, nil, false},
		"a recovery after the deadline is an expiry":                      {[]record{limited, call(200, 210, input{Verb: recovery}, output{ID: newest, Epoch: 1}), call(220, 230, input{Verb: get}, output{Status: aborted})}, false, 0, nil, false},
		"one before it is an abort":                                       {[]record{limited, call(20, 30, input{Verb: recovery}, output{ID: newest, Epoch: 1}), call(200, 210, input{Verb: get}, output{Status: aborted})}, true, 0, nil, false},
		"an id is not given twice":                                        {[]record{begun, call(20, 30, input{Verb: trigger}, made)}, false, 0, nil, false},
		"a late answer to a trigger may tell what it came to":             {[]record{call(0, 300, input{Verb: trigger, TimeoutMs: 100}, output{Status: expired})}, true, 0, nil, false},
		"a key gives what it gave":                                        {[]record{call(0, 10, input{Verb: trigger, Name: "k"}, lost), call(20, 30, input{Verb: trigger, Name: "k"}, output{Status: pending, Again: true})}, true, 0, nil, false},
		"and is not new twice":                                            {[]record{call(0, 10, input{Verb: trigger, Name: "k"}, made), call(20, 30, input{Verb: trigger, Name: "k"}, output{ID: 1, Status: pending})}, false, 0, nil, false},
		"a cleanup keeps the latest":                                      {[]record{begun, first, call(40, 50, second, done), call(60, 70, input{Verb: cleanup, Keep: 1}, output{Text: cleaned([]int64{0}, nil, 0)})}, false, 0, nil, false},
		"and takes it where it keeps none":                                {[]record{begun, first, call(40, 50, second, done), call(60, 70, input{Verb: cleanup}, output{Text: cleaned([]int64{0}, nil, 0)})}, true, 0, nil, false},
		"but not what a restore may hold, if it says so":                  {[]record{begun, first, call(40, 50, second, done), call(60, 70, input{Verb: cleanup}, output{Text: cleaned(nil, []int64{0}, 1)})}, true, 0, []lending{{0, 55e6}}, false},
		"which it does not say without a restore":                         {[]record{begun, first, call(40, 50, second, done), call(60, 70, input{Verb: cleanup}, output{Text: cleaned(nil, []int64{0}, 1)})}, false, 0, nil, false},
		"a checkpoint that a list shows was triggered":                    {[]record{begun, call(20, 30, input{Verb: list}, output{Text: "1:0:pending:0 0:0:pending:0 "})}, false, 0, nil, false},
		"maybe by somebody who does not know":                             {[]record{begun, call(12, 14, input{Verb: trigger}, lost), call(20, 30, input{Verb: list}, output{Text: "1:0:pending:0 0:0:pending:0 "})}, true, 0, nil, false},
		"a change that the store denies is a violation":                   {[]record{begun, call(20, 30, input{Verb: get}, output{Status: aborted})}, false, 0, nil, false},
		"an older epoch is refused":                                       {[]record{begun, call(12, 14, input{Verb: recovery}, output{ID: newest, Epoch: 1}), call(20, 30, input{Verb: ack, Task: "task-0"}, refused("stale_epoch"))}, true, 0, nil, false},
		"and not taken":                                                   {[]record{begun, call(12, 14, input{Verb: recovery}, output{ID: newest, Epoch: 1}), call(20, 30, input{Verb: ack, Task: "task-0"}, refused("checkpoint_aborted"))}, false, 0, nil, false},
		"retention takes what is beyond the number to keep":               {[]record{begun, first, call(40, 50, second, done), call(60, 70, input{Verb: trigger}, output{ID: 1, Status: pending}), call(80, 90, input{Verb: complete, ID: 1, Force: true}, output{ID: 1, Status: completed}), call(100, 110, input{Verb: get}, gone())}, true, 1, nil, false},
		"and does not forget to":                                          {[]record{begun, first, call(40, 50, second, done), call(60, 70, input{Verb: trigger}, output{ID: 1, Status: pending}), call(80, 90, input{Verb: complete, ID: 1, Force: true}, output{ID: 1, Status: completed}), call(100, 110, input{Verb: get}, output{Status: completed, Acks: 2, Text: "task-0=v task-1= "})}, false, 1, nil, false},
		"epochs come one after the other":                                 {[]record{begun, call(12, 14, input{Verb: recovery}, output{ID: newest, Epoch: 1 + jump})}, false, 0, nil, false},
		"but after a restart of Redis":                                    {[]record{begun, call(12, 14, input{Verb: recovery}, output{ID: newest, Epoch: 1 + jump})}, true, 0, nil, true},
		"which need not show":                                             {[]record{begun, call(12, 14, input{Verb: recovery}, output{ID: newest, Epoch: 1})}, true, 0, nil, true},
		"and by no other number":                                          {[]record{begun, call(12, 14, input{Verb: recovery}, output{ID: newest, Epoch: jump})}, false, 0, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &history{Records: test.records, Keep: test.keep, Lent: test.lent, Jumps: test.jumps}
			if verdict, info := h.judge(time.Minute); (verdict == legal) != test.want {
				t.Errorf("%s\n%s", verdict, h.explain(info))
			}
		})
	}
}

func TestAFailoverTakesBackOnlyWhatNobodyWasAnswered(t *testing.T) {
	t.Parallel()
	var (
		lost  = output{Unknown: true}
		begun = call(0, 10, input{Verb: trigger}, output{Status: pending})
		asked = input{Verb: trigger, Name: "k"}
		both  = call(30, 40, input{Verb: list}, output{Text: "1:0:pending:0 0:0:pending:0 "})
		one   = call(50, 60, input{Verb: list}, output{Text: "0:0:pending:0 "})
		epoch = call(70, 80, input{Verb: recovery, Name: "r"}, output{ID: newest, Epoch: 2 + jump})
	)
	for name, test := range map[string]struct {
		records   []record
		takesBack bool
		want      bool
	}{
		"what a read showed of a lost answer may be gone": {[]record{begun, call(12, 14, asked, lost), both, one}, true, true},
		"and come again, with another id": {
			[]record{begun, call(12, 14, asked, lost), both, call(50, 60, asked, output{ID: 1 + jump, Status: pending, Again: true})}, true, true,
		},
		"but not without failovers": {[]record{begun, call(12, 14, asked, lost), both, one}, false, false},
		"nor where somebody was answered": {
			[]record{begun, call(12, 14, asked, output{ID: 1, Status: pending}), both, one}, true, false,
		},
		"an epoch that was taken back is passed over": {[]record{begun, call(12, 14, input{Verb: recovery, Name: "r"}, lost), epoch}, true, true},
		"without failovers none is":                   {[]record{begun, call(12, 14, input{Verb: recovery, Name: "r"}, lost), epoch}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &history{Records: test.records, Jumps: true, TakesBack: test.takesBack}
			if verdict, info := h.judge(time.Minute); (verdict == legal) != test.want {
				t.Errorf("%s\n%s", verdict, h.explain(info))
			}
		})
	}
}
