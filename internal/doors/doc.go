// Package doors says who may do what: callers with their roles, jobs and tasks, the file
// that names them, and how a request shows which of them it comes from. Of a token it knows
// the SHA-256 hash only, and it never writes a token, or what may be one, anywhere.
package doors
