package redisson

import "fmt"

// Code says why a value cannot be read as a checkpoint.
type Code string

// The codes. They are words that scripts may look for.
const (
	// KryoEncoded is a value of Redisson's default codec, which is binary and cannot be read
	// without the very classes that wrote it.
	KryoEncoded Code = "kryo_encoded"
	// UnknownEncoding is neither JSON nor Kryo.
	UnknownEncoding Code = "unknown_encoding"
	// InvalidJSON is JSON that is cut off, has a member twice, is not UTF-8, or nests too deeply.
	InvalidJSON Code = "invalid_json"
	// OtherClass is JSON of something else than a checkpoint.
	OtherClass Code = "other_class"
	// OtherID is a checkpoint with another id than its key.
	OtherID Code = "other_id"
	// UnexpectedShape is a checkpoint with a field that the library does not write like that.
	UnexpectedShape Code = "unexpected_shape"
	// UnusableKey is a key of the state that this server cannot have, such as an empty one.
	UnusableKey Code = "unusable_key"
	// TooLarge is a state beyond the limits of a shared state.
	TooLarge Code = "too_large"
)

// UnreadableError says why a value was not read.
type UnreadableError struct {
	Code Code
	// Detail is a sentence for an operator, without a full stop.
	Detail string
	// Checkpoint tells that it is a checkpoint of the library all the same: its id is taken.
	Checkpoint bool
}

func (e *UnreadableError) Error() string { return string(e.Code) + ": " + e.Detail }

// unreadable is about a checkpoint of the library.
func unreadable(code Code, format string, args ...any) *UnreadableError {
	return &UnreadableError{Code: code, Detail: fmt.Sprintf(format, args...), Checkpoint: true}
}

// foreign is about something that the library need not have written.
func foreign(code Code, format string, args ...any) *UnreadableError {
	return &UnreadableError{Code: code, Detail: fmt.Sprintf(format, args...)}
}
