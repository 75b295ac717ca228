// Command generate reads api/openapi.yaml and writes what the server must know of it: the
// table of operations, the limits as constants of package coordinator, and docs/limits.md.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"

	"github.com/getkin/kin-openapi/openapi3"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run works in internal/operations, where go generate calls it.
func run() error {
	root := filepath.Join("..", "..")
	document, err := openapi3.NewLoader().LoadFromFile(filepath.Join(root, "api", "openapi.yaml"))
	if err != nil {
		return fmt.Errorf("read the contract: %w", err)
	}
	table, err := operationTable(document)
	if err != nil {
		return err
	}
	bounds, err := boundsOf(document)
	if err != nil {
		return err
	}
	if err := writeGo("operations.gen.go", table); err != nil {
		return err
	}
	if err := writeGo(filepath.Join(root, "internal", "coordinator", "limits.gen.go"), bounds.constants()); err != nil {
		return err
	}
	return write(filepath.Join(root, "docs", "limits.md"), bounds.page())
}

// header is what stands before generated code.
const header = "// Code generated from api/openapi.yaml by internal/operations/generate. DO NOT EDIT.\n\n"

func writeGo(path string, source []byte) error {
	formatted, err := format.Source(append([]byte(header), source...))
	if err != nil {
		return fmt.Errorf("format %s: %w", path, err)
	}
	return write(path, formatted)
}

// write leaves a file alone that is as it should be.
func write(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // Source code is for everybody to read.
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
