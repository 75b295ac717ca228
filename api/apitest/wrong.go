package apitest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// wrong is one way to make a request wrong. It tells whether it could.
type wrong struct {
	name string
	make func(*Malformed, *draft) bool
}

// wrongs has several times what there is most of to be wrong.
var wrongs = slices.Concat(
	slices.Repeat([]wrong{
		{"a wrong value in the body", wrongValue},
	}, 6),
	slices.Repeat([]wrong{
		{"a wrong place in the path", wrongPath},
		{"a wrong parameter", wrongQuery},
		{"a wrong header", wrongHeader},
		{"a member of the body that nobody knows or that comes twice", extraMember},
		{"bytes of the body that were changed", changedBytes},
	}, 3),
	[]wrong{
		{"a parameter that nobody knows", unknownQuery},
		{"a parameter that comes twice", repeatedQuery},
		{"a parameter that is missing", missingQuery},
		{"a query that is none", brokenQuery},
		{"a header that comes twice", repeatedHeader},
		{"a header that is none", brokenHeader},
		{"another method", wrongMethod},
		{"another media type", wrongMediaType},
		{"a body where none belongs, or none where one does", wrongBody},
		{"a member of the body that is missing", missingMember},
		{"a body that is cut off", cutBody},
		{"a wrong length", wrongLength},
		{"wrong chunks", wrongChunks},
		{"a wrong request line", wrongLine},
		{"bytes that are no request", noRequest},
	},
)

