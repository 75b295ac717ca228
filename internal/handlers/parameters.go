package handlers

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/operations"
)

// wholeNumber is how integers are written in a query; the generated code also takes +5
// and 007.
var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// parameterForms says what a parameter looks like whose type does not say it, for the refusal
// of one that does not.
var parameterForms = map[string]string{
	"id":          fmt.Sprintf("A checkpoint's id is written in decimal digits without sign or leading zeros and is at most %d.", int64(coordinator.MaxID)),
	"job":         fmt.Sprintf("A job name is 1 to %d characters, of letters, digits, '.', '_' and '-', and begins with a letter or digit.", coordinator.MaxJobNameBytes),
	"before":      "It must be the next of the page before, or the id of a checkpoint.",
	"after":       "It must be the next of the page before.",
	"taskId":      fmt.Sprintf("A task id has 1 to %d bytes and is percent-encoded UTF-8.", coordinator.MaxTaskIDBytes),
	"notAckedBy":  fmt.Sprintf("A task id has 1 to %d bytes and is percent-encoded UTF-8.", coordinator.MaxTaskIDBytes),
	"key":         fmt.Sprintf("A key has 1 to %d bytes and is percent-encoded UTF-8; use the form with ?key= for a key in a path that your client rewrites.", coordinator.MaxKeyBytes),
	"lastEventId": "It must be <epoch>-<seq>, the id of an event.",
}

// formOf says what a query parameter looks like.
func formOf(p operations.Parameter) string {
	switch {
	case p.Type == operations.Integer:
		return fmt.Sprintf("It must be a whole number from %d to %d.", p.Minimum, p.Maximum)
	case p.Type == operations.Boolean:
		return "It must be true or false."
	case p.Repeated && p.Enum != nil:
		return fmt.Sprintf("Each must be one of %s.", strings.Join(p.Enum, ", "))
	case slices.Contains(p.Enum, ""):
		return fmt.Sprintf("It must be one of %s, or have no value.", strings.Join(slices.DeleteFunc(slices.Clone(p.Enum), func(s string) bool { return s == "" }), ", "))
	case len(p.Enum) == 1:
		return fmt.Sprintf("It must be %s.", p.Enum[0])
	case p.Enum != nil:
		return fmt.Sprintf("It must be one of %s.", strings.Join(p.Enum, ", "))
	}
	return parameterForms[p.Name]
}

// formOfParameter says what a parameter of an operation looks like, wherever it stands.
func formOfParameter(o *operations.Operation, name string) string {
	if o != nil {
		for _, parameter := range o.Query {
			if parameter.Name == name {
				return formOf(parameter)
			}
		}
	}
	return parameterForms[name]
}

// checkQuery refuses what the generated binding lets through: unknown parameters, since a
// misspelt one would silently change what a call means, repeated ones, other spellings of
// numbers and booleans, and values outside of an enumeration or of the bounds.
func checkQuery(r *http.Request, o *operations.Operation) error {
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &coordinator.Error{
			Code:   coordinator.CodeInvalidParameter,
			Detail: "The query cannot be read. Percent-encode its names and values; ';' separates nothing.",
			Fields: []coordinator.FieldError{{Parameter: "query", Detail: "It has a broken percent-encoding or a semicolon."}},
		}
	}
	known := 0
	for _, parameter := range o.Query {
		values, has := given[parameter.Name]
		if !has {
			continue
		}
		known++
		if err := checkValues(parameter, values); err != nil {
			return err
		}
	}
	if known < len(given) {
		return unknownParameter(o, given)
	}
	return nil
}

func checkValues(p operations.Parameter, values []string) error {
	if len(values) > 1 && !p.Repeated {
		return invalidParameter(p.Name, "The parameter must be given once.")
	}
	for _, value := range values {
		if err := checkValue(p, value); err != nil {
			return err
		}
	}
	return nil
}

func checkValue(p operations.Parameter, value string) error {
	valid := true
	switch {
	case p.Type == operations.Integer:
		number, err := strconv.ParseInt(value, 10, 64)
		valid = err == nil && wholeNumber.MatchString(value) && number >= p.Minimum && number <= p.Maximum
	case p.Type == operations.Boolean:
		valid = value == "true" || value == "false"
	case p.Enum != nil:
		valid = slices.Contains(p.Enum, value)
	}
	if !valid {
		return invalidParameter(p.Name, formOf(p))
	}
	return nil
}

func unknownParameter(o *operations.Operation, given url.Values) error {
	names := make([]string, len(o.Query))
	for i, parameter := range o.Query {
		names[i] = parameter.Name
		delete(given, parameter.Name)
	}
	known := "There are none here"
	if len(names) > 0 {
		known = "Known here: " + strings.Join(names, ", ")
	}
	refusal := &coordinator.Error{
		Code:   coordinator.CodeInvalidParameter,
		Detail: fmt.Sprintf("The query has an unknown parameter. %s.", known),
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
