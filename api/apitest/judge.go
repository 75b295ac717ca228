package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
)

// goTexts are what only an error or a value of Go looks like.
var goTexts = []string{
	".go:", "goroutine ", "runtime error", "nil pointer", "panic", "invalid syntax", "out of range [", "strconv.", "json: ", "jsontext", "unmarshal", "reflect.",
	"context deadline", "context canceled", " EOF", "i/o timeout", "broken pipe", "dial tcp", "net/http", "http: ", "bbolt", "0xc00", "*api.", "*coordinator.", "%!", "<nil>", "int64", "ParseInt",
}

// unrouted are the codes of answers that are given before it is known whose the request is.
var unrouted = map[string]bool{"not_found": true, "method_not_allowed": true, "unauthorized": true, "forbidden": true}

// ClientGone is the status of an answer to a sender that has closed its side. If that was its
// end nobody is told, and what was asked for may have been done.
const ClientGone = 499

// Judge tells what is wrong with the answer to a request, nil if nothing is. A refusal must be
// a problem as the contract has it, must quote no Go and none of the secrets, and a server
// that fails is wrong unless it says that its store is away or full. Any other answer must be
// one that its operation has.
func (m *Malformed) Judge(t *testing.T, wire *Wire, answer *Answer, secrets ...string) error {
	t.Helper()
	if answer == nil || answer.Status == ClientGone {
		if wire.Ends || len(wire.Bytes) > 64<<10 { // what was closed early, or may have been reset
			return nil
		}
		return errors.New("there was no answer")
	}
	for _, secret := range secrets {
		if strings.Contains(string(answer.Body)+fmt.Sprint(answer.Header), secret) {
			return fmt.Errorf("the answer has a secret: %v %s", answer.Header, answer.Body)
		}
	}
	if answer.Status < http.StatusBadRequest {
		return m.judgeTaken(t, wire, answer)
	}
	if answer.Status >= http.StatusInternalServerError && answer.Status != http.StatusServiceUnavailable && answer.Status != http.StatusInsufficientStorage {
		return fmt.Errorf("the server fails: %d %s", answer.Status, answer.Body)
	}
	mediaType, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if mediaType != "application/problem+json" {
		return fmt.Errorf("%d is no problem but %v %q", answer.Status, answer.Header, answer.Body)
	}
	if wire.Method == http.MethodHead {
		return nil
	}
	return m.judgeProblem(t, wire, answer)
}

func (m *Malformed) judgeTaken(t *testing.T, wire *Wire, answer *Answer) error {
	t.Helper()
	// With another method or path it is an answer to another request.
	if !wire.routed {
		return nil
	}
	if why := wire.draft.refusable(); why != "" {
		return fmt.Errorf("status %d, although %s; body %.500q", answer.Status, why, answer.Body)
	}
	if tooLargeNumbers(answer.Body) {
		return nil // a value that the server keeps as it came
	}
	if err := m.fits(t, wire, answer); err != nil {
		return fmt.Errorf("status %d does not fit the contract: %w; body %.500q", answer.Status, err, answer.Body)
	}
	return nil
}

// tooLargeNumbers tells whether JSON has numbers that are larger than schemas can be held against.
func tooLargeNumbers(document []byte) bool {
	var value any
	return json.Valid(document) && json.Unmarshal(document, &value) != nil
}

// refusable tells why the contract does not allow a request, "" where it may, or where it is
// not plain how much of the request was read.
func (d *draft) refusable() string {
	known := map[string]bool{}
	for _, reference := range d.of.operation.Parameters {
		if reference.Value.In == openapi3.ParameterInQuery {
			known[reference.Value.Name] = true
		}
	}
	for _, parameter := range d.query {
		if name, err := url.QueryUnescape(parameter.name); err == nil && len(known) > 0 && !known[name] && !strings.ContainsAny(name, "&=?#") {
			return fmt.Sprintf("there is no parameter %.100q", name)
		}
	}
	if d.of.operation.RequestBody == nil || d.mediaType != "application/json" || d.ends || len(d.body) == 0 {
		return ""
	}
	if !json.Valid(d.body) {
		return "the body is no JSON"
	}
	if tooLargeNumbers(d.body) {
		return ""
	}
	var value any
	if err := json.Unmarshal(d.body, &value); err != nil {
		return err.Error()
	}
	if err := d.of.operation.RequestBody.Value.Content.Get("application/json").Schema.Value.VisitJSON(value); err != nil {
		return fmt.Sprintf("the body does not fit the contract: %v", err)
	}
	return ""
}

func (m *Malformed) judgeProblem(t *testing.T, wire *Wire, answer *Answer) error {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(answer.Body, &value); err != nil {
		return fmt.Errorf("the problem is no JSON (%w): %q", err, answer.Body)
	}
	if err := m.document.Components.Schemas["Problem"].Value.VisitJSON(value); err != nil {
		return fmt.Errorf("the problem does not fit the contract: %w: %s", err, answer.Body)
	}
	code, _ := value["code"].(string)
	kind, _ := value["type"].(string)
	var wrong []error
	if value["status"] != float64(answer.Status) {
		wrong = append(wrong, fmt.Errorf("the status is %d and the problem says %v", answer.Status, value["status"]))
	}
	if !strings.HasSuffix(kind, "#"+code) {
		wrong = append(wrong, fmt.Errorf("the type %q is not about the code %q", kind, code))
	}
	for _, member := range []string{"title", "detail", "instance"} {
		if value[member] == "" {
			wrong = append(wrong, fmt.Errorf("the problem has an empty %s", member))
		}
	}
	for _, text := range goTexts {
		if bytes.Contains(answer.Body, []byte(text)) {
			wrong = append(wrong, fmt.Errorf("the problem speaks Go: %s", text))
		}
	}
	// What cannot be read as a request belongs to no operation. The one who says so is not
	// the one who dates answers.
	unread := answer.Header.Get("Date") == ""
	if wire.routed && !unread && !unrouted[code] {
		if err := m.fits(t, wire, answer); err != nil {
			wrong = append(wrong, fmt.Errorf("the operation has no such problem: %w", err))
		}
	}
	if len(wrong) > 0 {
		wrong = append(wrong, fmt.Errorf("it is %s", answer.Body))
	}
	return errors.Join(wrong...)
}

// fits holds the answer against the operation that the request was made of.
func (m *Malformed) fits(t *testing.T, wire *Wire, answer *Answer) error {
	t.Helper()
	of := wire.draft.of
	route := &routers.Route{Spec: m.document, Path: of.path, PathItem: of.item, Method: of.method, Operation: of.operation}
	return fits(t, route, &http.Request{Method: of.method, URL: &url.URL{Path: of.path}}, answer)
}
