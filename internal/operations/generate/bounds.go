package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// The extensions that make constants of bounds; the contract's conventions describe them.
const (
	constantKey = "x-go-const"
	valueKey    = "x-value"
	flagKey     = "x-flag"
)

// limit is one member of GET /limits.
type limit struct {
	name, description string
	// constant is "" for one that an operator sets, by flag.
	constant, flag string
	// value is that of a server whose operator says nothing.
	value string
}

// bounds are the constants by name, as Go writes their values, and the limits in their order.
type bounds struct {
	values map[string]string
	places map[string]string
	limits []limit
}

// boundsOf finds every constant in the contract. A constant with two values is an error, and so
// is a member of Limits whose constant has none.
func boundsOf(document *openapi3.T) (*bounds, error) {
	b := &bounds{values: map[string]string{}, places: map[string]string{}}
	if err := b.collect(document); err != nil {
		return nil, err
	}
	schema := document.Components.Schemas["Limits"].Value
	example, _ := document.Components.Examples["Limits"].Value.Value.(map[string]any)
	for _, name := range inOrder(schema) {
		property := schema.Properties[name].Value
		l := limit{name: name, description: property.Description}
		l.constant, _ = property.Extensions[constantKey].(string)
		l.flag, _ = property.Extensions[flagKey].(string)
		l.value = b.values[l.constant]
		if shown, is := example[name].(float64); is && l.flag != "" {
			l.value = strconv.FormatFloat(shown, 'f', -1, 64)
		}
		if l.value == "" {
			return nil, fmt.Errorf("the limit %s is neither a constant with a value nor set by a flag with an example", name)
		}
		b.limits = append(b.limits, l)
	}
	return b, nil
}

// inOrder are the members of a schema as x-order has them.
func inOrder(schema *openapi3.Schema) []string {
	order := func(name string) int {
		number, _ := schema.Properties[name].Value.Extensions["x-order"].(float64)
		return int(number)
	}
	return slices.SortedFunc(maps.Keys(schema.Properties), func(a, b string) int { return order(a) - order(b) })
}

// collect walks over every schema that the contract spells out; what it refers to is met where it
// is spelled out.
func (b *bounds) collect(document *openapi3.T) error {
	var failed []error
	visit := func(place string, ref *openapi3.SchemaRef) { failed = append(failed, b.schema(place, ref)) }
	parameter := func(place string, ref *openapi3.ParameterRef) {
		if ref.Ref == "" {
			visit(place+" "+ref.Value.Name, ref.Value.Schema)
		}
	}
	for name, schema := range document.Components.Schemas {
		visit(name, schema)
	}
	for name, ref := range document.Components.Parameters {
		parameter(name, ref)
	}
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			for _, ref := range operation.Parameters {
				parameter(method+" "+path, ref)
			}
		}
	}
	return errors.Join(failed...)
}

func (b *bounds) schema(place string, ref *openapi3.SchemaRef) error {
	if ref == nil || ref.Ref != "" {
		return nil
	}
	schema := ref.Value
	var failed []error
	switch constant := schema.Extensions[constantKey].(type) {
	case map[string]any:
		for keyword, name := range constant {
			value, err := valueOf(schema, keyword)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", place, err))
				continue
			}
			failed = append(failed, b.add(place, fmt.Sprint(name), value))
		}
	case string:
		if value, has := schema.Extensions[valueKey].(float64); has {
			failed = append(failed, b.add(place, constant, strconv.FormatFloat(value, 'f', -1, 64)))
		}
	}
	for name, property := range schema.Properties {
		failed = append(failed, b.schema(place+"."+name, property))
	}
	for _, part := range slices.Concat(schema.AllOf, schema.OneOf) {
		failed = append(failed, b.schema(place, part))
	}
	failed = append(failed, b.schema(place+"[]", schema.Items), b.schema(place+".*", schema.AdditionalProperties.Schema))
	return errors.Join(failed...)
}

