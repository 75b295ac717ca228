package coordinator

import "context"

type byKey struct{}

// By gives a context whose calls are made in the name of somebody: their events say so.
// "" is nobody in particular.
func By(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, byKey{}, name)
}

func byOf(ctx context.Context) string {
	name, _ := ctx.Value(byKey{}).(string)
	return name
}
