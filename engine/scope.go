package engine

import (
	"context"
	"fmt"
)

// scope is what a context knows of the record it belongs to. It is never changed, so
// that setting a key needs no lock and ends with the context that has it.
type scope struct {
	key   any // nil is none
	at    int64
	timed bool
}

type scopeKey struct{}

// scoped is a context with a scope, in one piece as there are several for each record.
type scoped struct {
	context.Context //nolint:containedctx // it is a context

	scope scope
}

// Value finds the innermost scope.
func (s *scoped) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	return s.Context.Value(key)
}

func scopeOf(ctx context.Context) scope {
	if s, ok := ctx.Value(scopeKey{}).(*scoped); ok {
		return s.scope
	}
	return scope{}
}

func (s scope) in(ctx context.Context) context.Context {
	return &scoped{Context: ctx, scope: s}
}

// WithKey returns a context whose current key is key: the one that the states of a
// [KeyedStore] are read and written under. [KeyBy] does it for every record.
func WithKey[K comparable](ctx context.Context, key K) context.Context {
	s := scopeOf(ctx)
	s.key = key
	return s.in(ctx)
}

// CurrentKey returns the current key of ctx. It fails with [ErrNoKey] when there is none
// of this type.
func CurrentKey[K comparable](ctx context.Context) (K, error) {
	current := scopeOf(ctx).key
	key, ok := current.(K)
	if !ok {
		if current == nil {
			return key, ErrNoKey
		}
		return key, fmt.Errorf("%w of type %T: it is a %T", ErrNoKey, key, current)
	}
	return key, nil
}

// Timestamp returns the event time of the record or timer that ctx belongs to, in
// milliseconds, and whether there is one.
func Timestamp(ctx context.Context) (at int64, ok bool) {
	s := scopeOf(ctx)
	return s.at, s.timed
}

func withTimestamp(ctx context.Context, at int64) context.Context {
	s := scopeOf(ctx)
	s.at, s.timed = at, true
	return s.in(ctx)
}
