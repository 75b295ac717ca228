package handlers

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/operations"
)

// quoted is a strong entity tag as a header has it.
func quoted(tag string) string { return `"` + tag + `"` }

// entityTags is one or more entity tags with commas between (RFC 9110 section 8.8.3).
var (
	entityTags = regexp.MustCompile(`^[ \t,]*(?:W/)?"[!#-~\x80-\xff]*"(?:[ \t]*,[ \t,]*(?:W/)?"[!#-~\x80-\xff]*")*[ \t,]*$`)
	entityTag  = regexp.MustCompile(`(?:W/)?"[!#-~\x80-\xff]*"`)
)

// tagsOf splits If-Match or If-None-Match into tags with their quotes; star is the asterisk.
func tagsOf(name, header string) (tags []string, star bool, err error) {
	if strings.TrimSpace(header) == "*" {
		return nil, true, nil
	}
	if !entityTags.MatchString(header) {
		return nil, false, invalidParameter(name, `It must be * or entity tags in double quotes with commas between, as an ETag header has them.`)
	}
	return entityTag.FindAllString(header, -1), false, nil
}

// checkTags refuses a read with an If-None-Match that is none, before the store is asked
// and before anything is waited for.
func checkTags(r *http.Request, o *operations.Operation) error {
	header := r.Header["If-None-Match"]
	if !o.Reads("If-None-Match") || len(header) == 0 || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	_, _, err := tagsOf("If-None-Match", header[0]) // several are refused with the parameters
	return err
}

// unchanged tells whether a read may answer 304: If-None-Match has the current tag. Weak
// and strong spellings of a tag are alike here.
func unchanged(ifNoneMatch *string, tag string) bool {
	if ifNoneMatch == nil {
		return false
	}
	tags, anything, _ := tagsOf("If-None-Match", *ifNoneMatch) // checkTags has refused what is none
	return anything || slices.ContainsFunc(tags, func(candidate string) bool { return strings.TrimPrefix(candidate, "W/") == quoted(tag) })
}

// weakened says, where a write was refused for its If-Match, that something on the way has made a weak tag of ours: the
// server gives strong ones only. Compression does so (nginx with gzip), because the bytes are others then. RFC 9110
// section 13.1.1 lets a weak tag match nothing.
func weakened(r *http.Request, refusal *coordinator.Error) *coordinator.Error {
	header := strings.Join(r.Header.Values("If-Match"), ",")
	if refusal.Code != coordinator.CodePreconditionFailed || !strings.Contains(header, `W/"`) {
		return refusal
	}
	told := *refusal
	told.Detail += ` If-Match has a weak tag (W/"…"), which matches nothing. The server's tags are strong, so a proxy has weakened this one, as compression does: ` +
		`send it without the W/, or ask for it with Accept-Encoding: identity, or let the proxy not compress these answers (docs/proxies.md).`
	return &told
}

// precondition reads the conditions of a write. A weak tag is never equal to anything in
// If-Match, so it keeps its quotes and finds no partner.
func precondition(ifMatch, ifNoneMatch *string) (coordinator.Precondition, error) {
	var condition coordinator.Precondition
	if ifMatch != nil {
		tags, anything, err := tagsOf("If-Match", *ifMatch)
		if err != nil {
			return condition, err
		}
		if anything {
			tags = []string{"*"}
		}
		for _, tag := range tags {
			condition.IfMatch = append(condition.IfMatch, strings.Trim(tag, `"`))
		}
	}
	if ifNoneMatch != nil {
		if strings.TrimSpace(*ifNoneMatch) != "*" {
			return condition, invalidParameter("If-None-Match", "A write takes * only: it acts when there is nothing yet.")
		}
		condition.IfNoneMatch = true
	}
	return condition, nil
}
