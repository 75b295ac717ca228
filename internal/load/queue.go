package load

import "container/list"

// waiter is one request in a queue.
type waiter struct {
	who     Who
	units   int64
	granted chan struct{}
	// element is its place, nil once it has left.
	element *list.Element
}

func (w *waiter) queued() bool { return w.element != nil }

// verdict is what becomes of the one whose turn it is.
type verdict int

const (
	taken  verdict = iota // it has what it wants and leaves
	passes                // the next one's turn
	holds                 // nobody's turn until there is more
)

// queue is where clients take turns, and the jobs of each among themselves.
type queue struct{ clients ring[ring[list.List]] }

func newQueue() queue { return queue{clients: ring[ring[list.List]]{}} }

// ring is a round of lines, the next to have its turn in front.
type ring[L any] struct {
	round list.List
	lines map[string]*list.Element
}

type named[L any] struct {
	name string
	line L
}

func (r *ring[L]) of(name string) *L {
	element := r.lines[name]
	if element == nil {
		if r.lines == nil {
			r.lines = map[string]*list.Element{}
		}
		element = r.round.PushBack(&named[L]{name: name})
		r.lines[name] = element
	}
	return &element.Value.(*named[L]).line //nolint:forcetypeassert // The ring holds nothing else.
}

func (r *ring[L]) drop(name string) {
	r.round.Remove(r.lines[name])
	delete(r.lines, name)
}

// turn visits each line once at most, from the one whose turn it is, until visit says to
// stop. A line that was visited goes to the end, unless it holds its turn.
func (r *ring[L]) turn(visit func(name string, line *L) verdict) verdict {
	for range r.round.Len() {
		front := r.round.Front()
		line := front.Value.(*named[L]) //nolint:forcetypeassert // As above.
		v := visit(line.name, &line.line)
		if v == holds {
			return v
		}
		if r.lines[line.name] != nil {
			r.round.MoveToBack(front)
		}
		if v == taken {
			return v
		}
	}
	return passes
}

func (q *queue) push(w *waiter) {
	w.element = q.clients.of(w.who.Client).of(w.who.Job).PushBack(w)
}

// length is how many wait in the line of who.
func (q *queue) length(who Who) int {
	if q.clients.lines[who.Client] == nil {
		return 0
	}
	jobs := q.clients.of(who.Client)
	if jobs.lines[who.Job] == nil {
		return 0
	}
	return jobs.of(who.Job).Len()
}

func (q *queue) remove(w *waiter) {
	jobs := q.clients.of(w.who.Client)
	line := jobs.of(w.who.Job)
	line.Remove(w.element)
	w.element = nil
	if line.Len() == 0 {
		jobs.drop(w.who.Job)
	}
	if jobs.round.Len() == 0 {
		q.clients.drop(w.who.Client)
	}
}

// next takes the one out whose turn it is, nil if judge lets nobody have it.
func (q *queue) next(judge func(*waiter) verdict) *waiter {
	var found *waiter
	q.clients.turn(func(_ string, jobs *ring[list.List]) verdict {
		return jobs.turn(func(_ string, line *list.List) verdict {
			w := line.Front().Value.(*waiter) //nolint:forcetypeassert // A line has waiters, and at least one.
			v := judge(w)
			if v == taken {
				found = w
				q.remove(w)
			}
			return v
		})
	})
	return found
}
