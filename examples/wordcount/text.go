package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// partitions is how many pieces the text comes in. A fleet has at most as many workers.
const partitions = 12

// partitionNames are the pieces, in order: p00, p01 and so on.
func partitionNames() []string {
	names := make([]string, partitions)
	for i := range names {
		names[i] = fmt.Sprintf("p%02d", i)
	}
	return names
}

// text is what is counted: the lines of each partition.
type text map[string][]string

func (t text) size() (lines int64) {
	for _, of := range t {
		lines += int64(len(of))
	}
	return lines
}

// errEnough ends the walk through a folder.
var errEnough = errors.New("there are enough lines")

// readText takes the first so many lines of comments in the Go files below a folder, in the
// order of their names, and deals them out. Without a folder it is Go's standard library.
func readText(ctx context.Context, folder string, lines int) (text, error) {
	if folder == "" {
		root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return nil, fmt.Errorf("asking go where its library is: %w", err)
		}
		folder = filepath.Join(strings.TrimSpace(string(root)), "src")
	}
	t, names, dealt := make(text), partitionNames(), 0
	walk := func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "vendor"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		for line, err := range comments(path) {
			if err != nil {
				return err
			}
			if dealt == lines {
				return errEnough
			}
			name := names[dealt%len(names)]
			t[name] = append(t[name], line)
			dealt++
		}
		return nil
	}
	if err := filepath.WalkDir(folder, walk); err != nil && !errors.Is(err, errEnough) { //nolint:gosec // The user names it.
		return nil, fmt.Errorf("reading the text: %w", err)
	}
	if dealt < lines {
		return nil, fmt.Errorf("the Go files below %s have only %d lines of comments, not %d", folder, dealt, lines)
	}
	return t, nil
}

// comments are the lines of a Go file that begin with two slashes and say something.
func comments(path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		content, err := os.ReadFile(path)
		if err != nil {
			yield("", err)
			return
		}
		for line := range strings.Lines(string(content)) {
			line, is := strings.CutPrefix(strings.TrimSpace(line), "//")
			if line = strings.TrimSpace(line); !is || line == "" || !utf8.ValidString(line) {
				continue
			}
			if !yield(line, nil) {
				return
			}
		}
	}
}

// wordMax keeps what is no word, such as a long run of letters in a test vector, below the
// limit of a key.
const wordMax = 100

// words are the runs of letters in a line, in lower case.
func words(line string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return !unicode.IsLetter(r) }) {
			if len(word) <= wordMax && !yield(strings.ToLower(word)) {
				return
			}
		}
	}
}

// write puts each partition into a file of its own.
func (t text) write(folder string) error {
	if err := os.MkdirAll(folder, 0o750); err != nil { //nolint:gosec // The user names it.
		return fmt.Errorf("writing the text: %w", err)
	}
	for name, lines := range t {
		if err := os.WriteFile(textFile(folder, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return fmt.Errorf("writing the text: %w", err)
		}
	}
	return nil
}

func textFile(folder, partition string) string { return filepath.Join(folder, partition+".txt") }

// source reads the lines of a partition, from any of them on.
type source struct {
	file  *os.File
	lines *bufio.Reader
}

// openSource begins at this byte.
func openSource(folder, partition string, at int64) (*source, error) {
	file, err := os.Open(textFile(folder, partition))
	if err != nil {
		return nil, fmt.Errorf("opening the text: %w", err)
	}
	if _, err := file.Seek(at, 0); err != nil {
		_ = file.Close() // it was read only
		return nil, fmt.Errorf("going on at byte %d of the text: %w", at, err)
	}
	return &source{file: file, lines: bufio.NewReader(file)}, nil
}

// next gives a line with its end, io.EOF after the last one.
func (s *source) next() (string, error) {
	return s.lines.ReadString('\n') //nolint:wrapcheck // io.EOF
}

func (s *source) close() { _ = s.file.Close() } // it was read only
