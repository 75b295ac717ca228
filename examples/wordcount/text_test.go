package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheTextIsTheCommentsOfGoFilesDealtOutInTheirOrder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"b.go": "// three\nvar x = 1 // not this\n\t//\tfour \n//\n", "a/a.go": "//one\n// two\r\n",
		"a/testdata/no.go": "// no\n", "readme.txt": "// no\n",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readText(t.Context(), folder, 4)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text{"p00": {"one"}, "p01": {"two"}, "p02": {"three"}, "p03": {"four"}}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := readText(t.Context(), folder, 5); err == nil || !strings.Contains(err.Error(), "only 4 lines") {
		t.Errorf("of too few lines it says %v", err)
	}
}

func TestWordsAreRunsOfLettersInLowerCase(t *testing.T) {
	t.Parallel()
	got := slices.Collect(words("Don't PANIC: 2 täglich_x " + strings.Repeat("x", 101)))
	if diff := cmp.Diff([]string{"don", "t", "panic", "täglich", "x"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestASourceGoesOnAtAnyLine(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := (text{"p00": {"one", "two"}}).write(folder); err != nil {
		t.Fatal(err)
	}
	s, err := openSource(folder, "p00", int64(len("one\n")))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if line, err := s.next(); line != "two\n" || err != nil {
		t.Errorf("it gives %q, %v", line, err)
	}
	if line, err := s.next(); err != io.EOF {
		t.Errorf("after the end it gives %q, %v", line, err)
	}
}
