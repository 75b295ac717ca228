package handlers

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/checkpointd/checkpointd/internal/operations"
)

// waitParameter is how the contract calls the seconds that a call may wait.
const waitParameter = "wait"

// proxyWait is how long a request may wait at most unless its client asks for more itself: common proxies (nginx, an
// ALB) break a request off from which they hear nothing for 60 seconds, and answer 504.
const proxyWait = 50 * time.Second

// waitOf finds how long a request whose query was checked may wait, which the store's budget
// does not count.
func waitOf(r *http.Request, o *operations.Operation) time.Duration {
	if !o.Has(waitParameter) {
		return 0
	}
	wait, _ := strconv.Atoi(r.URL.Query().Get(waitParameter)) // none is 0
	return min(time.Duration(wait)*time.Second, max(proxyWait, preferredWait(r.Header.Values("Prefer"))))
}

// preferredWait reads the preference wait (RFC 7240), 0 where there is none. What is no preference is ignored, as that
// RFC has it; the first of several counts.
func preferredWait(headers []string) time.Duration {
	for preference := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		preference, _, _ = strings.Cut(preference, ";")
		name, value, _ := strings.Cut(preference, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 16)
		if err != nil {
			return 0
		}
		return time.Duration(n) * time.Second
	}
	return 0
}
