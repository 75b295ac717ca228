package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestTooManyItemsAre422AndTooManyBytes413WhereverTheyStand(t *testing.T) {
	t.Parallel()
	f := serve(t)
	path := f.trigger(`{}`)
	labels := make([]string, coordinator.MaxLabels+1)
	for i := range labels {
		labels[i] = fmt.Sprintf(`"l%d":""`, i)
	}
	many := `{"labels":{` + strings.Join(labels, ",") + `}}`
	long := func(name string, bytes int) string { return `{"` + name + `":"` + strings.Repeat("x", bytes+1) + `"}` }
	label := func(name, value int) string {
		return `{"labels":{"` + strings.Repeat("n", name) + `":"` + strings.Repeat("v", value) + `"}}`
	}
	for _, c := range []struct {
		method, path, body string
		code               coordinator.Code
		limit              string
	}{
		{"POST", "/checkpoints", many, coordinator.CodeLimitExceeded, "labels"},
		{"PATCH", path, many, coordinator.CodeLimitExceeded, "labels"},
		{"POST", "/checkpoints", long("description", coordinator.MaxDescriptionBytes), coordinator.CodeTooLarge, "descriptionBytes"},
		{"PATCH", path, long("description", coordinator.MaxDescriptionBytes), coordinator.CodeTooLarge, "descriptionBytes"},
		{"PUT", "/jobs/orders", long("description", coordinator.MaxDescriptionBytes), coordinator.CodeTooLarge, "descriptionBytes"},
		{"PATCH", "/jobs/default", long("description", coordinator.MaxDescriptionBytes), coordinator.CodeTooLarge, "descriptionBytes"},
		{"POST", path + "/abort", long("reason", coordinator.MaxReasonBytes), coordinator.CodeTooLarge, "reasonBytes"},
		{"POST", "/checkpoints", label(coordinator.MaxLabelNameBytes+1, 0), coordinator.CodeTooLarge, "labelNameBytes"},
		{"POST", "/checkpoints", label(1, coordinator.MaxLabelValueBytes+1), coordinator.CodeTooLarge, "labelValueBytes"},
	} {
		problem := f.do(c.method, c.path, c.body).refused(c.code)
		if problem.Limit == nil || *problem.Limit != api.LimitName(c.limit) {
			t.Errorf("%s %s names the limit %v, want %s", c.method, c.path, problem.Limit, c.limit)
		}
	}
}

func TestATimeoutBelowWhatTheContractHasIsRefused(t *testing.T) {
	t.Parallel()
	f := serve(t)
	for _, timeout := range []string{"-9223372036854775808", "-9007199254740992"} {
		f.do("POST", "/checkpoints", `{"timeoutMs":`+timeout+`}`).refused(coordinator.CodeInvalidRequest)
		f.do("PUT", "/jobs/orders", `{"timeoutMs":`+timeout+`}`).refused(coordinator.CodeInvalidRequest)
	}
	f.do("POST", "/checkpoints", `{"timeoutMs":-9007199254740991}`).want(201)
}
