package handlers

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// errNull marks a null where the contract has none.
var errNull = errors.New("null")

// strict refuses, beyond what is not JSON, repeated and unknown members, names in another
// case, numbers with fraction or exponent for whole ones, and null where the contract does
// not name it: a client that sends null means something, and absent may not be it.
var strict = json.JoinOptions(
	json.RejectUnknownMembers(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(json.UnmarshalFromFunc(func(decoder *jsontext.Decoder, target any) error {
		if decoder.PeekKind() == 'n' {
			// Types that read their own JSON, raw values among them, know about null.
			if _, own := target.(stdjson.Unmarshaler); !own {
				return errNull
			}
		}
		return errors.ErrUnsupported // go on as usual
	}), boundedLists)),
)

// decodeStrict decodes a whole JSON text into target, a pointer that the generated code
// has made. The error is a refusal.
func decodeStrict(raw []byte, target any) error {
	if _, empty := target.(*api.EmptyObject); empty {
		target = new(struct{}) // a map would take any member
	}
	err := json.Unmarshal(raw, target, strict)
	if err == nil {
		return checkRequired(raw, target)
	}
	if refusal, ok := errors.AsType[*coordinator.Error](err); ok {
		return refusal // of an item of a list
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return invalidRequest(shortPointer(semantic.JSONPointer), semanticDetail(semantic))
	}
	return invalidJSON(raw)
}

// invalidJSON finds the sentence for a text that is not JSON. The decoder's own errors
// speak of Go; the scanner of package snapshot refuses the same texts in our words.
func invalidJSON(raw []byte) *coordinator.Error {
	field := coordinator.FieldError{Detail: "It is not JSON."}
	if _, canonical := snapshot.Canonical(raw); canonical != nil {
		if syntax, ok := errors.AsType[*snapshot.SyntaxError](canonical); ok {
			field = coordinator.FieldError{Pointer: syntax.Pointer, Detail: sentence(fmt.Sprintf("%s (byte %d)", syntax.Detail, syntax.Offset))}
		}
	}
	return &coordinator.Error{
		Code:   coordinator.CodeInvalidJSON,
		Detail: "The body is not strict JSON: mend it and send it again; errors has the place and the reason.",
		Fields: []coordinator.FieldError{field},
	}
}

// semanticDetail says in the client's words why JSON is not of the wanted form.
func semanticDetail(err *json.SemanticError) string {
	switch {
	case errors.Is(err.Err, json.ErrUnknownName):
		return fmt.Sprintf("The member is unknown. Known here: %s.", strings.Join(memberNames(err.GoType), ", "))
	case errors.Is(err.Err, errNull):
		return "null is not allowed here; leave the member out instead."
	case errors.Is(err.Err, strconv.ErrRange):
		return "The number is out of range."
	case errors.Is(err.Err, strconv.ErrSyntax) && err.JSONKind == '0':
		return "The number must be whole and written without fraction and exponent."
	}
	return fmt.Sprintf("It must be %s, and is %s.", wantedName(err.GoType), kindName(err.JSONKind))
}

// memberNames lists the members of an object, none for one that has none.
func memberNames(object reflect.Type) []string {
	var names []string
	if object != nil && object.Kind() == reflect.Struct {
		for field := range object.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{"none"}
	}
	return names
}

func wantedName(target reflect.Type) string {
	if target == nil {
		return "of another type"
	}
	if target == reflect.TypeFor[api.NullableString]() {
		return "a string or null"
	}
	switch target.Kind() {
	case reflect.Pointer:
		return wantedName(target.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "of another type"
	}
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 'n':
		return "null"
	default:
		return "of another type"
	}
}

// checkRequired finds required members that are absent: for the decoder they are as good
// as zero, and a cleanup that forgot keep must not keep 0.
func checkRequired(raw []byte, target any) error {
	object := reflect.ValueOf(target).Elem()
	if object.Kind() != reflect.Struct {
		return nil
	}
	for i := range object.NumField() {
		name, options, _ := strings.Cut(object.Type().Field(i).Tag.Get("json"), ",")
		if strings.Contains(options, "omit") || !object.Field(i).IsZero() || hasMember(raw, name) {
			continue
		}
		return invalidRequest("/"+name, "The member is required.")
	}
	return nil
}

// hasMember tells whether the outermost object of a valid JSON text has a member.
func hasMember(raw []byte, name string) bool {
	decoder := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.ReadToken(); err != nil {
		return false
	}
	for decoder.PeekKind() == '"' {
		token, err := decoder.ReadToken()
		if err != nil {
			return false
		}
		if token.String() == name {
			return true
		}
		if decoder.SkipValue() != nil {
			return false
		}
	}
	return false
}

// shortPointer bounds a pointer, whose names are the client's: one that is too long names
// the enclosing value.
func shortPointer(pointer jsontext.Pointer) string {
	const most = 1024
	for len(pointer) > most {
		pointer = pointer.Parent()
	}
	return string(pointer)
}

// sentence makes a finished sentence of a detail of package snapshot.
func sentence(detail string) string {
	first, size := utf8.DecodeRuneInString(detail)
	return string(unicode.ToUpper(first)) + detail[size:] + "."
}
