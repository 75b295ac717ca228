package handlers

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// queryParameter is one query parameter of an operation.
type queryParameter struct {
	name string
	// kind is reflect.Slice for one that may be repeated.
	kind reflect.Kind
	// field is its place in the operation's Params.
	field []int
}

// wholeNumber is how integers are written in a query; the generated code also takes +5
// and 007.
var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// parameterForms says what a parameter looks like, for the refusal of one that does not.
var parameterForms = map[string]string{
	"id":      "A checkpoint's id is written in decimal digits without sign or leading zeros and is at most 9007199254740991.",
	"job":     "A job name is 1 to 128 characters, of letters, digits, '.', '_' and '-', and begins with a letter or digit.",
	"limit":   fmt.Sprintf("It must be a whole number from 1 to %d.", coordinator.MaxListLimit),
	"after":   "It must be a whole number from 0 to 9007199254740991.",
	"before":  "It must be the next of the page before, or the id of a checkpoint.",
	"attempt": "It must be a whole number from 0 to 9007199254740991.",
	"epoch":   "It must be a whole number from 0 to 9007199254740991.",
	"taskId":  "A task id in a path has 1 to 1024 bytes and is percent-encoded UTF-8.",
	"key":     "A key in a path has 1 to 1024 bytes and is percent-encoded UTF-8; use the form with ?key= for a key that your client rewrites.",
	"force":   trueOrFalse,
	"dryRun":  trueOrFalse,
	"ack":     trueOrFalse,
	"shared":  trueOrFalse,
	"status":  "It is none of the known ones: pending, completed, expired and aborted for checkpoints, acknowledged and missing for tasks.",
	"type":    "It must be one of string, integer, number, boolean, object and array.",
	"type[]":  fmt.Sprintf("Each must be one of %s.", eventTypeNames()),
	"until":   "It must be ended.",
	"verbose": "It must be true or false, or have no value.",
	"wait":    fmt.Sprintf("It must be a whole number of seconds from 0 to %d.", coordinator.MaxWaitSeconds),

	"lastEventId": "It must be <epoch>-<seq>, the id of an event.",
}

func eventTypeNames() string {
	types := coordinator.EventTypes()
	names := make([]string, len(types))
	for i, name := range types {
		names[i] = string(name)
	}
	return strings.Join(names, ", ")
}

const trueOrFalse = "It must be true or false."

// checkQuery refuses what the generated binding lets through: unknown parameters, since a
// misspelt one would silently change what a call means, repeated ones, other spellings of
// numbers and booleans, and values outside of an enumeration.
func checkQuery(r *http.Request, o operation, request any) error {
	if o.query == nil {
		return nil
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &coordinator.Error{
			Code:   coordinator.CodeInvalidParameter,
			Detail: "The query cannot be read. Percent-encode its names and values; ';' separates nothing.",
			Fields: []coordinator.FieldError{{Parameter: "query", Detail: "It has a broken percent-encoding or a semicolon."}},
		}
	}
	known := 0
	params := reflect.ValueOf(request).FieldByName("Params")
	for _, parameter := range o.query {
		values, has := given[parameter.name]
		if !has {
			continue
		}
		known++
		if err := parameter.check(values, params); err != nil {
			return err
		}
	}
	if known < len(given) {
		return unknownParameter(o, given)
	}
	return nil
}

func (p queryParameter) check(values []string, params reflect.Value) error {
	if p.kind == reflect.Slice {
		return p.checkEach(params.FieldByIndex(p.field))
	}
	if len(values) > 1 {
		return invalidParameter(p.name, "The parameter must be given once.")
	}
	value, valid := values[0], true
	switch p.kind {
	case reflect.Int, reflect.Int64:
		valid = wholeNumber.MatchString(value)
	case reflect.Bool:
		valid = value == "true" || value == "false"
	case reflect.String:
		if enumeration, ok := reflect.TypeAssert[interface{ Valid() bool }](params.FieldByIndex(p.field)); ok {
			valid = enumeration.Valid()
		}
	default:
	}
	if !valid {
		return invalidParameter(p.name, parameterForms[p.name])
	}
	return nil
}

// checkEach refuses values outside of an enumeration of one that may be repeated.
func (p queryParameter) checkEach(values reflect.Value) error {
	for i := range values.Len() {
		if enumeration, ok := reflect.TypeAssert[interface{ Valid() bool }](values.Index(i)); ok && !enumeration.Valid() {
			return invalidParameter(p.name, parameterForms[p.name+"[]"])
		}
	}
	return nil
}

func unknownParameter(o operation, given url.Values) error {
	names := make([]string, len(o.query))
	for i, parameter := range o.query {
		names[i] = parameter.name
		delete(given, parameter.name)
	}
	refusal := &coordinator.Error{
		Code:   coordinator.CodeInvalidParameter,
		Detail: fmt.Sprintf("The query has an unknown parameter. Known here: %s.", strings.Join(names, ", ")),
	}
	for name := range given {
		refusal.Fields = append(refusal.Fields, coordinator.FieldError{Parameter: shortened(name), Detail: "It is not known here."})
	}
	return refusal
}

// shortened keeps a name that the client made up from filling the answer.
func shortened(name string) string {
	const most = 128
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// valueOr gives what an optional parameter points at.
func valueOr[T any](pointer *T, fallback T) T {
	if pointer == nil {
		return fallback
	}
	return *pointer
}

// jobOf gives the job that a call names. One that is named but empty is not the default.
func jobOf(job *string) string { return valueOr(job, coordinator.DefaultJob) }
