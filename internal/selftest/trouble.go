package selftest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/checkpointtest/fault"
)

func lostRequest(ctx context.Context, p *play) error {
	p.front.Script(fault.On(fault.Upload).CutBefore(), fault.On(fault.Ack).CutBefore())
	_, err := p.takesPart(ctx)
	return err
}

func lostAnswer(ctx context.Context, p *play) error {
	p.front.Script(fault.On(fault.Upload).CutAfter(), fault.On(fault.Ack).CutAfter())
	since := p.mark()
	id, err := p.trigger(ctx, 0, p.task, other)
	if err != nil {
		return err
	}
	c, err := p.ended(ctx, id)
	if err != nil || !p.tookPart(c, since) {
		return err
	}
	if err := p.watch(ctx, p.windows.settling); err != nil {
		return p.ifExited(err, "It ended because the answer to its acknowledgement was lost.")
	}
	if c, err = p.get(ctx, id); err != nil {
		return err
	}
	sent := sends(p.front.Requests()[since:], id)
	switch {
	case c.Status == "aborted":
		p.wrong(fmt.Sprintf("It ended checkpoint %d, which had its part already, because the answer was lost: %s", id, c.Failure.Message),
			"The acknowledgement counted. A decline after that throws away what all workers have handed in.",
			"Send the same again, or ask GET /checkpoints/{id}/tasks/{taskId}; 409 ack_conflict and duplicate both mean: it is in, go on.")
		return nil
	case len(sent) > repeatsMax+2:
		p.wrong(fmt.Sprintf("It handed in its part of checkpoint %d %d times, although the later ones were answered.", id, len(sent)),
			"It does not come to the next checkpoint.", "409 ack_conflict and duplicate both mean: the part is in, go on.")
	}
	digests := map[string]bool{}
	for _, request := range sent {
		if request.BodyDigest != "" && acknowledges(request) {
			digests[request.BodyDigest] = true
		}
	}
	if len(digests) > 1 {
		p.advise("What it sent after the lost answer is another part than what it had sent.",
			"The checkpoint has the first one. Whatever the worker prepared for the second, such as a transaction of a sink, is not what a restore goes back to.",
			"Keep the part until its acknowledgement is answered, and send the same bytes again.")
	}
	if err := p.acknowledgeOther(ctx, id); err != nil {
		return err
	}
	_, err = p.takesPart(ctx)
	return err
}

func refused(ctx context.Context, p *play) error {
	p.front.Script(
		fault.On(fault.Upload).RetryAfter(p.windows.asked).Refuse("store_unavailable").Always(),
		fault.On(fault.Ack).RetryAfter(p.windows.asked).Refuse("store_unavailable").Always(),
	)
	since := p.mark()
	id, err := p.trigger(ctx, 0, p.task)
	if err != nil {
		return err
	}
	err = p.until(ctx, since, p.timeout, func(r fault.Requests) bool { return len(sends(r, id)) > 0 })
	if err == nil {
		err = p.watch(ctx, p.windows.outage)
	}
	if err != nil && ctx.Err() == nil && !p.exited() {
		err = nil // it sent nothing, which is judged below
	}
	if err != nil {
		return p.ifExited(err, "It ended because of a 503.")
	}
	during := p.front.Requests()[since:]
	p.front.Clear()
	if took, err := p.handedIn(ctx, id, since); !took || err != nil {
		return err
	}
	if n := len(during); over(n, busy, p.windows.outage) {
		p.tell(during)
		p.wrong(fmt.Sprintf("It sent %d requests within %s, while its part was refused with Retry-After: %d.", n, p.windows.outage, int(p.windows.asked.Seconds())),
			"A fleet that asks in a tight loop keeps a server down that is coming back.",
			"Wait for as long as Retry-After says, and longer each time where it says nothing.")
		return nil
	}
	sent := sends(p.front.Requests()[since:], id)
	for i := 1; i < len(sent); i++ {
		if gap := sent[i].At.Sub(sent[i-1].End); sent[i-1].Status == http.StatusServiceUnavailable && gap < p.windows.excused() {
			p.advise(fmt.Sprintf("It came again after %s, although Retry-After asked for %s.", gap.Round(time.Millisecond), p.windows.asked),
				"The server says so where it knows that sooner is for nothing.", "Wait for as long as Retry-After says.")
			break
		}
	}
	return nil
}

func serverAway(ctx context.Context, p *play) error {
	p.front.Down()
	id, err := p.trigger(ctx, 0, p.task)
	if err != nil {
		return err
	}
	if err := p.watch(ctx, p.windows.outage); err != nil {
		return p.ifExited(err, "It ended because the server refused connections.")
	}
	since := p.mark()
	if err := p.front.Up(); err != nil {
		return err
	}
	return p.comesBack(ctx, id, since)
}

