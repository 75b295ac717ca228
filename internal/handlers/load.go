package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/doors"
	"github.com/checkpointd/checkpointd/internal/load"
)

// largeBytes is from how many bytes on a body, value or answer is counted as buffered. What
// is smaller is bounded well enough by how many requests there are at once.
const largeBytes = 16 << 10

// holding is what a request holds of the server's bounds.
type holding struct {
	who  load.Who
	slot *load.Bound
	// buffered is in bytes.
	buffered int64
}

// takeSlot takes the request's place in its class.
func (s *server) takeSlot(ctx context.Context, e *exchange, class load.Class) error {
	slots := s.options.Load.Of(class)
	if slots == nil || slots.TryTake() {
		e.holds.slot = slots
		return nil
	}
	if err := slots.Take(ctx, e.holds.who, 1); err != nil {
		return s.shed(err, class)
	}
	e.holds.slot = slots
	return nil
}

// giveSlot gives the place back, also where there is none any more.
func (e *exchange) giveSlot() {
	if slots := e.holds.slot; slots != nil {
		e.holds.slot = nil
		slots.Give(e.holds.who, 1)
	}
}

// takeBuffered takes memory for the rest of the request.
func (s *server) takeBuffered(e *exchange, bytes int64) error {
	if e.transfer != nil {
		e.transfer.endTurn() // or those who have the memory could not get on, and give it back
	}
	if err := s.options.Load.Buffered.Take(e.request.Context(), e.holds.who, bytes); err != nil {
		return s.shed(err, buffered)
	}
	// What was taken at once is given back at once, so it is cut to what there is here, too.
	e.holds.buffered += min(bytes, s.options.Load.Limits().BufferedBytes)
	return nil
}

// release gives back whatever the request holds, also where that is nothing any more.
func (s *server) release(e *exchange) {
	e.giveSlot()
	if held := e.holds.buffered; held > 0 {
		e.holds.buffered = 0
		s.options.Load.Buffered.Give(e.holds.who, held)
	}
}

// buffered stands beside the classes where it is memory that there is too little of.
const buffered load.Class = "buffered"

// bounded says what there are so many of at once, and the limit's name.
var bounded = map[load.Class]struct{ what, limit string }{
	load.Small:   {"requests", "requests"},
	load.List:    {"reads of what may be long", "lists"},
	load.Heavy:   {"heavy requests", "heavyRequests"},
	load.Upload:  {"uploads", "uploads"},
	load.Restore: {"restores", "restores"},
	load.Stream:  {"streams and waiting requests", "streams"},
	buffered:     {"bytes of large bodies, values and answers", "bufferedBytes"},
}

// shed makes a problem of why a request got no place.
func (s *server) shed(err error, class load.Class) error {
	refusal, is := errors.AsType[*load.RefusalError](err)
	if !is {
		return err // its client has gone
	}
	name := bounded[class]
	e := &coordinator.Error{Code: coordinator.CodeTooManyRequests, Limit: name.limit, RetryAfter: refusal.After}
	const next = "Nothing was changed. Let some of them end, and repeat the request after Retry-After."
	switch refusal.Reason {
	case load.JobShare, load.ClientShare:
		whose := "job"
		e.Limit = "jobShare"
		if refusal.Reason == load.ClientShare {
			whose, e.Limit = "client", "clientShare"
		}
		e.Detail = fmt.Sprintf("The %s has its share of the %d %s that are taken at once (%s and %s in GET /limits). %s",
			whose, refusal.Size, name.what, e.Limit, name.limit, next)
	case load.Crowd:
		e.Detail = fmt.Sprintf("More requests of this client for this job wait than may, while the %d %s that are taken at once (%s in GET /limits) run. %s",
			refusal.Size, name.what, name.limit, next)
	default:
		all := "all"
		if class == buffered {
			all = "too much"
		}
		e.Code = coordinator.CodeOverloaded
		e.Detail = fmt.Sprintf("The server has %s of the %d %s that are taken at once (%s in GET /limits). Nothing was changed. Repeat the request after Retry-After, or at another replica.",
			all, refusal.Size, name.what, name.limit)
	}
	return e
}

// clientOf names who sent a request: by the token, else by the address. Of an IPv6 address it
// is the network, in which one machine has as many as it likes.
func clientOf(r *http.Request, caller *doors.Caller) string {
	if caller != nil && caller.Name != "" {
		return caller.Name
	}
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		host, _, _ := strings.Cut(r.RemoteAddr, ":") // not of a TCP connection
		return host
	}
	const network = 64
	ip := address.Addr().Unmap()
	if prefix, err := ip.Prefix(network); ip.Is6() && err == nil {
		return prefix.String()
	}
	return ip.String()
}

// limitAnswer bounds how long a client may take to read an answer that is in memory.
func (s *server) limitAnswer(e *exchange) {
	_ = http.NewResponseController(e.writer).SetWriteDeadline(time.Now().Add(s.options.RestoreIdle)) // a server without deadlines waits
}

// keepAnswer counts an answer as buffered for as long as its client takes to read it. Every answer that
// is no stream comes through here.
func (s *server) keepAnswer(e *exchange, response any) error {
	size := sizeOfAnswer(response)
	if size <= largeBytes {
		return nil
	}
	err := s.takeBuffered(e, int64(size))
	if err != nil && e.request.Method != http.MethodGet && e.request.Method != http.MethodHead {
		return nil // It has happened, and its answer is no longer than what was sent and is counted, or nearly.
	}
	return err
}
