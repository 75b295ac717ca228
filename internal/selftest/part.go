package selftest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// part is the worker's part of a completed checkpoint.
type part struct {
	id   int64
	text []byte
	keys []string
	// digest is the same for the same entries, in whatever order and with whatever spaces.
	digest [sha256.Size]byte
}

// equals tells whether two parts have the same entries.
func (a part) equals(b part) bool { return a.digest == b.digest }

func (p *play) latestPart(ctx context.Context) (part, error) {
	var latest checkpoint
	if err := p.call(ctx, http.MethodGet, "/checkpoints/latest", nil, &latest); err != nil {
		return part{}, err
	}
	return p.partOf(ctx, latest.ID)
}

func (p *play) partOf(ctx context.Context, id int64) (part, error) {
	found := part{id: id}
	path := fmt.Sprintf("/checkpoints/%d/restore?taskId=%s", id, url.QueryEscape(p.task))
	if err := p.call(ctx, http.MethodGet, path, nil, &found.text); err != nil {
		return part{}, err
	}
	var entries []string
	for line := range strings.Lines(string(found.text)) {
		var entry struct {
			Key   string
			Value json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			return part{}, fmt.Errorf("reading a restore: %w", err)
		}
		var value bytes.Buffer
		if err := json.Compact(&value, entry.Value); err != nil {
			return part{}, fmt.Errorf("reading a restore: %w", err)
		}
		found.keys = append(found.keys, entry.Key)
		entries = append(entries, fmt.Sprintf("%q %s\n", entry.Key, &value))
	}
	slices.Sort(entries)
	found.digest = sha256.Sum256([]byte(strings.Join(entries, "")))
	return found, nil
}

// remember keeps the first two parts of the first life that hands anything in: what a worker
// does that begins with nothing.
func (p *play) remember(ctx context.Context, id int64) error {
	if len(p.fresh) == 2 || len(p.fresh) == 1 && p.number != p.freshLife {
		return nil
	}
	first, err := p.partOf(ctx, id)
	if err == nil {
		p.fresh, p.freshLife = append(p.fresh, first), p.number
	}
	return err
}

// partsSince are those of the first checkpoints, at most two, that completed with what was sent since the mark.
func (p *play) partsSince(ctx context.Context, mark int) ([]part, error) {
	if err := p.quiet(ctx); err != nil { // the kit may hear of a checkpoint's end before the worker does
		return nil, err
	}
	var parts []part
	asked := map[int64]bool{}
	for _, request := range p.front.Requests()[mark:] {
		id := number(checkpointOf(request))
		if id == nil || request.Status/100 != 2 || !acknowledges(request) || asked[*id] || len(parts) == 2 {
			continue
		}
		asked[*id] = true
		c, err := p.get(ctx, *id)
		if _, gone := errors.AsType[*refusal](err); gone || err == nil && c.Status != "completed" {
			continue
		}
		if err != nil {
			return nil, err
		}
		found, err := p.partOf(ctx, *id)
		if err != nil {
			return nil, err
		}
		parts = append(parts, found)
	}
	return parts, nil
}

// repeatsBeginning tells whether what was handed in since a restart, from another state, begins as after the fresh start.
func (p *play) repeatsBeginning(restored part, handedIn []part) bool {
	return len(p.fresh) > 0 && len(handedIn) > 0 && !restored.equals(p.fresh[0]) && handedIn[0].equals(p.fresh[0])
}

// usesRestore restarts a worker once more that has repeated its beginning after a restart, since the
// mark, although it had been given another part (before).
//
// One equal part proves nothing: a state may come round. Twice, from two different states, is worth a word. When
// the second part is that of the fresh start, too, and another than the first, the worker began anew, and that
// is what a worker does that ignores what it reads. A state that does not change is never blamed.
func (p *play) usesRestore(ctx context.Context, before part, mark int) error {
	handedIn, err := p.partsSince(ctx, mark)
	if err != nil || !p.repeatsBeginning(before, handedIn) {
		return err
	}
	if well, err := p.takesPart(ctx); !well || err != nil {
		return err
	}
	if handedIn, err = p.partsSince(ctx, mark); err != nil {
		return err
	}
	latest, err := p.latestPart(ctx)
	if err != nil || latest.equals(p.fresh[0]) {
		return err
	}
	again := p.mark()
	if err := p.restart(ctx, nil); err != nil {
		return err
	}
	if well, err := p.restored(ctx, again, latest, p.timeout); !well || err != nil {
		return err
	}
	if well, err := p.takesPart(ctx); !well || err != nil {
		return err
	}
	secondLife, err := p.partsSince(ctx, again)
	if err != nil || !p.repeatsBeginning(latest, secondLife) {
		return err
	}
	const do = "Take every entry of the restore into the state before the work begins."
	if len(p.fresh) == 2 && len(handedIn) == 2 && handedIn[1].equals(p.fresh[1]) && !p.fresh[1].equals(p.fresh[0]) {
		p.wrong("It reads its restore and ignores it: after a restart it handed in the same parts as after its very first start, one after the other.",
			"Its state is lost in each restart, and the next checkpoint makes that final.", do)
		return nil
	}
	p.advise("After each of two restarts the first part that it handed in was that of its very first start, although it had restored another one.",
		"Unless its state comes round to that by itself, it does not use what it reads, and its state is lost.", do)
	return nil
}
