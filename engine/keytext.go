package engine

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// keyText spells a key: a string as it is, what knows its text as that, an integer in
// decimal, anything else as its JSON.
func keyText[K comparable](key K) (string, error) {
	v := reflect.ValueOf(&key).Elem()
	if v.Kind() == reflect.String {
		if !utf8.ValidString(v.String()) { // JSON would replace what is not, and two keys be one
			return "", fmt.Errorf("encode the key %q: it is not UTF-8", v.String())
		}
		return v.String(), nil
	}
	if m, ok := any(key).(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err != nil {
			return "", fmt.Errorf("encode the key %v: %w", key, err)
		}
		return string(text), nil
	}
	switch {
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	}
	text, err := json.Marshal(key)
	if err != nil {
		return "", fmt.Errorf("encode the key %v: %w", key, err)
	}
	return string(text), nil
}

// parseKey reads what keyText wrote. An integer is read by its JSON, which is the same.
func parseKey[K comparable](text string) (K, error) {
	var key K
	v := reflect.ValueOf(&key).Elem()
	if v.Kind() == reflect.String {
		v.SetString(text)
		return key, nil
	}
	var err error
	if u, ok := any(&key).(encoding.TextUnmarshaler); ok {
		err = u.UnmarshalText([]byte(text))
	} else {
		err = json.Unmarshal([]byte(text), &key)
	}
	if err != nil {
		return key, fmt.Errorf("decode the key %q: %w", text, err)
	}
	return key, nil
}
