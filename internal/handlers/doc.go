// Package handlers is the HTTP side of checkpointd: it maps requests to calls of package
// coordinator and answers to responses, and does nothing else.
//
// # The path of a request
//
// The frame (frame.go) is around everything: it keeps paths escaped for the router, so
// that a key may contain a slash, turns panics into problems and keeps other origins'
// pages off. The generated router binds the parameters. The gate (gate.go) then checks
// what the generated code is lax about, by the contract's operation: Accept, unknown and
// repeated parameters, the media type, and the body as strict JSON, which it decodes once
// into the type that the generated code declares. What is left for a handler is mapping.
//
// # Errors
//
// Every refusal leaves through one writer (problem.go) as application/problem+json. A
// cause goes to Options.OnError and never to a client.
package handlers
