package handlers

import "reflect"

// large is an answer that knows how much memory it takes until it is written.
type large interface{ size() int }

// renderedCopies is how often what an answer says is in memory at most while it is written: as the
// store gave it, as the text that grows, and as what that grew from.
const renderedCopies = 3

// sizeOfAnswer is about how many bytes of memory an answer takes until its client has read it.
func sizeOfAnswer(response any) int {
	if answer, knows := response.(large); knows {
		return answer.size()
	}
	return renderedCopies * sizeOf(reflect.ValueOf(response))
}

// memberBytes is what the name and punctuation of one member take, and its number, if it is one.
const memberBytes = 24

// sizeOf is about how long the JSON of a value is.
func sizeOf(v reflect.Value) int {
	switch v.Kind() {
	case reflect.String:
		return memberBytes + sizeOfText(v.String())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return sizeOf(v.Elem())
	case reflect.Struct:
		sum := 0
		for _, field := range v.Fields() {
			sum += sizeOf(field)
		}
		return sum
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Len()
		}
		sum := memberBytes
		for i := range v.Len() {
			sum += sizeOf(v.Index(i))
		}
		return sum
	case reflect.Map:
		sum := memberBytes
		for entry := v.MapRange(); entry.Next(); {
			sum += sizeOf(entry.Key()) + sizeOf(entry.Value())
		}
		return sum
	default:
		return memberBytes
	}
}

// sizeOfText counts what JSON escapes as the six characters that it becomes.
func sizeOfText(text string) int {
	const escape = 6
	size := len(text)
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			size += escape - 1
		}
	}
	return size
}