// comesBack waits for the worker to take part in what was triggered while it was cut off.
func (p *play) comesBack(ctx context.Context, id int64, since int) error {
	_, err := p.handedIn(ctx, id, since)
	return err
}

// held tells whether a request keeps a connection open.
func held(r fault.Request) bool { return !r.Over && (r.Is(fault.Events) || r.Query.Get("wait") != "") }

func connectionCut(ctx context.Context, p *play) error {
	err := p.until(ctx, 0, min(p.timeout, 5*time.Second), func(r fault.Requests) bool { return len(r.Where(held)) > 0 })
	if ctx.Err() != nil {
		return err
	}
	if err != nil && !p.exited() {
		p.note = "your worker keeps neither an event stream nor a long poll open"
		return nil
	}
	streamed := len(p.front.Requests().Of(fault.Events).Where(held)) > 0
	since := p.mark()
	p.front.Script(fault.On(fault.Any).CutBefore().Always())
	p.front.Cut(fault.Any)
	id, err := p.trigger(ctx, 0, p.task)
	if err != nil {
		return err
	}
	p.front.Clear()
	if err := p.comesBack(ctx, id, since); err != nil || !streamed {
		return err
	}
	for _, request := range p.front.Requests()[since:].Of(fault.Events) {
		if request.Header.Get("Last-Event-ID") == "" && request.Query.Get("lastEventId") == "" {
			p.advise("It opened its event stream again without Last-Event-ID.",
				"What happened between the two streams it is not told.",
				"Keep the last id of the stream and send it as Last-Event-ID, or ask for what is pending each time the stream begins.")
			return nil
		}
	}
	return nil
}

func proxyPage(ctx context.Context, p *play) error {
	routes := []fault.Route{fault.List, fault.Events, fault.Upload, fault.Ack}
	for _, route := range routes {
		p.front.Script(fault.On(route).Answer(badGateway))
	}
	p.front.Cut(fault.List)
	p.front.Cut(fault.Events)
	if well, err := p.takesPart(ctx); !well || err != nil {
		return err
	}
	p.front.Clear()
	p.front.Script(fault.On(fault.List).Garbage(), fault.On(fault.Events).Garbage())
	p.front.Cut(fault.List)
	p.front.Cut(fault.Events)
	since := p.mark()
	id, err := p.trigger(ctx, 0, p.task)
	if err != nil {
		return err
	}
	if _, err := p.ended(ctx, id); err != nil {
		return err
	}
	if p.exited() { // nothing is lost
		p.well = false
		p.advise("It ended because its question was answered 200 with a page of HTML, as a login page or a proxy does.",
			"Work stops until somebody starts it again.", "Take what is no JSON for no answer, and ask again.")
		return p.abort(ctx, id)
	}
	return p.comesBack(ctx, id, since)
}

// badGateway is what proxies say when the server behind them is away.
func badGateway(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = w.Write([]byte("<html><h1>502 Bad Gateway</h1></html>")) // who asked may have gone
}

func unknownMembers(ctx context.Context, p *play) error {
	p.front.Script(fault.On(fault.Any).Alter(enrich).Always())
	p.front.Cut(fault.List)
	p.front.Cut(fault.Events)
	for range 2 {
		if well, err := p.takesPart(ctx); !well || err != nil {
			return err
		}
	}
	p.front.Clear()
	p.front.Cut(fault.Events)
	return nil
}

const (
	unknownMember = `"selftestUnknown":{"a":[1,null]}`
	unknownEvents = ": a comment\n\nevent: selftest.unknown\ndata: {\"type\":\"selftest.unknown\"}\n\nselftest: unknown\n\n"
)

// enrich adds what a later version of the contract might.
func enrich(response *http.Response) error {
	media, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	switch media {
	case "text/event-stream":
		response.Body = joined{io.MultiReader(strings.NewReader(unknownEvents), response.Body), response.Body}
	case "application/json", "application/problem+json":
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return fmt.Errorf("reading an answer: %w", err)
		}
		text = bytes.ReplaceAll(text, []byte(`{"checkpointId":`), []byte(`{`+unknownMember+`,"checkpointId":`))
		if !bytes.HasPrefix(text, []byte(`{`+unknownMember)) && bytes.HasPrefix(text, []byte(`{"`)) {
			text = append([]byte(`{`+unknownMember+`,`), text[1:]...)
		}
		response.Body = io.NopCloser(bytes.NewReader(text))
		response.ContentLength = int64(len(text))
		response.Header.Del("Content-Length")
	}
	return nil
}

// joined reads from one thing and closes another.
type joined struct {
	io.Reader
	io.Closer
}
