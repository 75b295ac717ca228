package worker

import (
	"cmp"
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// settings are a worker's with the defaults filled in.
func (w *Worker) settings() (Worker, error) {
	s := *w
	s.URL = strings.TrimRight(s.URL, "/")
	s.Job = cmp.Or(s.Job, "default")
	s.DrainTimeout = cmp.Or(s.DrainTimeout, 30*time.Second)
	s.PollWait = cmp.Or(s.PollWait, 30*time.Second)
	s.StreamTimeout = cmp.Or(s.StreamTimeout, 10*time.Second)
	s.ExtendBy = cmp.Or(s.ExtendBy, time.Minute)
	s.MaxBackoff = cmp.Or(s.MaxBackoff, 5*time.Second)
	s.transferPatience = cmp.Or(s.transferPatience, transferPatience)
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	s.Logger = s.Logger.With("job", s.Job, "task", s.TaskID)
	err := errors.Join(s.check(), s.callbacks(), s.Share.check(s.RecoveryKey))
	return s, err
}

// check finds what the server would refuse, or take for something else, much later and by the
// name that it has on the wire.
func (w *Worker) check() error {
	var faults []error
	for _, rule := range []struct {
		kept bool
		text string
	}{
		{isBase(w.URL), "URL must begin with http:// or https:// and name a host"},
		{w.Token == "" || tokenPattern.MatchString(w.Token), "Token must be visible ASCII characters"},
		{jobPattern.MatchString(w.Job), "Job must be 1 to 128 letters, digits, '.', '_' and '-', and begin with a letter or digit"},
		{isTaskID(w.TaskID), `TaskID must be 1 to 1024 bytes of UTF-8 without control characters or white space around it, and not ".", ".." or "-"`},
		{w.Attempt >= 0 && w.Attempt <= attemptMax, "Attempt must be 0 to 2^53-1"},
		{w.RecoveryKey == "" || keyPattern.MatchString(w.RecoveryKey), "RecoveryKey must be 1 to 255 visible ASCII characters"},
		{w.DrainTimeout >= 0, "DrainTimeout must not be negative"},
		{!w.FinalCheckpoint || w.Work != nil, "FinalCheckpoint needs Work"},
		{w.ShutdownTimeout >= 0, "ShutdownTimeout must not be negative"},
		{w.PollWait >= time.Second && w.PollWait <= time.Minute && w.PollWait%time.Second == 0, "PollWait must be 1 s to 60 s in whole seconds"},
		{w.StreamTimeout >= 0, "StreamTimeout must not be negative"},
		{w.MaxBackoff >= 0, "MaxBackoff must not be negative"},
		{w.HTTPClient == nil || w.HTTPClient.Timeout == 0, "HTTPClient must not have a Timeout"},
	} {
		if !rule.kept {
			faults = append(faults, errors.New("worker: "+rule.text))
		}
	}
	return errors.Join(faults...)
}

const (
	attemptMax = 1<<53 - 1
	taskIDMax  = 1024 // bytes
)

var (
	jobPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	tokenPattern = regexp.MustCompile(`^[!-~]+$`)
	keyPattern   = regexp.MustCompile(`^[!-~]{1,255}$`)
)

func isBase(address string) bool {
	base, err := url.Parse(address)
	return err == nil && base.Host != "" && (base.Scheme == "http" || base.Scheme == "https")
}

func isTaskID(id string) bool {
	return id != "" && len(id) <= taskIDMax && utf8.ValidString(id) && id != "." && id != ".." && id != "-" &&
		strings.TrimSpace(id) == id && !strings.ContainsFunc(id, unicode.IsControl)
}
