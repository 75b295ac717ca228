package server_test

import (
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/api/apitest"
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Every operation's example is run as it stands, and what comes back must be what the
// example says and what the contract allows.
func TestEveryExampleOfTheContractWorksAsWritten(t *testing.T) {
	t.Parallel()
	apitest.Run(t, start(t, embedded(t)).URL())
}

// The contract's own test holds its codes against docs/errors.md; this one against Go.
func TestTheContractHasTheVeryCodesOfTheDomain(t *testing.T) {
	t.Parallel()
	document, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		t.Fatal(err)
	}
	schema := document.Components.Schemas["ProblemCode"]
	if schema == nil {
		t.Fatal("the contract has no schema ProblemCode")
	}
	var listed, known []string
	for _, code := range schema.Value.Enum {
		listed = append(listed, code.(string))
	}
	for _, code := range coordinator.Codes() {
		known = append(known, string(code))
	}
	slices.Sort(listed)
	slices.Sort(known)
	if !slices.Equal(listed, known) {
		t.Errorf("the contract lists\n%v\nthe domain has\n%v", listed, known)
	}
}
