// Package api is the HTTP contract of checkpointd in Go: the wire types and the strict
// server interface, generated from openapi.yaml, and that document itself.
//
// Values that callers own (state, shared entries) are json.RawMessage, so that the order
// of members and the spelling of numbers survive. Encode them with an encoder that does
// not escape HTML, or write the bytes as they are.
package api

import _ "embed"

//go:generate go tool oapi-codegen -config types.oapi.yaml openapi.yaml
//go:generate go tool oapi-codegen -config server.oapi.yaml openapi.yaml
//go:generate go tool oapi-codegen -config client/client.oapi.yaml openapi.yaml

// Spec is openapi.yaml, byte for byte, as GET /openapi.yaml serves it.
//
//go:embed openapi.yaml
var Spec []byte
