// Package selftest is a conformance kit for authors of workers in any language. It listens
// where the worker expects a coordinator, plays one (the real server, behind a front
// that records and misbehaves), and says what the worker did wrong, why that loses data or
// hangs, and what to do about it. docs/selftest.md describes each scenario.
package selftest
