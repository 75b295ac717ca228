// Package apitest runs the examples of the contract against a live server, so that the
// contract cannot promise what the server does not do.
package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/checkpointd/checkpointd/api"
)

// Example is the x-example of one operation: steps that prepare, then the call itself.
type Example struct {
	// OperationID, Method and Path (a template such as /checkpoints/{id}) say whose it is.
	OperationID  string
	Method, Path string
	Setup        []Step
	Step
}

// Step is one call and the answer it must get.
type Step struct {
	Request  Request  `yaml:"request"`
	Response Response `yaml:"response"`
}

// Request is one call. At most one of Body and Text is set.
type Request struct {
	Method  string            `yaml:"method"`
	Path    string            `yaml:"path"`
	Headers map[string]string `yaml:"headers"`
	Body    Value             `yaml:"body"`
	Text    *string           `yaml:"text"`
}

// Response is what must come back: Body is a subset of the JSON body, Text is the whole
// body, and Headers must be equal.
type Response struct {
	Status  int               `yaml:"status"`
	Headers map[string]string `yaml:"headers"`
	Body    Value             `yaml:"body"`
	Text    *string           `yaml:"text"`
}

// Value is an optional JSON value, written as YAML. Nil is absent; null is "null".
type Value json.RawMessage

// UnmarshalYAML turns the YAML value into JSON.
func (v *Value) UnmarshalYAML(node *yaml.Node) error {
	var value any
	if err := node.Decode(&value); err != nil {
		return fmt.Errorf("decode the value of an example: %w", err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write the value of an example as JSON: %w", err)
	}
	*v = text
	return nil
}

// Load reads the example of every operation of the contract, sorted by operation id.
// An operation without one, or a member that examples do not have, is an error.
func Load() ([]Example, error) {
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string    `yaml:"operationId"`
			Example     yaml.Node `yaml:"x-example"`
		} `yaml:"paths"`
	}
	if err := yaml.Unmarshal(api.Spec, &document); err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	var examples []Example
	for path, operations := range document.Paths {
		for method, operation := range operations {
			if operation.Example.IsZero() {
				return nil, fmt.Errorf("operation %s has no x-example", operation.OperationID)
			}
			var body struct {
				Setup []Step `yaml:"setup"`
				Step  `yaml:",inline"`
			}
			if err := decodeStrictly(&operation.Example, &body); err != nil {
				return nil, fmt.Errorf("x-example of operation %s: %w", operation.OperationID, err)
			}
			examples = append(examples, Example{
				OperationID: operation.OperationID,
				Method:      strings.ToUpper(method), Path: path,
				Setup: body.Setup, Step: body.Step,
			})
		}
	}
	slices.SortFunc(examples, func(a, b Example) int { return strings.Compare(a.OperationID, b.OperationID) })
	return examples, nil
}

// decodeStrictly refuses members that into does not have: a misspelt "bdoy" would leave
// an example that checks nothing. Nodes decode laxly, so the text is read once more.
func decodeStrictly(node *yaml.Node, into any) error {
	text, err := yaml.Marshal(node)
	if err != nil {
		return fmt.Errorf("write it out: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("read it strictly: %w", err)
	}
	return nil
}

// HTTP makes the request for the server at base, which has no trailing slash.
func (r *Request) HTTP(base string) (*http.Request, error) {
	var body io.Reader
	contentType := ""
	switch {
	case r.Text != nil:
		body = strings.NewReader(*r.Text)
	case r.Body != nil:
		body, contentType = bytes.NewReader(r.Body), "application/json"
	}
	request, err := http.NewRequest(r.Method, base+r.Path, body) //nolint:noctx // The caller adds its own.
	if err != nil {
		return nil, fmt.Errorf("make the request of an example: %w", err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	for name, value := range r.Headers {
		request.Header.Set(name, value)
	}
	return request, nil
}
