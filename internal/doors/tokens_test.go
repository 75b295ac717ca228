package doors_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/doors"
)

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func with(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func TestWhatIsWrongWithAFileIsNamedByLineAndPlaceAndNeverQuoted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`{"tokens":[{"name":"a","sha256":"my-secret-token","roles":["ack"]}]}`, "line 1 (/tokens/0/sha256): a hash has 64"},
		{"{\"tokens\":[\n{\"name\":\"a\",\n\"sha256\":\"" + hashOf("x") + "\",\n\"roles\":[\"my-secret-token\"]}]}", "line 4 (/tokens/0/roles/0): the roles are trigger"},
		{"{\"tokens\":[\n{\"title\":\"my-secret-token\"}]}", "line 2 (/tokens/0): there is no such member"},
		{"{\"tokens\":[\n{\"my-secret-token\":\"title\"}]}", "line 2 (/tokens/0): there is no such member"},
		{"{\"tokens\":[\n{\"my-secret-token\":1,\"my-secret-token\":2}]}", "line 2 (/tokens/0): "},
		{"{\"tokens\":[{\n\"name\":7}]}", "line 2 (/tokens/0/name): the value has another type"},
		{"{\"tokens\":[\n{\"name\":\"a\",\"name\":\"b\"}]}", "line 2 (/tokens/0/name): the member comes twice"},
		{"{\"tokens\":[\nmy-secret-token]}", "line 2 (/tokens/0): this is no JSON"},
		{`{"tokens":[]}`, "there are no tokens"},
		{`{"tokens":[{"name":"a","roles":["ack"]}]}`, `/tokens/0): a token needs "sha256"`},
		{`{"tokens":[{"name":"a","sha256":"` + hashOf("") + `","roles":["ack"]}]}`, "hash of an empty token"},
		{`{"tokens":[{"name":"a","sha256":"` + hashOf("x") + `","roles":["ack"],"jobs":[]}]}`, "an empty list allows no job"},
		{`{"tokens":[{"name":"a","sha256":"` + hashOf("x") + `","roles":["ack"]},{"name":"a","sha256":"` + hashOf("x") + `","roles":["ack"]}]}`, "the name comes twice"},
		{`{"tokens":[{"name":"a","sha256":"` + hashOf("x") + `","roles":["ack"]},{"name":"b","sha256":"` + hashOf("x") + `","roles":["ack"]}]}`, "the same hash"},
	} {
		path := filepath.Join(t.TempDir(), "tokens.json")
		write(t, path, c.text)
		_, err := doors.OpenTokens(path)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngave %v\nwant %s", c.text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "my-secret-token") {
			t.Errorf("the error quotes what may be a token: %v", err)
		}
	}
}

func TestABadNewFileChangesNothingAndAGoodOneRevokesWhoIsNotInIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	file := func(more string) string {
		return `{"tokens":[{"name":"a","sha256":"` + hashOf("secret-a") + `","roles":["ack"]}` + more + `]}`
	}
	write(t, path, file(`,{"name":"b","sha256":"`+hashOf("secret-b")+`","roles":["read"],"jobs":["x"]}`))
	known, err := doors.OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	a, b := known.Caller(with("secret-a")), known.Caller(with("secret-b"))
	if a == nil || b == nil || known.Caller(with("secret-c")) != nil || known.Caller(with("")) != nil {
		t.Fatal("the callers are not those of the file")
	}
	write(t, path, "{")
	if _, err := known.Reload(); err == nil || known.Broken() == nil || known.Caller(with("secret-a")) != a {
		t.Errorf("after a bad file: %v, %v", err, known.Broken())
	}
	write(t, path, file(`,{"name":"b","sha256":"`+hashOf("secret-b")+`","roles":["read"],"jobs":["y"]}`))
	if changed, err := known.Reload(); err != nil || !changed || known.Broken() != nil {
		t.Fatal(changed, err)
	}
	if known.Caller(with("secret-a")) != a {
		t.Error("a token that did not change is another caller")
	}
	if !b.Revoked(t.Context().Done()) {
		t.Error("a token with other jobs was not revoked")
	}
	if b = known.Caller(with("secret-b")); b == nil || b.InJob("x") || !b.InJob("y") {
		t.Error("the new jobs do not hold")
	}
}

func TestAPatternsStarIsAnyRunOfCharacters(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string][2][]string{
		"orders":   {{"orders"}, {"order", "orders2", "xorders"}},
		"orders-*": {{"orders-", "orders-eu"}, {"orders", "my-orders-eu"}},
		"*":        {{"a", "a-b"}, nil},
		"*-eu":     {{"a-eu", "-eu", "a-eu-eu"}, {"eu", "a-eu2"}},
		"a*b*c":    {{"abc", "axbyc", "abbcc"}, {"ab", "acb", "xabc", "abcd"}},
		"a*bc*bc":  {{"abcbc"}, {"abc"}},
		"a*.b":     {{"a.b", "aa.b"}, {"axb"}},
	} {
		path := filepath.Join(t.TempDir(), "tokens.json")
		write(t, path, `{"tokens":[{"name":"a","sha256":"`+hashOf("s")+`","roles":["ack"],"tasks":["`+pattern+`"]}]}`)
		known, err := doors.OpenTokens(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, false} {
			for _, name := range names[i] {
				if known.Caller(with("s")).AsTask(name) != want {
					t.Errorf("%q fits %q: should be %v", name, pattern, want)
				}
			}
		}
	}
}

// FuzzTokensFile: whatever a file has, its errors tell a line and never what may be a secret.
func FuzzTokensFile(f *testing.F) {
	const secret = "my-secret-token"
	for _, seed := range []string{
		`{"tokens":[{"name":"a","sha256":"` + hashOf("x") + `","roles":["ack","read"],"jobs":["o*"],"tasks":["*"]},{"name":"b","certificate":"c","roles":["admin"]}]}`,
		`{"tokens":[{"name":"my-secret-token","sha256":"my-secret-token","certificate":"my-secret-token","roles":["my-secret-token"],"jobs":["my-secret-token!"],"tasks":[""]}]}`,
		`{"tokens":["my-secret-token"]}`, `{"tokens":"my-secret-token"}`, `my-secret-token`, "{\n\"tokens\":[{\"name\":1}]}", `{"tokens":[{}]}`, `{"tokens":null}`, `[]`, ``, "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "tokens.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		known, err := doors.OpenTokens(path)
		if err == nil {
			// Nobody comes in who is in no file.
			if known.Caller(with("")) != nil || known.Caller(with("\n")) != nil || known.Caller(httptest.NewRequest(http.MethodGet, "/", nil)) != nil {
				t.Fatalf("%q lets strangers in", text)
			}
			return
		}
		if !strings.Contains(err.Error(), "line ") {
			t.Fatalf("%q: %v", text, err)
		}
		if strings.Contains(err.Error(), secret) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
