package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// nginx makes a tag weak whose answer it compresses. Taken for another state it would be refused for ever without a reason.
func TestAWeakenedTagIsToldFromOneThatIsOld(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{"requiredTaskAcks":1}`)
	for resource, body := range map[string]string{path + "/state/k": `1`, "/jobs/orders": `{}`} {
		f.do("PUT", resource, body)
		got := f.do("GET", resource, "").want(http.StatusOK)
		tag := got.header.Get("ETag")
		if !strings.Contains(got.header.Get("Cache-Control"), "no-transform") {
			t.Errorf("%s: whoever compresses it is not told not to: %v", resource, got.header)
		}
		problem := f.do("PUT", resource, body, "If-Match", "W/"+tag).refused(coordinator.CodePreconditionFailed)
		if !strings.Contains(problem.Detail, "without the W/") {
			t.Errorf("%s: a weak tag is refused as %s", resource, problem.Detail)
		}
		if old := f.do("PUT", resource, body, "If-Match", `"old"`).refused(coordinator.CodePreconditionFailed); strings.Contains(old.Detail, "W/") {
			t.Errorf("%s: an old tag is refused as %s", resource, old.Detail)
		}
		if again := f.do("PUT", resource, body, "If-Match", `W/"x", `+tag); again.status >= http.StatusBadRequest {
			t.Errorf("%s: a tag beside a weak one is refused: %s", resource, again.body)
		}
	}
}
