package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// limitOfBodies is the limit of a JSON body for which the contract names none.
const limitOfBodies = "bodyBytes"

// operationTable writes the table of operations.
func operationTable(document *openapi3.T) ([]byte, error) {
	limits := document.Components.Schemas["Limits"].Value
	var out bytes.Buffer
	out.WriteString("package operations\n\nimport (\n" +
		"\"github.com/checkpointd/checkpointd/internal/coordinator\"\n" +
		")\n\nvar table = [...]*Operation{\n")
	paths := document.Paths.Map()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		methods := paths[path].Operations()
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			o := operation{Operation: methods[method], item: paths[path], method: method, path: path}
			if err := o.write(&out, limits); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
		}
	}
	out.WriteString("}\n")
	return out.Bytes(), nil
}

// operation is one operation of the contract and where it is.
type operation struct {
	*openapi3.Operation

	item         *openapi3.PathItem
	method, path string
}

func (o operation) write(out *bytes.Buffer, limits *openapi3.Schema) error {
	role, class := o.word("x-role"), o.word("x-class")
	if role == "" || class == "" {
		return errors.New("x-role or x-class is missing")
	}
	limitName := o.word("x-body-limit")
	if limitName == "" {
		limitName = limitOfBodies
	}
	limit, known := limits.Properties[limitName]
	if !known {
		return fmt.Errorf("x-body-limit: Limits has no member %s", limitName)
	}
	fmt.Fprintf(out, "{\nName: %q, Method: %q, Path: %q,\nRole: %q,", strings.ToUpper(o.OperationID[:1])+o.OperationID[1:], o.method, o.path, role)
	if taskRole := o.word("x-role-for-a-task"); taskRole != "" {
		fmt.Fprintf(out, " TaskRole: %q,", taskRole)
	}
	fmt.Fprintf(out, " Class: %q,", class)
	flag := func(name string, holds bool) {
		if holds {
			fmt.Fprintf(out, " %s: true,", name)
		}
	}
	flag("EveryJob", o.word("x-jobs") == "all")
	flag("MayBePublic", o.isPublic())
	flag("Streams", o.Extensions["x-streams"] == true)
	flag("Long", o.word("x-budget") == "long")
	out.WriteString("\n")
	list := func(name string, values []string) {
		if len(values) > 0 {
			fmt.Fprintf(out, "%s: %#v,\n", name, values)
		}
	}
	list("Consumes", o.consumes())
	list("Produces", o.produces())
	if o.RequestBody != nil {
		fmt.Fprintf(out, "BodyLimit: coordinator.%s, BodyLimitName: %q,\n", limit.Value.Extensions[constantKey], limitName)
	}
	if err := o.writeQuery(out); err != nil {
		return err
	}
	list("PathParameters", inPath(o.path))
	list("Headers", o.parameters(openapi3.ParameterInHeader))
	out.WriteString("},\n")
	return nil
}

// word is an extension that is a text, "" where it is absent.
func (o operation) word(name string) string {
	text, _ := o.Extensions[name].(string)
	return text
}

// isPublic tells whether the operation goes without a token where the server allows it.
func (o operation) isPublic() bool {
	return o.Security != nil && slices.ContainsFunc(*o.Security, func(demanded openapi3.SecurityRequirement) bool { return len(demanded) == 0 })
}

func (o operation) consumes() []string {
	if o.RequestBody == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(o.RequestBody.Value.Content))
}

// produces are the media types of a success. A HEAD declares no content, and is answered as
// its GET.
func (o operation) produces() []string {
	responses := o.Responses
	if o.method == http.MethodHead {
		responses = o.item.Get.Responses
	}
	types := map[string]bool{}
	for status, response := range responses.Map() {
		if strings.HasPrefix(status, "2") {
			for mediaType := range response.Value.Content {
				types[mediaType] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(types))
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func inPath(path string) []string {
	matches := pathParameter.FindAllStringSubmatch(path, -1)
	names := make([]string, len(matches))
	for i, match := range matches {
		names[i] = match[1]
	}
	return names
}

// parameters are the names of those of a kind, in the order of the contract.
func (o operation) parameters(kind string) []string {
	var names []string
	for _, parameter := range o.Parameters {
		if parameter.Value.In == kind {
			names = append(names, parameter.Value.Name)
		}
	}
	return names
}

func (o operation) writeQuery(out *bytes.Buffer) error {
	if len(o.item.Parameters) > 0 {
		return errors.New("parameters stand at the operation, not at its path")
	}
	if len(o.parameters(openapi3.ParameterInQuery)) == 0 {
		return nil
	}
	out.WriteString("Query: []Parameter{\n")
	for _, parameter := range o.Parameters {
		if parameter.Value.In != openapi3.ParameterInQuery {
			continue
		}
		if err := writeParameter(out, parameter.Value); err != nil {
			return fmt.Errorf("parameter %s: %w", parameter.Value.Name, err)
		}
	}
	out.WriteString("},\n")
	return nil
}

func writeParameter(out *bytes.Buffer, parameter *openapi3.Parameter) error {
	schema := parameter.Schema.Value
	fmt.Fprintf(out, "{Name: %q", parameter.Name)
	if schema.Type.Is("array") {
		out.WriteString(", Repeated: true")
		schema = schema.Items.Value
	}
	if parameter.Required {
		out.WriteString(", Required: true")
	}
	switch {
	case schema.Type.Is("string"):
		out.WriteString(", Type: Text")
	case schema.Type.Is("boolean"):
		out.WriteString(", Type: Boolean")
	case schema.Type.Is("integer"):
		if schema.Min == nil || schema.Max == nil {
			return errors.New("an integer needs minimum and maximum")
		}
		fmt.Fprintf(out, ", Type: Integer, Minimum: %.0f, Maximum: %.0f", *schema.Min, *schema.Max)
	default:
		return fmt.Errorf("a query has no %v", schema.Type.Slice())
	}
	if len(schema.Enum) > 0 {
		fmt.Fprintf(out, ", Enum: []string{")
		for _, value := range schema.Enum {
			fmt.Fprintf(out, "%q,", value)
		}
		out.WriteString("}")
	}
	out.WriteString("},\n")
	return nil
}
