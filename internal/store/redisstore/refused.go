package redisstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// saying is what callers are told of an error reply: its own text may hold the name of a user or a key.
type saying struct {
	// mark begins the reply, or stands behind a hyphen in the middle of it: Redis 6.2 puts the cause of what
	// failed in a script into a sentence of its own.
	mark string
	says string
}

var sayings = []saying{
	{"NOAUTH ", "it wants a password, and --redis gives none or another user"},
	{"WRONGPASS ", "the user or the password in --redis is wrong, or the user is switched off"},
	{"ERR AUTH ", "--redis gives a password, and it has none"},
	{"ERR invalid password", "the password in --redis is wrong"},
	{"NOPERM ", noPermission},
	{"ERR DB index is out of range", noDatabase},
	{"ERR invalid DB index", noDatabase},
	{"ERR unknown command", unknownCommand},
	{"ERR Unknown Redis command", unknownCommand},
	{"ERR max number of clients reached", "it takes no more connections (maxclients)"},
	{"READONLY ", readOnly},
	{"MASTERDOWN ", "it is a replica that does not hear its master"},
	{"MISCONF ", "it takes no changes while it cannot write to its disk (MISCONF); its log says why"},
	{"NOREPLICAS ", "it takes no changes while it has fewer replicas than its min-replicas-to-write demands"},
	{"LOADING ", "it has started, and is loading its data"},
	{"BUSY ", "a script of somebody else keeps it busy"},
	{"MOVED ", "it is a node of a cluster that does not have the keys of this job"},
	{"ASK ", "the keys of this job are on their way to another node of the cluster"},
	{"TRYAGAIN ", "the keys of this job are on their way to another node of the cluster"},
	{"CLUSTERDOWN ", "its cluster is down: not all of its masters are there"},
	{"DENIED ", "it is in protected mode, and takes connections from its own machine only"},
}

const (
	noPermission   = "the user in --redis may not run a command, or may not touch a key, that the server needs; docs/redis.md has the rights"
	noDatabase     = "it does not have the database whose number is in --redis"
	unknownCommand = "it does not know a command that the server needs: renamed, switched off, or too old a Redis"
	readOnly       = "it is a read-only replica"
)

// says is what an error reply means, "" for one that is not known.
func says(text string) string {
	for _, known := range sayings {
		if strings.HasPrefix(text, known.mark) || strings.Contains(text, "-"+known.mark) {
			return known.says
		}
	}
	if strings.Contains(text, "The user executing the script can't") { // what an ACL forbids inside of a script
		return noPermission
	}
	return ""
}

// unavailable is the answer to a call that came to nothing, and did nothing. An error reply in err tells callers
// what Redis refuses; they hear that the storage does not answer only if it did not.
func unavailable(what string, err error) *coordinator.Error {
	cause := fmt.Errorf("redis %s: %w", what, err)
	if caused(err) {
		return coordinator.ErrStoreUnavailable(cause)
	}
	if lost, is := errors.AsType[unroutable](err); is {
		err = lost.cause
	}
	answered, isReply := errors.AsType[redis.Error](err)
	if !isReply {
		return coordinator.ErrStoreUnavailable(cause)
	}
	why := says(answered.Error())
	if why == "" {
		why = "it does not take a command that the server needs; the server's log has its words"
	}
	return coordinator.ErrStoreUnavailable(&coordinator.Cause{Says: "Redis refuses: " + why, Err: cause})
}

// caused tells whether err says what Redis refuses.
func caused(err error) bool {
	_, known := coordinator.CauseOf(err)
	return known
}

// isOurs tells of an error reply that our own script or data are to blame for: a script that failed in its middle, or a value
// of another type under a name of ours. Every other is a matter of how Redis is configured, or of the state that it is in.
func isOurs(text string) bool {
	switch {
	case says(text) != "":
		return false
	case strings.HasPrefix(text, "WRONGTYPE "), strings.Contains(text, "-WRONGTYPE "), strings.Contains(text, "user_script"),
		strings.HasPrefix(text, "ERR Script attempted"), strings.HasPrefix(text, "ERR Error "):
		return true
	default:
		return false
	}
}
