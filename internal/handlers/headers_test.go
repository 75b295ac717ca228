package handlers_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/handlers"
)

// FuzzRange holds our reading of a Range against that of net/http, which refuses some of
// what RFC 9110 has a server ignore.
func FuzzRange(f *testing.F) {
	for _, seed := range []string{
		"bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0", "bytes=5-2", "BYTES=1-2", "bytes=0-0,1-1", "bytes=99999999999999999999-", "bytes=-99999999999999999999",
		"bytes=0-99999999999999999999", "bytes = 1-2", "bytes=1 - 2", "items=0-1", "bytes", "bytes=", "bytes=--1", "bytes=+1-2",
	} {
		f.Add(seed, uint16(10))
	}
	f.Fuzz(func(t *testing.T, header string, size uint16) {
		offset, length, ok, err := handlers.ParseRange(header, int64(size))
		if err != nil && coordinator.CodeOf(err) != coordinator.CodeRangeNotSatisfiable {
			t.Fatalf("%q of %d: %v", header, size, err)
		}
		if !ok {
			return
		}
		if offset < 0 || length <= 0 || offset+length > int64(size) {
			t.Fatalf("%q of %d gives %d bytes from %d on", header, size, length, offset)
		}
		_, spec, _ := strings.Cut(header, "=")
		if slices.ContainsFunc(strings.Split(spec, "-"), func(digits string) bool { return len(digits) > 18 }) {
			return // net/http wants numbers of 64 bits
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Range", "bytes="+spec)
		w := httptest.NewRecorder()
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, size)))
		want := "bytes " + strconv.FormatInt(offset, 10) + "-" + strconv.FormatInt(offset+length-1, 10) + "/" + strconv.Itoa(int(size))
		if got := w.Header().Get("Content-Range"); got != want {
			t.Fatalf("%q of %d: we send %s, net/http %d %s", header, size, want, w.Code, got)
		}
	})
}

// FuzzEntityTags: what is taken apart can be put together, and means the same.
func FuzzEntityTags(f *testing.F) {
	for _, seed := range []string{`*`, `"a"`, `W/"a", "b"`, `"a","b,c"`, `"`, `""`, `W/`, `"a" "b"`, `,"a",`, "\"\xff\"", `"a"	,	W/"*"`, `w/"a"`, `*, "a"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		tags, star, err := handlers.TagsOf(header)
		if err != nil {
			if coordinator.CodeOf(err) != coordinator.CodeInvalidParameter {
				t.Fatalf("%q: %v", header, err)
			}
			return
		}
		if star != (strings.TrimSpace(header) == "*") || star == (len(tags) > 0) {
			t.Fatalf("%q is %q, star %t", header, tags, star)
		}
		if star {
			return
		}
		again, _, err := handlers.TagsOf(strings.Join(tags, ", "))
		if err != nil || strings.Join(again, " ") != strings.Join(tags, " ") {
			t.Fatalf("%q is %q, and that is %q, %v", header, tags, again, err)
		}
		for _, tag := range tags {
			if inner, quoted := strings.CutPrefix(strings.TrimPrefix(tag, "W/"), `"`); !quoted || strings.Count(inner, `"`) != 1 || !strings.HasSuffix(inner, `"`) {
				t.Fatalf("%q has a tag %q", header, tag)
			}
		}
	})
}

func FuzzContentDigest(f *testing.F) {
	digest := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, seed := range []string{"sha-256=:" + digest + ":", "sha-512=:x:, sha-256=:" + digest + ":;a=b", "sha-256=::", "sha-256=:" + digest, "sha-256", "", ",,", "SHA-256=:x:", "sha-256=:" + digest + "::"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		digest, err := handlers.SHA256Of(header)
		switch {
		case err != nil:
			if digest != nil || coordinator.CodeOf(err) != coordinator.CodeInvalidParameter {
				t.Fatalf("%q: %v, %v", header, digest, err)
			}
		case digest != nil:
			// All but the last character, which has bits that nobody reads (RFC 8941, 4.2.7).
			if text := base64.StdEncoding.EncodeToString(digest); len(digest) != 32 || !strings.Contains(header, "sha-256=:"+text[:42]) {
				t.Fatalf("%q is read as %s", header, text)
			}
		}
	})
}
