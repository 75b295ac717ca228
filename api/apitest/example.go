// Package apitest runs the examples of the contract against a live server, so that the
// contract cannot promise what the server does not do.
package apitest

import (
	"bytes"
	"context"
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
	Request  Request  `json:"request"`
	Response Response `json:"response"`
}

// Request is one call. At most one of Body and Text is set; a nil Body is absent, null is "null".
type Request struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	Text    *string           `json:"text"`
}

// Response is what must come back: Body is a subset of the JSON body, Text is the whole
// body, Until is a text up to which a body without end is read, and Headers must be equal.
type Response struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	Text    *string           `json:"text"`
	Until   *string           `json:"until"`
}

// Load reads the example of every operation of the contract, sorted by operation id.
// An operation without one, or a member that examples do not have, is an error.
func Load() ([]Example, error) { return load(api.Spec) }

func load(contract []byte) ([]Example, error) {
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `yaml:"operationId"`
			Example     any    `yaml:"x-example"`
		} `yaml:"paths"`
	}
	if err := yaml.Unmarshal(contract, &document); err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	var examples []Example
	for path, operations := range document.Paths {
		for method, operation := range operations {
			if operation.Example == nil {
				return nil, fmt.Errorf("operation %s has no x-example", operation.OperationID)
			}
			var body struct {
				Setup []Step `json:"setup"`
				Step
			}
			if err := decodeStrictly(operation.Example, &body); err != nil {
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
// an example that checks nothing. It goes through JSON, because bodies are JSON and YAML
// decodes a null into nothing.
func decodeStrictly(example, into any) error {
	text, err := json.Marshal(example)
	if err != nil {
		return fmt.Errorf("write it as JSON: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("read it strictly: %w", err)
	}
	return nil
}

// HTTP makes the request for the server at base, which has no trailing slash.
func (r *Request) HTTP(ctx context.Context, base string) (*http.Request, error) {
	var body io.Reader
	contentType := ""
	switch {
	case r.Text != nil:
		body = strings.NewReader(*r.Text)
	case r.Body != nil:
		body, contentType = bytes.NewReader(r.Body), "application/json"
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, base+r.Path, body)
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
