package doors

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// document is the tokens file as it is written.
type document struct {
	Tokens []entry `json:"tokens"`
}

// entry is one caller as it is written.
type entry struct {
	Name        string   `json:"name"`
	SHA256      string   `json:"sha256,omitzero"`
	Certificate string   `json:"certificate,omitzero"`
	Roles       []Role   `json:"roles"`
	Jobs        []string `json:"jobs,omitzero"`
	Tasks       []string `json:"tasks,omitzero"`
}

// callers are those of one file.
type callers struct {
	byHash        map[[sha256.Size]byte]*Caller
	byCertificate map[string]*Caller
}

// mistake is what is wrong at one place of the file. It quotes no values: somebody may have
// written a token where its hash belongs.
type mistake struct {
	line    int
	pointer string
	detail  string
}

func (m *mistake) Error() string {
	where := fmt.Sprintf("line %d", m.line)
	if m.pointer != "" {
		where += " (" + m.pointer + ")"
	}
	return where + ": " + m.detail
}

// parse reads a tokens file. Its errors name every wrong place by line and pointer.
func parse(text []byte) (callers, error) {
	var written document
	if err := json.Unmarshal(text, &written, json.RejectUnknownMembers(true)); err != nil {
		return callers{}, malformed(text, err)
	}
	out := callers{byHash: map[[sha256.Size]byte]*Caller{}, byCertificate: map[string]*Caller{}}
	if len(written.Tokens) == 0 {
		return out, &mistake{1, "/tokens", `there are no tokens; write {"tokens":[…]} with at least one, or nobody could use the server`}
	}
	var faults []error
	names := map[string]bool{}
	for i, e := range written.Tokens {
		wrong := func(member, detail string) {
			pointer := fmt.Sprintf("/tokens/%d", i)
			if member != "" {
				pointer += "/" + member
			}
			faults = append(faults, &mistake{lineOf(text, jsontext.Pointer(pointer)), pointer, detail})
		}
		e.check(wrong)
		if names[e.Name] {
			wrong("name", "the name comes twice; the log tells tokens apart by it")
		}
		names[e.Name] = true
		caller := &Caller{Name: e.Name, roles: e.Roles, jobs: e.Jobs, tasks: e.Tasks, revoked: make(chan struct{})}
		if e.Certificate != "" {
			if out.byCertificate[e.Certificate] != nil {
				wrong("certificate", "two tokens are for the same certificate")
			}
			out.byCertificate[e.Certificate] = caller
			continue
		}
		_, _ = hex.Decode(caller.hash[:], []byte(e.SHA256[:min(len(e.SHA256), 2*sha256.Size)])) // check has judged it
		if out.byHash[caller.hash] != nil {
			wrong("sha256", "two tokens have the same hash")
		}
		out.byHash[caller.hash] = caller
	}
	return out, errors.Join(faults...)
}

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)
	hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	jobForm  = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._*-]{0,127}$`)
)

// emptyHashes are those of nothing, and of a line with nothing: what a script hashes whose
// variable is not set.
var emptyHashes = [][sha256.Size]byte{sha256.Sum256(nil), sha256.Sum256([]byte("\n"))}

// check tells wrong of each member that is.
func (e *entry) check(wrong func(member, detail string)) {
	if !nameForm.MatchString(e.Name) {
		wrong("name", "a name has 1 to 64 letters, digits, dots, underscores, hyphens and at-signs, and begins with a letter or digit")
	}
	switch {
	case e.SHA256 == "" && e.Certificate == "":
		wrong("", `a token needs "sha256", the hash of its secret in 64 hexadecimal digits, or "certificate", the name in a client certificate`)
	case e.SHA256 != "" && e.Certificate != "":
		wrong("certificate", `"sha256" and "certificate" are two ways to be known; write two tokens`)
	case e.SHA256 != "" && !hashForm.MatchString(e.SHA256):
		wrong("sha256", "a hash has 64 lower-case hexadecimal digits; this is not the place of the token itself")
	case slices.ContainsFunc(emptyHashes, func(empty [sha256.Size]byte) bool { return hex.EncodeToString(empty[:]) == e.SHA256 }):
		wrong("sha256", "this is the hash of an empty token")
	}
	if len(e.Roles) == 0 {
		wrong("roles", "a token needs at least one role of "+roleNames())
	}
	for i, role := range e.Roles {
		if !slices.Contains(Roles(), role) {
			wrong(fmt.Sprintf("roles/%d", i), "the roles are "+roleNames())
		}
	}
	if e.Jobs != nil && len(e.Jobs) == 0 {
		wrong("jobs", "an empty list allows no job; leave it out for all")
	}
	for i, pattern := range e.Jobs {
		if !jobForm.MatchString(pattern) {
			wrong(fmt.Sprintf("jobs/%d", i), "no job has a name like this; a pattern is a job's name in which * is any characters")
		}
	}
	if e.Tasks != nil && len(e.Tasks) == 0 {
		wrong("tasks", "an empty list allows no task; leave it out for all")
	}
	for i, pattern := range e.Tasks {
		if pattern == "" {
			wrong(fmt.Sprintf("tasks/%d", i), "no task has an empty name; a pattern is a task's name in which * is any characters")
		}
	}
}

func roleNames() string {
	names := make([]string, 0, len(Roles()))
	for _, role := range Roles() {
		names = append(names, string(role))
	}
	return strings.Join(names, ", ")
}

// malformed makes a mistake of an error of the JSON library, whose text may quote values.
func malformed(text []byte, err error) error {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		detail := "this is no JSON"
		if errors.Is(err, jsontext.ErrDuplicateName) {
			detail = "the member comes twice"
		}
		return &mistake{lineAt(text, syntactic.ByteOffset), inOurWords(syntactic.JSONPointer), detail}
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return &mistake{1, "", "this is no JSON"}
	}
	detail := "the value has another type than it must have"
	if errors.Is(err, json.ErrUnknownName) {
		detail = `there is no such member; a token has "name", "sha256" or "certificate", "roles", and may have "jobs" and "tasks"`
	}
	return &mistake{lineOf(text, semantic.JSONPointer), inOurWords(semantic.JSONPointer), detail}
}

// inOurWords ends a pointer before a name that no member has: somebody may have put a secret
// where a name belongs.
func inOurWords(pointer jsontext.Pointer) string {
	var known strings.Builder
	for token := range pointer.Tokens() {
		if strings.Trim(token, "0123456789") != "" && !slices.Contains([]string{"tokens", "name", "sha256", "certificate", "roles", "jobs", "tasks"}, token) {
			break
		}
		known.WriteString("/" + token)
	}
	return known.String()
}

// lineOf is the line on which the value at a pointer ends to be named, or that of the last
// place above it that there is.
func lineOf(text []byte, pointer jsontext.Pointer) int {
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	line, found := 1, -1
	for {
		if _, err := decoder.ReadToken(); err != nil {
			return line
		}
		here := decoder.StackPointer()
		if here == pointer {
			return lineAt(text, decoder.InputOffset())
		}
		if pointer.Contains(here) || here.Contains(pointer) {
			if len(here) > found {
				line, found = lineAt(text, decoder.InputOffset()), len(here)
			}
		}
	}
}

func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(int64(len(text)), offset)], []byte("\n"))
}
