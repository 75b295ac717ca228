package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// faults gathers everything that is wrong with a request, so that a caller mends it in
// one go.
type faults struct {
	fields []FieldError
	// over is the first limit that was passed, malformed tells that something else is wrong.
	over      *overLimitError
	malformed bool
}

// overLimitError is a text with too many bytes, or a list with too many items: it is well formed
// and still refused, as 413 or 422.
type overLimitError struct {
	code  Code
	limit string
	text  string
}

// Error gives the sentence.
func (e *overLimitError) Error() string { return e.text }

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
		f.note(err)
	}
}

// param adds a fault of a path, query or header parameter when err is not nil.
func (f *faults) param(name string, err error) {
	if err != nil {
		f.add(FieldError{Parameter: name, Detail: err.Error()})
		f.note(err)
	}
}

func (f *faults) note(err error) {
	over, is := errors.AsType[*overLimitError](err)
	if !is {
		f.malformed = true
	} else if f.over == nil {
		f.over = over
	}
}

// err makes one refusal of the faults: invalid_parameter when none is in a body, and that of
// a limit when nothing else is wrong.
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
	refusal := &Error{
		Code:   code,
		Detail: fmt.Sprintf("The request is not valid: mend %s and send it again; errors has a sentence for each.", strings.Join(places, ", ")),
		Fields: f.fields,
	}
	if f.over != nil {
		refusal.Limit = f.over.limit
		if !f.malformed {
			refusal.Code = f.over.code
		}
	}
	return refusal
}

// RefusedAt is the refusal for one place of a body, nil where err is.
func RefusedAt(pointer string, err error) error {
	var f faults
	f.body(pointer, err)
	return f.err()
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

// atMost is the rule for lengths of texts; limit is its name in GET /limits.
func atMost(text, limit string, most int) error {
	if len(text) > most {
		return &overLimitError{CodeTooLarge, limit, fmt.Sprintf("The text has %d bytes; the limit is %d.", len(text), most)}
	}
	return nil
}

// checkLabels adds the faults of labels.
func (f *faults) labels(labels map[string]string) {
	if len(labels) > MaxLabels {
		f.body("/labels", &overLimitError{CodeLimitExceeded, "labels", fmt.Sprintf("There are %d labels; the limit is %d.", len(labels), MaxLabels)})
	}
	for name, value := range labels {
		f.body("/labels/"+escapePointer(name), CheckLabel(name, value))
	}
}

// CheckLabel is the rule for one label.
func CheckLabel(name, value string) error {
	if name == "" {
		return ViolationError(fmt.Sprintf("A label's name has 1 to %d bytes.", MaxLabelNameBytes))
	}
	if err := atMost(name, "labelNameBytes", MaxLabelNameBytes); err != nil {
		return err
	}
	return atMost(value, "labelValueBytes", MaxLabelValueBytes)
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
