package server_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// However many jobs there are, /metrics has series for as many as it may, and one for the rest.
func TestJobsBeyondTheBoundAreSummedInTheMetrics(t *testing.T) {
	t.Parallel()
	config := embedded(t)
	config.MetricsJobs = 3
	s := start(t, config)
	const jobs = 12
	for i := range jobs {
		call(t, http.MethodPost, fmt.Sprintf("%s/checkpoints?job=job-%d", s.URL(), i), "{}")
	}
	call(t, http.MethodPost, s.URL()+"/checkpoints?job=other", "{}")
	text := call(t, http.MethodGet, s.URL()+"/metrics", "").text
	named := map[string]bool{}
	for _, match := range regexp.MustCompile(`job="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		named[match[1]] = true
	}
	if len(named) != 4 || !named["other"] {
		t.Errorf("the jobs are %v", named)
	}
	// The job default, in which nothing was triggered, is one of those summed up.
	for _, sum := range []string{
		`checkpointd_pending_checkpoints{job="other"} 10`,
		`checkpointd_checkpoints_triggered_total{job="other"} 10`,
		`checkpointd_job_never_completed{job="other"} 11`,
	} {
		if !strings.Contains(text, sum+"\n") {
			t.Errorf("it lacks %s", sum)
		}
	}
	if strings.Contains(text, `checkpointd_last_completed_id{job="other"}`) || strings.Contains(text, `checkpointd_job_epoch{job="other"}`) {
		t.Error("figures that cannot be summed are")
	}
}
