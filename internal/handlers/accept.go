package handlers

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/operations"
)

// checkAccept refuses only what Accept rules out: a client that accepts problems but not
// the success is taken to mean both.
func checkAccept(r *http.Request, o *operations.Operation) error {
	ranges := r.Header.Values("Accept")
	if len(o.Produces) == 0 || len(ranges) == 0 {
		return nil
	}
	header := strings.Join(ranges, ",")
	// The success comes first: a range of everything lets the problem through, and takes back nothing
	// that was refused by its own name with q=0.
	for _, mediaType := range o.Produces {
		if accepts(header, mediaType) {
			return nil
		}
	}
	if !slices.ContainsFunc(o.Produces, func(mediaType string) bool { return excludes(header, mediaType) }) && accepts(header, mediaProblem) {
		return nil
	}
	return &coordinator.Error{
		Code:   coordinator.CodeNotAcceptable,
		Detail: fmt.Sprintf("This is served as %s. Change the Accept header, or leave it out.", strings.Join(o.Produces, " or ")),
	}
}

// accepts tells whether an Accept header lets a media type through: the most specific
// range that matches decides (RFC 9110 section 12.5.1). An empty header accepts anything,
// and so does one that cannot be read.
func accepts(header, mediaType string) bool {
	major, _, _ := strings.Cut(mediaType, "/")
	best, accepted, readable := 0, false, false
	for part := range strings.SplitSeq(header, ",") {
		pattern, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		readable = true
		specificity := 0
		switch pattern {
		case mediaType:
			specificity = 3
		case major + "/*":
			specificity = 2
		case "*/*":
			specificity = 1
		}
		if specificity > best {
			best, accepted = specificity, weight(parameters["q"]) > 0
		}
	}
	return accepted || !readable
}

// excludes tells whether a header refuses a media type by its own name.
func excludes(header, mediaType string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if pattern, parameters, err := mime.ParseMediaType(part); err == nil && pattern == mediaType && weight(parameters["q"]) == 0 {
			return true
		}
	}
	return false
}

// weight is the q of a media range; one that is absent or cannot be read is 1.
func weight(q string) float64 {
	value, err := strconv.ParseFloat(q, 64)
	if err != nil {
		return 1
	}
	return value
}
