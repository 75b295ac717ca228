package doors

import (
	"crypto/sha256"
	"slices"
	"strings"
)

// Role is what a caller may do in its jobs. None includes another.
type Role string

// The roles. Any is none that a caller is given: it is what an operation demands that every
// known caller may use.
const (
	Trigger Role = "trigger" // start, recover and abort
	Ack     Role = "ack"     // upload, acknowledge, decline, ask for more time
	State   Role = "state"   // write shared state
	Read    Role = "read"    // read whatever there is, parts included
	Admin   Role = "admin"   // settings, deletion, completion by hand
	Events  Role = "events"  // follow what happens
	Any     Role = "any"
)

// Roles lists the roles that a caller can be given.
func Roles() []Role { return []Role{Trigger, Ack, State, Read, Admin, Events} }

// Caller is one who may do something: a token or a client certificate of the file, or
// [Anyone]. The nil Caller is a stranger, who may do nothing.
type Caller struct {
	// Name is what logs and refusals call it; "" is Anyone.
	Name  string
	roles []Role
	// jobs and tasks are patterns; nil is all.
	jobs, tasks []string
	// hash is the token's, zero for a certificate.
	hash [sha256.Size]byte
	// revoked is closed when the file does not have this caller any more, as it is; nil
	// for one that stays for ever.
	revoked chan struct{}
	// distrusted waits until the caller is not believed any more or done is closed, and tells which;
	// nil for one whom nothing but the file stands for.
	distrusted func(done <-chan struct{}) bool
}

// Anyone is whoever reaches a server that demands no tokens. It may do everything.
var Anyone = &Caller{roles: append(Roles(), Any)}

// Has tells whether the caller has the role, in whatever jobs.
func (c *Caller) Has(role Role) bool {
	return c != nil && (role == Any || slices.Contains(c.roles, role))
}

// InJob tells whether the caller may do what its roles are for in the job.
func (c *Caller) InJob(job string) bool { return c != nil && anyMatches(c.jobs, job) }

// InEveryJob tells whether the caller is bound to no jobs.
func (c *Caller) InEveryJob() bool { return c != nil && c.jobs == nil }

// AsTask tells whether the caller may upload, acknowledge and decline for the task.
func (c *Caller) AsTask(task string) bool { return c != nil && anyMatches(c.tasks, task) }

// Lasting tells whether the caller stays for ever, so that nobody has to wait for its end.
func (c *Caller) Lasting() bool { return c == nil || c.revoked == nil && c.distrusted == nil }

// Revoked waits until the caller may do nothing any more, or other things than it could, and
// tells so; false is that done was closed before. Call it for one that is not [Caller.Lasting].
func (c *Caller) Revoked(done <-chan struct{}) bool {
	if c.distrusted == nil {
		select {
		case <-c.revoked:
			return true
		case <-done:
			return false
		}
	}
	ends, distrusted := make(chan struct{}), make(chan bool, 1)
	defer close(ends)
	go func() { distrusted <- c.distrusted(ends) }()
	select {
	case <-c.revoked:
	case <-distrusted:
	case <-done:
		return false
	}
	return true
}

// Believed gives the caller as one who is believed only until distrusted returns true. That
// returns false soon after done is closed.
func (c *Caller) Believed(distrusted func(done <-chan struct{}) bool) *Caller {
	if c == nil {
		return nil
	}
	believed := *c
	believed.distrusted = distrusted
	return &believed
}

// same tells whether two callers may do the same under the same name.
func (c *Caller) same(other *Caller) bool {
	return c.Name == other.Name && slices.Equal(c.roles, other.roles) &&
		slices.Equal(c.jobs, other.jobs) && slices.Equal(c.tasks, other.tasks)
}

func anyMatches(patterns []string, name string) bool {
	return patterns == nil || slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, name) })
}

// matches tells whether a name is of the pattern's form, in which * is any run of
// characters, none included, and everything else stands for itself.
func matches(pattern, name string) bool {
	head, rest, wild := strings.Cut(pattern, "*")
	name, fits := strings.CutPrefix(name, head)
	if !fits || !wild {
		return fits && name == ""
	}
	for {
		var middle string
		middle, rest, wild = strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(name, middle)
		}
		at := strings.Index(name, middle)
		if at < 0 {
			return false
		}
		name = name[at+len(middle):] // the first place leaves most for the others
	}
}