// words are what does not belong into a path, a query or a header; as they stand and encoded.
var words = []string{
	"", ".", "..", "-", "-1", "+1", "007", "1.0", "1e3", "0x10", "9007199254740991", "9007199254740992", "99999999999999999999",
	"true", "TRUE", "null", "undefined", "NaN", "{id}", "{orders}", "*", "a,b", "a;b", "a/b", "a//b", "../../etc/passwd", `"`, `\`, "'--",
	"%", "%zz", "%2", "%25zz", "%00", "%0d%0aX-Injected:%20yes", "%ff", "%c3%28", "%ed%a0%80", "%ef%bb%bf", "%f0%9f%92%a9", "%2e%2e", "%20", "\u00e9",
	"latest", "recover", "checkpoint:7", "$(id)", "<script>", strings.Repeat("a", 129), strings.Repeat("a", 1025), strings.Repeat("%F0%9F%92%A9", 300),
}

var longWords = func() []string {
	var out []string
	for _, text := range []string{"a", "%41", "../", "0"} {
		for _, n := range []int{1 << 10, 9 << 10, 70 << 10} {
			out = append(out, strings.Repeat(text, n))
		}
	}
	return out
}()

// word is one that fits into a line of a request or, once in a while, does not.
func (m *Malformed) word() string {
	switch m.random.IntN(20) {
	case 0:
		return pick(m.random, []string{"\x00", "\xff\xfe", "a b", "\t", "\x7f", "a\x00b", "\u202e"})
	case 1:
		return escape(string(m.noise(1 + m.random.IntN(40))))
	case 2:
		return pick(m.random, longWords)
	case 3:
		return strconv.FormatInt(m.random.Int64()-m.random.Int64(), 10)
	}
	return pick(m.random, words)
}

func (m *Malformed) noise(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(m.random.Uint32())
	}
	return out
}

func wrongPath(m *Malformed, d *draft) bool {
	segments := strings.Split(d.path, "/")
	if len(segments) < 2 {
		return false
	}
	i := 1 + m.random.IntN(len(segments)-1)
	switch m.random.IntN(8) {
	case 0:
		segments = slices.Insert(segments, i, m.word())
	case 1:
		segments = slices.Delete(segments, i, i+1)
	case 2:
		segments = append(segments, "")
	default:
		segments[i] = m.word()
	}
	d.path = strings.Join(segments, "/")
	if !strings.HasPrefix(d.path, "/") {
		d.path = "/" + d.path
	}
	return true
}

func wrongQuery(m *Malformed, d *draft) bool {
	var names []string
	for _, reference := range d.of.operation.Parameters {
		if reference.Value.In == "query" {
			names = append(names, reference.Value.Name)
		}
	}
	if len(names) == 0 {
		return false
	}
	name, value := pick(m.random, names), m.word()
	if name == "wait" && strings.Trim(value, "0123456789") == "" {
		value += "s" // nobody should wait for that
	}
	d.query = slices.DeleteFunc(d.query, func(parameter pair) bool { return parameter.name == name })
	d.query = append(d.query, pair{name, value})
	return true
}

func unknownQuery(m *Malformed, d *draft) bool {
	name := pick(m.random, []string{"foce", "Job", "job[]", "_", "%00", "a%ffb", "", strings.Repeat("n", 3000), "wait ", "limit%20"})
	d.query = append(d.query, pair{name, m.word()})
	return true
}

func repeatedQuery(m *Malformed, d *draft) bool {
	if len(d.query) == 0 {
		return false
	}
	again := pick(m.random, d.query)
	for range pick(m.random, []int{1, 1, 2, 1000}) {
		d.query = append(d.query, again)
	}
	return true
}

func missingQuery(m *Malformed, d *draft) bool {
	if len(d.query) == 0 {
		return false
	}
	i := m.random.IntN(len(d.query))
	d.query = slices.Delete(d.query, i, i+1)
	return true
}

func brokenQuery(m *Malformed, d *draft) bool {
	d.query = append(d.query, pair{pick(m.random, []string{"%", "%zz", "a;b", "a&&", "&", "=", "?", "#f", "job=%e9"}), ""})
	return true
}

// headerWords are what a header may be that means something to the server, and is wrong.
var headerWords = map[string][]string{
	"Accept":          {"", "text/html", "application/json;q=0", "*/*;q=x", "/", ";", ",,,", "application/xml, text/*;q=0.1"},
	"Authorization":   {"", "Bearer", "Bearer ", "Basic Og==", "Bearer \x80", "bearer x y", "Bearer " + strings.Repeat("x", 9000), "Digest username=\"x\""},
	"Content-Digest":  {"", "sha-256", "sha-256=", "sha-256=::", "sha-256=:x:", "sha-256=:AAAA:", "sha-512=:AAAA:", "sha-256=:" + strings.Repeat("A", 43) + "=:", "sha-256=:AA;:, sha-256=1"},
	"Expect":          {"", "100-continue", "200-ok", "100-continue, 100-continue"},
	"If-Match":        {"", "x", `"`, `W/`, `W/"x"`, `*, "x"`, `"a" "b"`, `"a",`, `,"a"`, `"` + strings.Repeat("x", 9000) + `"`, "\"\xff\"", "**"},
	"If-None-Match":   {"", "x", `"`, `W/`, `W/"x"`, `*, "x"`, `"a" "b"`, `"a",`, `"` + strings.Repeat("x", 9000) + `"`, "**"},
	"If-Range":        {"", "x", `"`, `W/"x"`, "Wed, 21 Oct 2015 07:28:00 GMT", `"` + strings.Repeat("x", 9000) + `"`},
	"Range":           {"", "bytes", "bytes=", "bytes=-", "bytes=--1", "bytes=-0", "bytes=5-1", "bytes=0-0,1-1", "bytes=99999999999999999999-", "bytes=-99999999999999999999", "items=0-1", "bytes=0x1-", "bytes= 1 - 2 ", "bytes=" + strings.Repeat("0-0,", 3000)},
	"Idempotency-Key": {"", " ", "a b", "\u00e9", strings.Repeat("k", 256), strings.Repeat("k", 20000), "a\tb", "\x80"},
	"Last-Event-ID":   {"", "x", "-", "0-", "-0", "1-1-1", "00-1", "+1-1", "0x1-1", "99999999999999999999-1", "1-99999999999999999999", "9007199254740992-1", "\x80"},
	"Origin":          {"", "null", "https://example.org", "x", "://", "http://[::1"},
	"Sec-Fetch-Site":  {"cross-site", "same-site", "x", ""},
	"Content-Encoding": {
		"gzip", "br", "identity", "IDENTITY, gzip", "", ",",
	},
	"Transfer-Encoding": {"gzip", "identity", "chunked, chunked", "chunked, gzip", "x", "", "\x0bchunked"},
	"Content-Length":    {"-1", "+5", "x", "", "0x10", "1e3", "5, 5", "99999999999999999999", "18446744073709551616", " 7", "7 7"},
	"Connection":        {"close, x", "keep-alive", "upgrade", "", "\u00e9"},
	"Upgrade":           {"h2c", "websocket", ""},
	"Host":              {"a b", "x:y:z", "[::1", "\u00e9", "", "/", "x\x00", "checkpointd.test"},
	"X-Request-Id":      {"", "a b", strings.Repeat("r", 200), "\x80", "<script>", `"}`},
	"User-Agent":        {"", "\x80", strings.Repeat("u", 20000)},
	"Trailer":           {"Content-Length", "x"},
	"TE":                {"trailers", "x;q=9"},
}

