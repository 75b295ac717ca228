package api

import "encoding/json"

// NullableString is a member of a PATCH body, where absent (leave it), null (take it
// away) and a string (set it) are three different wishes. The zero value is absent.
type NullableString struct {
	// Present tells that the member was there, as null or as a string.
	Present bool
	// Value is the string; nil with Present is null.
	Value *string
}

// IsZero makes an absent member stay out of the JSON.
func (s NullableString) IsZero() bool { return !s.Present }

// MarshalJSON writes the string or null.
func (s NullableString) MarshalJSON() ([]byte, error) { return json.Marshal(s.Value) }

// UnmarshalJSON is called for null too, which is what tells null from absent.
func (s *NullableString) UnmarshalJSON(text []byte) error {
	*s = NullableString{Present: true}
	return json.Unmarshal(text, &s.Value)
}
