// Package worker connects a program's state to a checkpointd server.
package worker