var headerNames = func() []string {
	var names []string
	for name := range headerWords {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

func wrongHeader(m *Malformed, d *draft) bool {
	name := pick(m.random, headerNames)
	var own []string
	for _, reference := range d.of.operation.Parameters {
		if reference.Value.In == "header" {
			own = append(own, reference.Value.Name)
		}
	}
	if len(own) > 0 && !m.sometimes(3) {
		name = pick(m.random, own) // which the operation looks at
	}
	value := m.word()
	if values := headerWords[name]; values != nil && !m.sometimes(6) {
		value = pick(m.random, values)
	}
	d.setHeader(name, value)
	if name == "Content-Length" || name == "Transfer-Encoding" {
		d.ends = true
	}
	return true
}

func repeatedHeader(m *Malformed, d *draft) bool {
	name := pick(m.random, headerNames)
	if len(d.headers) > 0 && !m.sometimes(3) {
		name = pick(m.random, d.headers).name
	}
	values := headerWords[name]
	if values == nil {
		values = words
	}
	for range pick(m.random, []int{2, 2, 3, 500}) {
		d.headers = append(d.headers, pair{name, pick(m.random, values)})
	}
	if name == "Content-Length" || name == "Transfer-Encoding" {
		d.ends = true
	}
	return true
}

var brokenHeaders = []pair{
	{"", "x"},
	{"a b", "x"},
	{"X\x00", "x"},
	{"X", "a\x00b"},
	{"X", "a\r\n folded"},
	{"X", "a\nb"},
	{"\u00e9", "x"},
	{"Content-Type ", "application/json"},
	{"X", strings.Repeat("x", 300<<10)},
	{strings.Repeat("X", 70000), "x"},
	{":", ""},
	{" leading", "x"},
}

func brokenHeader(m *Malformed, d *draft) bool {
	d.headers = append(d.headers, pick(m.random, brokenHeaders))
	return true
}

func wrongMethod(m *Malformed, d *draft) bool {
	d.method = pick(m.random, []string{
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "Post", "M-SEARCH", "PRI",
		"", " ", "GET\x00", "G@T", "\u00e9", strings.Repeat("M", 5000),
	})
	return true
}

func wrongMediaType(m *Malformed, d *draft) bool {
	d.mediaType = pick(m.random, []string{
		"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data", "application/x-ndjson", "application/json",
		"application/json; charset=latin1", "application/json; charset=utf-8; charset=utf-8", "application/json;", "application/json; a", "json", "/", ";", "application/", "*/*",
		"application/json, text/plain", "application/problem+json", "APPLICATION/JSON; charset=\"UTF-8", "\x80", strings.Repeat("a", 3000) + "/json", "application/json\r\nContent-Type: text/plain",
	})
	return true
}

// bodies are what is none that an operation has.
var bodies = []string{
	"", " ", "null", "{}", "[]", `""`, "0", "true", "{", "}", "\n", "\x00", "\xef\xbb\xbf{}", "{}{}", "{} x", "a=b&c=d", "<x/>", "'{}'", "{\"key\":\"k\",\"value\":1}\n", "\r\n\r\n",
	strings.Repeat("[", 100000), strings.Repeat(`{"a":`, 50000), strings.Repeat("[", 1001) + strings.Repeat("]", 1001), `"` + strings.Repeat("x", 200000) + `"`, strings.Repeat("1", 100000),
}

func wrongBody(m *Malformed, d *draft) bool {
	if len(d.body) > 0 && m.sometimes(2) {
		d.body, d.document = nil, nil
		return true
	}
	d.body, d.document = []byte(pick(m.random, bodies)), nil
	if m.sometimes(5) {
		d.body = m.noise(m.random.IntN(200))
	}
	if d.mediaType == "" {
		d.mediaType = "application/json"
	}
	return true
}

// values are what may stand where another JSON value belongs.
var values = []raw{
	"null", "true", "false", "0", "-1", "-0", "1.5", "1e2", "1E400", "-1e999999999", "9007199254740992", "9223372036854775808", "18446744073709551616", "00", "+1", ".5", "1.", "0x10", "NaN",
	`""`, `" "`, `"x"`, `"1"`, `"."`, `".."`, `"-"`, `"a/b"`, `"a\u0000b"`, `"\ud800"`, `"\udc00\ud800"`, `"\x"`, "\"\xff\"", "\"\x01\"", `"`, `'x'`, `"sha256:x"`, `"\ufeff"`,
	"[]", "{}", "[null]", `[""]`, `["a","a"]`, `[[]]`, `{"":1}`, `{"a":1,"a":2}`, `{"a":null}`, `[{"taskId":"x"}]`, "[", "{", "[1,]", `{"a":1,}`, `{"a"}`, `{a:1}`, "tru", "nul", "", ",", "//x", "/**/1", "undefined",
	raw(strings.Repeat("[", 1002) + strings.Repeat("]", 1002)), raw(strings.Repeat(`{"a":`, 1002) + "1" + strings.Repeat("}", 1002)), raw(strings.Repeat("[", 60000)),
	raw(`"` + strings.Repeat("x", 5000) + `"`), raw(`"` + strings.Repeat("\u00e9", 1025) + `"`), raw(strings.Repeat("9", 5000)), raw("[" + strings.Repeat("0,", 11000) + "0]"),
	raw(func() string {
		var names strings.Builder
		for i := range 10001 {
			fmt.Fprintf(&names, `,"t%d"`, i)
		}
		return "[" + names.String()[1:] + "]"
	}()),
}

func wrongValue(m *Malformed, d *draft) bool {
	if d.document == nil {
		return false
	}
	all := places(place{d.document, func(v any) { d.document = v }})
	pick(m.random, all).set(pick(m.random, values))
	d.body = appendTree(nil, d.document)
	return true
}

// objects are the places of the body that have members.
func (d *draft) objects() []place {
	return slices.DeleteFunc(places(place{d.document, func(v any) { d.document = v }}), func(p place) bool {
		members, is := p.get.(object)
		return !is || len(members) == 0
	})
}

func missingMember(m *Malformed, d *draft) bool {
	all := d.objects()
	if len(all) == 0 {
		return false
	}
	at := pick(m.random, all)
	members, _ := at.get.(object)
	i := m.random.IntN(len(members))
	at.set(slices.Delete(slices.Clone(members), i, i+1))
	d.body = appendTree(nil, d.document)
	return true
}

func extraMember(m *Malformed, d *draft) bool {
	all := d.objects()
	if len(all) == 0 {
		return false
	}
	at := pick(m.random, all)
	members, _ := at.get.(object)
	more := pick(m.random, members) // which comes twice then
	if !m.sometimes(3) {
		more = member{pick(m.random, []string{`"x"`, `""`, `"TASKID"`, `"\u0000"`, `"\ud800"`, "\"\xff\"", `1`, `null`, `x`, `"` + strings.Repeat("n", 3000) + `"`}), pick(m.random, values)}
	}
	at.set(slices.Insert(slices.Clone(members), m.random.IntN(len(members)+1), more))
	d.body = appendTree(nil, d.document)
	return true
}

func changedBytes(m *Malformed, d *draft) bool {
	if len(d.body) == 0 {
		return false
	}
	d.body = bytes.Clone(d.body)
	for range 1 + m.random.IntN(4) {
		i := m.random.IntN(len(d.body))
		switch m.random.IntN(3) {
		case 0:
			d.body[i] = byte(m.random.Uint32())
		case 1:
			d.body = slices.Insert(d.body, i, m.noise(1+m.random.IntN(3))...)
		default:
			d.body[i] = pick(m.random, []byte("{}[]\",:\\0e-.n\n\x00\xc3"))
		}
	}
	d.document = nil
	return true
}

func cutBody(m *Malformed, d *draft) bool {
	if len(d.body) == 0 {
		return false
	}
	d.body, d.document = d.body[:m.random.IntN(len(d.body))], nil
	return true
}

func wrongLength(m *Malformed, d *draft) bool {
	d.length = pick(m.random, []string{"1", "0", "1000", "8388609", "17000000", "5000000000", "1099511627776", "9223372036854775807"})
	d.ends = true
	return true
}

func wrongChunks(m *Malformed, d *draft) bool {
	d.body, d.document = []byte(pick(m.random, []string{
		"", "0\r\n\r\n", "5\r\nabc", "x\r\n", "-1\r\n\r\n", "ffffffffffffffffff\r\n", "3\r\n{}\n\r\n0\r\n\r\n", "2;ext=" + strings.Repeat("x", 5000) + "\r\n{}\r\n0\r\n\r\n", "2\r\n{}\r\n0\r\nX: y\r\n\r\n", "2\n{}\n0\n\n",
	})), nil
	d.setHeader("Transfer-Encoding", "chunked")
	d.unframed, d.ends = true, true
	if m.sometimes(3) {
		d.length = "7" // both lengths: what smugglers send
	}
	return true
}

func wrongLine(m *Malformed, d *draft) bool {
	switch m.random.IntN(4) {
	case 0:
		d.version = pick(m.random, []string{"HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/3.0", "HTTP/1.2", "HTTP/9999999999.1", "http/1.1", "HTTP/1.1 ", "", "X"})
		d.ends = true
	case 1:
		d.path = pick(m.random, []string{"http://", "http://x:y@z", "//", "*", "", "http:" + d.path, "http://example.org" + d.path, "/" + d.path, "/." + d.path, "/%2e" + d.path, `\`, "?", "#", "mailto:x", "%"})
	case 2:
		d.path += pick(m.random, []string{"#fragment", "?", "/", "%", "\x00", "\t", "\xff", ";a=b", "/..", "//"})
	default:
		d.method += pick(m.random, []string{" ", "\t", "\r", "\n"})
	}
	return true
}

func noRequest(m *Malformed, d *draft) bool {
	if !m.sometimes(4) { // there is not so much to find
		return false
	}
	d.ends = true
	switch m.random.IntN(5) {
	case 0:
		d.garbage = m.noise(1 + m.random.IntN(300))
	case 1:
		whole := d.bytes()
		d.garbage = whole[:1+m.random.IntN(len(whole)-1)]
	case 2:
		d.garbage = slices.Clone(d.bytes())
		for range 1 + m.random.IntN(5) {
			d.garbage[m.random.IntN(len(d.garbage))] = byte(m.random.Uint32())
		}
	case 3:
		d.garbage = []byte(pick(m.random, []string{"\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "*1\r\n$4\r\nPING\r\n", "GET / HTTP/1.1\nHost: x\n\n"}))
	default:
		d.garbage = bytes.Replace(d.bytes(), []byte("\r\n"), []byte(pick(m.random, []string{"\n", "\r", "\r\n\r\n", "\x00\r\n"})), 1+m.random.IntN(3))
	}
	return true
}
