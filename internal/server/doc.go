// Package server is the checkpointd process as a library: it wires a store, the
// coordinator and the HTTP handlers, and turns what the coordinator reports into logs
// and metrics. cmd/server adds flags and signals; tests run the same [Server] on ":0".
package server
