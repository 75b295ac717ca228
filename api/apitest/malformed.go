package apitest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/checkpointd/checkpointd/api"
)

// Malformed makes requests that are wrong in some way, for every operation of the contract
// in turn. The same seed and the same values make the same requests. Some of what it makes
// is right by chance, or is wrong only to a stricter reader than a server has to be.
type Malformed struct {
	// Values are what path and query parameters may have by their names, such as the ids of
	// checkpoints that there are; where there is none the contract's example is taken.
	Values map[string][]string
	// Members are what members of bodies have by their names, instead of what they have in
	// the contract's examples.
	Members map[string]any
	// Authorization are the values that its header has in turn, "" for a request without;
	// nil is no header in any.
	Authorization []string

	document   *openapi3.T
	random     *rand.Rand
	operations []described
	made       int
}

// described is an operation as the contract has it.
type described struct {
	method, path string
	item         *openapi3.PathItem
	operation    *openapi3.Operation
}

// NewMalformed reads the contract.
func NewMalformed(seed uint64) (*Malformed, error) {
	document, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		return nil, fmt.Errorf("load the contract: %w", err)
	}
	m := &Malformed{document: document, random: rand.New(rand.NewPCG(seed, seed))}
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			m.operations = append(m.operations, described{method, path, item, operation})
		}
	}
	slices.SortFunc(m.operations, func(a, b described) int {
		return strings.Compare(a.path+" "+a.method, b.path+" "+b.method)
	})
	return m, nil
}

// Operations is how many operations the contract has.
func (m *Malformed) Operations() int { return len(m.operations) }

// Wire is one request as it goes out.
type Wire struct {
	// OperationID tells whose right request it was made of, Wrong what was done to it.
	OperationID string
	Wrong       []string
	// Method is the one of the request line, for the reader of the answer.
	Method string
	Bytes  []byte
	// Ends tells that the sender has to close its side behind the bytes, since whoever
	// believes the head waits for more.
	Ends bool

	draft *draft
	// routed tells that method and path are still those of the operation.
	routed bool
}

func (w *Wire) String() string {
	return fmt.Sprintf("%s, with %s: %.2000q", w.OperationID, strings.Join(w.Wrong, " and "), w.Bytes)
}

// Next makes a request: a right one in which one to three things are made wrong.
func (m *Malformed) Next() *Wire {
	of := m.operations[m.made%len(m.operations)]
	m.made++
	d := m.right(of)
	path := d.path
	wire := &Wire{OperationID: of.operation.OperationID, draft: d}
	for most := 1 + m.random.IntN(3)*m.random.IntN(2); len(wire.Wrong) < most; {
		w := pick(m.random, wrongs)
		if w.make(m, d) {
			wire.Wrong = append(wire.Wrong, w.name)
		}
	}
	wire.Method, wire.Bytes, wire.Ends = d.method, d.bytes(), d.ends
	wire.routed = d.method == of.method && d.path == path && d.garbage == nil
	return wire
}

// draft is a request before it is written. Everything in it is raw: what has to be
// encoded was.
type draft struct {
	of                    described
	method, path, version string
	query, headers        []pair
	mediaType             string // of the body
	body                  []byte
	document              any // the body as JSON, nil for another one
	length                string
	// unframed sends the body as it is, whatever the head says of it.
	unframed, ends bool
	// garbage is sent instead of everything else.
	garbage []byte
}

type pair struct{ name, value string }

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// sometimes is true one time in n.
func (m *Malformed) sometimes(n int) bool { return m.random.IntN(n) == 0 }

// value is one that a parameter may have.
func (m *Malformed) value(p *openapi3.Parameter) string {
	if values := m.Values[p.Name]; len(values) > 0 {
		return pick(m.random, values)
	}
	example := p.Example
	if list, ok := example.([]any); ok {
		example = list[0]
	}
	return escape(fmt.Sprint(example))
}

// right makes a request that the contract takes.
func (m *Malformed) right(of described) *draft {
	d := &draft{of: of, method: of.method, path: of.path, version: "HTTP/1.1", headers: []pair{{"Host", "localhost"}}}
	if m.Authorization != nil {
		if value := pick(m.random, m.Authorization); value != "" {
			d.headers = append(d.headers, pair{"Authorization", value})
		}
	}
	for _, reference := range append(slices.Clone(of.item.Parameters), of.operation.Parameters...) {
		switch p := reference.Value; {
		case p.In == openapi3.ParameterInPath:
			d.path = strings.Replace(d.path, "{"+p.Name+"}", m.value(p), 1)
		case p.In == openapi3.ParameterInQuery && (p.Required || m.Values[p.Name] != nil || p.Name != "wait" && m.sometimes(4)):
			d.query = append(d.query, pair{p.Name, m.value(p)})
		case p.In == openapi3.ParameterInHeader && m.sometimes(8):
			d.headers = append(d.headers, pair{p.Name, fmt.Sprint(p.Example)})
		}
	}
	if of.operation.RequestBody == nil {
		return d
	}
	body := of.operation.RequestBody.Value
	if !body.Required && m.sometimes(4) {
		return d
	}
	var mediaTypes []string
	for mediaType := range body.Content {
		mediaTypes = append(mediaTypes, mediaType)
	}
	slices.Sort(mediaTypes)
	d.mediaType = pick(m.random, mediaTypes)
	var names []string
	examples := body.Content[d.mediaType].Examples
	for name := range examples {
		names = append(names, name)
	}
	slices.Sort(names)
	value := examples[pick(m.random, names)].Value.Value
	if text, lines := value.(string); lines && d.mediaType != "application/json" {
		d.body = []byte(text)
		return d
	}
	d.document = plant(value, m.Members)
	d.body = appendTree(nil, d.document)
	return d
}

// bytes writes the request.
func (d *draft) bytes() []byte {
	if d.garbage != nil {
		return d.garbage
	}
	var out bytes.Buffer
	out.WriteString(d.method + " " + d.path)
	for i, parameter := range d.query {
		out.WriteByte("?&"[min(i, 1)])
		out.WriteString(parameter.name + "=" + parameter.value)
	}
	out.WriteString(" " + d.version + "\r\n")
	for _, header := range d.headers {
		out.WriteString(header.name + ": " + header.value + "\r\n")
	}
	if d.mediaType != "" {
		out.WriteString("Content-Type: " + d.mediaType + "\r\n")
	}
	switch {
	case d.length != "":
		out.WriteString("Content-Length: " + d.length + "\r\n")
	case d.body != nil && !d.unframed:
		fmt.Fprintf(&out, "Content-Length: %d\r\n", len(d.body))
	}
	out.WriteString("\r\n")
	out.Write(d.body)
	return out.Bytes()
}

// setHeader replaces a header.
func (d *draft) setHeader(name, value string) {
	d.headers = slices.DeleteFunc(d.headers, func(header pair) bool { return strings.EqualFold(header.name, name) })
	d.headers = append(d.headers, pair{name, value})
}

// escape percent-encodes what is neither letter, digit nor one of -._~.
func escape(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("-._~", b) >= 0 {
			out.WriteByte(b)
			continue
		}
		fmt.Fprintf(&out, "%%%02X", b)
	}
	return out.String()
}
