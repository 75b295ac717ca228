package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Front is a listening address that passes requests on to a server. Its methods may be called
// from several goroutines.
type Front struct {
	// URL is where it answers, such as "http://127.0.0.1:40124".
	URL string

	address   string
	target    *url.URL
	transport *http.Transport
	serving   sync.WaitGroup

	lock    sync.Mutex
	server  *http.Server // nil while the front is down
	script  []*Rule
	log     []*exchange
	open    map[*exchange]context.CancelFunc
	changed chan struct{} // closed and replaced when something happens
}

// Listen opens a front at an address, "127.0.0.1:0" for any free port, before the server at the
// target, a URL such as "http://127.0.0.1:8080". Close ends it.
func Listen(address, target string) (*Front, error) {
	base, err := url.Parse(target)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("fault: %q is no URL of a server", target)
	}
	f := &Front{
		address: address, target: base,
		open: map[*exchange]context.CancelFunc{}, changed: make(chan struct{}),
		// A connection that is kept could break for reasons of its own.
		transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, ExpectContinueTimeout: continueTimeout},
	}
	return f, f.Up()
}

const (
	// continueTimeout is how long the server may take to say whether it wants a body; after that
	// it is sent, as clients do.
	continueTimeout = 5 * time.Second
	headerTimeout   = 10 * time.Second
)

// Up opens the front again on its address after Down.
func (f *Front) Up() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.server != nil {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", f.address)
	if err != nil {
		return fmt.Errorf("fault: %w", err)
	}
	f.address = listener.Addr().String() // the port that ":0" became
	if f.URL == "" {
		f.URL = "http://" + f.address
	}
	server := &http.Server{Handler: http.HandlerFunc(f.serve), ReadHeaderTimeout: headerTimeout}
	f.server = server
	f.serving.Go(func() { _ = server.Serve(listener) }) // it ends with Down
	return nil
}

// Down breaks off every connection and has new ones refused, as a host does whose server has
// died.
func (f *Front) Down() {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.server == nil {
		return
	}
	_ = f.server.Close() // it closes what it can
	f.server = nil
	f.cut(Any)
}

// Close ends the front for good.
func (f *Front) Close() {
	f.Down()
	f.serving.Wait()
	f.transport.CloseIdleConnections()
}

// Script adds rules after those that there are. The first rule that a request fits and that has
// not come to its end is the one that applies.
func (f *Front) Script(rules ...Rule) {
	f.lock.Lock()
	defer f.lock.Unlock()
	for _, rule := range rules {
		f.script = append(f.script, &rule)
	}
}

// Clear drops all rules. What they did to requests that are under way goes on.
func (f *Front) Clear() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.script = nil
}

// Cut breaks off the requests of a route that are under way, such as all event streams. It tells
// how many there were.
func (f *Front) Cut(route Route) int {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.cut(route)
}

func (f *Front) cut(route Route) (cut int) {
	for x, end := range f.open {
		if x.note.Is(route) {
			end()
			cut++
		}
	}
	return cut
}

// Requests are those that have arrived so far.
func (f *Front) Requests() Requests {
	requests, _ := f.look()
	return requests
}

// Wait waits until what has arrived is enough: the function is asked at once, and again
// whenever a request arrives, has been read, gets its answer or ends. When ctx ends first, there is its cause
// beside what has arrived until then.
func (f *Front) Wait(ctx context.Context, enough func(Requests) bool) (Requests, error) {
	for {
		requests, changed := f.look()
		if enough(requests) {
			return requests, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return requests, context.Cause(ctx)
		}
	}
}

func (f *Front) look() (Requests, <-chan struct{}) {
	f.lock.Lock()
	defer f.lock.Unlock()
	requests := make(Requests, len(f.log))
	for i, x := range f.log {
		requests[i] = x.note.clone()
	}
	return requests, f.changed
}

// tell wakes who waits. The lock is held.
func (f *Front) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// errCut is why a request ends that is broken off.
var errCut = errors.New("fault: cut")

// begin notes a request and finds the rule for it. There is no exchange when the front is down.
func (f *Front) begin(r *http.Request) (*exchange, Rule, context.Context) {
	ctx, end := context.WithCancelCause(r.Context())
	x := newExchange(f, r)
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.server == nil {
		end(errCut)
		return nil, Rule{}, ctx
	}
	f.serving.Add(1)
	f.log = append(f.log, x)
	f.open[x] = func() { end(errCut) }
	defer f.tell()
	for i, rule := range f.script {
		if !x.note.Is(rule.route) || rule.where != nil && !rule.where(x.note.clone()) {
			continue
		}
		if rule.skip > 0 {
			rule.skip--
			continue
		}
		if rule.times--; rule.times <= 0 {
			f.script = slices.Delete(slices.Clone(f.script), i, i+1)
		}
		x.note.Fault = rule.name
		return x, *rule, ctx
	}
	return x, On(Any), ctx
}

// end notes that a request is over.
func (f *Front) end(x *exchange) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.open[x]()
	delete(f.open, x)
	x.note.Over, x.note.End = true, time.Now()
	f.tell()
	f.serving.Done()
}
