package redisstore

import (
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

var severalScript = newScript("acknowledge_several", severalPreludes)

// ackParcel is one script call for the groups of a job: acknowledge.lua for one, for more of them
// acknowledge_several.lua, which takes Redis little more than half as long as a call for each.
type ackParcel struct {
	groups []*ackGroup
	args   []any
}

// wrap puts the groups of each job together, as far as a script takes them.
func (t *ackTrip) wrap() []ackParcel {
	n := 0
	for _, g := range t.groups {
		at := slices.IndexFunc(t.parcels[:n], func(p ackParcel) bool { return p.takes(g) })
		if at < 0 {
			at = n
			if n++; n > len(t.parcels) {
				t.parcels = append(t.parcels, ackParcel{})
			}
		}
		t.parcels[at].groups = append(t.parcels[at].groups, g)
	}
	return t.parcels[:n]
}

// takes tells whether the parcel may be joined by a group.
func (p *ackParcel) takes(g *ackGroup) bool {
	items, bytes := g.items, g.bytes
	for _, other := range p.groups {
		items, bytes = items+other.items, bytes+other.bytes
	}
	return p.groups[0].job == g.job && items <= scriptItems && bytes <= scriptBytes
}

// job is the hash of the groups' job.
func (p *ackParcel) job() string {
	key, _ := p.groups[0].args[keyAt].(string)
	return key
}

// call are the arguments of EVALSHA.
func (p *ackParcel) call(s *Store) []any {
	if len(p.groups) == 1 {
		return p.groups[0].args
	}
	p.args = append(p.args[:0], "evalsha", s.form(severalScript).hash, 1, p.groups[0].args[keyAt], nil)
	for _, g := range p.groups {
		own := g.args[clockAt+1:]
		p.args = append(append(p.args, len(own)), own...)
	}
	return p.args
}

// forget lets go of the groups, and of what the arguments point to.
func (p *ackParcel) forget() {
	clear(p.groups)
	clear(p.args)
	p.groups, p.args = p.groups[:0], p.args[:0]
	if cap(p.args) > mostKept {
		p.args = nil
	}
}

// unwrap answers the groups of a parcel from the reply of acknowledge_several.lua, and appends those that it has left
// alone to apart.
func (s *Store) unwrap(apart []ackParcel, p *ackParcel, value any) []ackParcel {
	r, err := s.receive(severalScript, p.groups[0].job, value, false)
	if err == nil && (r.word != wordOK || len(r.body) != len(p.groups)) {
		err = badReply(severalScript.verb, r, fmt.Errorf("%d bodies for %d calls", len(r.body), len(p.groups)))
	}
	for i, g := range p.groups {
		if err != nil {
			s.answer(g, nil, false, err)
			continue
		}
		what, refusal := decided, error(nil)
		if failure, failed := r.body[i].(redis.Error); failed {
			what, refusal = judge(failure, true)
		}
		if body, _ := r.body[i].([]any); what == notRun || refusal == nil && len(body) == 0 {
			apart = append(apart, ackParcel{groups: []*ackGroup{g}})
			continue
		}
		s.answer(g, []any{wordOK, r.now, r.body[i]}, false, refusal)
	}
	return apart
}