func (b *bounds) add(place, constant, value string) error {
	if other, has := b.values[constant]; has && other != value {
		return fmt.Errorf("%s is %s at %s and %s at %s", constant, other, b.places[constant], value, place)
	}
	if first, has := b.places[constant]; !has || place < first {
		b.places[constant] = place // the same one each time, whatever the order
	}
	b.values[constant] = value
	return nil
}

// valueOf is the value of a bound as Go writes it.
func valueOf(schema *openapi3.Schema, keyword string) (string, error) {
	number := func(n *uint64) (string, error) {
		if n == nil {
			return "", fmt.Errorf("%s is named in %s and missing", keyword, constantKey)
		}
		return strconv.FormatUint(*n, 10), nil
	}
	switch keyword {
	case "maxLength":
		return number(schema.MaxLength)
	case "maxItems":
		return number(schema.MaxItems)
	case "maxProperties":
		return number(schema.MaxProps)
	case "maximum":
		if schema.Max != nil {
			return strconv.FormatFloat(*schema.Max, 'f', -1, 64), nil
		}
	case "default":
		if value, is := schema.Default.(float64); is {
			return strconv.FormatFloat(value, 'f', -1, 64), nil
		}
	case "pattern":
		if schema.Pattern != "" {
			return "`" + schema.Pattern + "`", nil
		}
	}
	return "", fmt.Errorf("%s: there is no such bound, or it is of no use as a constant", keyword)
}

// constants writes them for package coordinator.
func (b *bounds) constants() []byte {
	described := map[string]limit{}
	for _, l := range b.limits {
		described[l.constant] = l
	}
	var out bytes.Buffer
	out.WriteString("package coordinator\n\n// The bounds of the contract. GET /limits serves those that it names.\nconst (\n")
	for _, name := range slices.Sorted(maps.Keys(b.values)) {
		if l, is := described[name]; is {
			fmt.Fprintf(&out, "// %s is %s of GET /limits: %s\n", name, l.name, lowerFirst(l.description))
		} else {
			fmt.Fprintf(&out, "// %s is from %s of the contract.\n", name, b.places[name])
		}
		fmt.Fprintf(&out, "%s = %s\n", name, b.values[name])
	}
	out.WriteString(")\n")
	return out.Bytes()
}

func lowerFirst(text string) string {
	text = strings.TrimSpace(text)
	return strings.ToLower(text[:1]) + text[1:]
}

// page is docs/limits.md.
func (b *bounds) page() []byte {
	var out bytes.Buffer
	out.WriteString(pageHead)
	for _, l := range b.limits {
		flag := ""
		if l.flag != "" {
			flag = "`" + l.flag + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", l.name, spaced(l.value), strings.TrimSuffix(strings.TrimSpace(l.description), "."), flag)
	}
	return out.Bytes()
}

const pageHead = `# Limits

<!-- Generated from api/openapi.yaml by "go generate ./...". Do not edit. -->

` + "`GET /limits`" + ` tells what holds at a server. A refusal that a limit caused names it in ` + "`limit`" + `: too many bytes are 413 ` + "`too_large`" + `,
too many items 422 ` + "`limit_exceeded`" + `; a name or a number that is out of bounds is 400 (` + "`invalid_request`, `invalid_parameter`" + `), and
what a server takes at once is 429 or 503. Sizes are bytes of UTF-8. Those with a flag are an operator's to set.

| limit | value | what it bounds | flag |
|---|---|---|---|
`

// spaced parts the digits of a number by threes.
func spaced(number string) string {
	const group = 3
	if len(number) <= group+1 {
		return number
	}
	head := len(number) % group
	parts := []string{}
	if head > 0 {
		parts = append(parts, number[:head])
	}
	for ; head < len(number); head += group {
		parts = append(parts, number[head:head+group])
	}
	return strings.Join(parts, " ")
}
