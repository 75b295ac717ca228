package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// faults gathers everything that is wrong with a request, so that a caller mends it in
// one go.
type faults struct{ fields []FieldError }

// add keeps the first [MaxErrorsShown].
func (f *faults) add(field FieldError) {
	if len(f.fields) < MaxErrorsShown {
		f.fields = append(f.fields, field)
	}
}

// body adds a fault at a JSON pointer when err is not nil.
func (f *faults) body(pointer string, err error) {
	if err != nil {
		f.add(FieldError{Pointer: pointer, Detail: err.Error()})
	}
}

// param adds a fault of a path, query or header parameter when err is not nil.
func (f *faults) param(name string, err error) {
	if err != nil {
		f.add(FieldError{Parameter: name, Detail: err.Error()})
	}
}

// err makes one refusal of the faults: invalid_parameter when none is in a body.
func (f *faults) err() error {
	if len(f.fields) == 0 {
		return nil
	}
	code := CodeInvalidParameter
	var places []string
	for _, field := range f.fields {
		if field.Parameter == "" {
			code = CodeInvalidRequest
			places = append(places, field.Pointer)
		} else {
			places = append(places, field.Parameter)
		}
	}
	return &Error{
		Code:   code,
		Detail: fmt.Sprintf("The request is not valid: mend %s and send it again; errors has a sentence for each.", strings.Join(places, ", ")),
		Fields: f.fields,
	}
}

// ref adds the faults of a job and an id.
func (f *faults) ref(job string, id int64) {
	f.param("job", CheckJob(job))
	if id != Latest {
		f.param("id", CheckCounter(id))
	}
}

// between is the rule for numbers; unit is "" or a word after the numbers.
func between(n, low, high int64, unit string) error {
	if n < low || n > high {
		return ViolationError(strings.TrimSpace(fmt.Sprintf("The number must be between %d and %d %s", low, high, unit)) + ".")
	}
	return nil
}

// atMost is the rule for lengths of texts.
func atMost(text string, limit int) error {
	if len(text) > limit {
		return ViolationError(fmt.Sprintf("The text has %d bytes; the limit is %d.", len(text), limit))
	}
	return nil
}

// checkLabels adds the faults of labels.
func (f *faults) labels(labels map[string]string) {
	if len(labels) > MaxLabels {
		f.body("/labels", ViolationError(fmt.Sprintf("There are %d labels; the limit is %d.", len(labels), MaxLabels)))
	}
	for name, value := range labels {
		f.body("/labels/"+escapePointer(name), CheckLabel(name, value))
	}
}

// CheckLabel is the rule for one label.
func CheckLabel(name, value string) error {
	if name == "" || len(name) > MaxLabelNameBytes {
		return ViolationError(fmt.Sprintf("A label's name has 1 to %d bytes.", MaxLabelNameBytes))
	}
	return atMost(value, MaxLabelValueBytes)
}

// escapePointer escapes one reference token of a JSON pointer (RFC 6901 section 3).
func escapePointer(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

// asError gives err as an *Error: anything else is our own fault and keeps its cause. A
// caller that went away is nobody's fault and stays context.Canceled.
func asError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return ErrInternal(err)
}
