// Package attempt is what the package windlass shares with the fake server of windlasstest and with nobody else.
package attempt

import (
	"encoding/json"
	"fmt"
)

// Run runs a handler as one attempt and turns its panic into an error. The package windlass sets it. Its arguments are a
// windlass.Handler, a windlass.Job, a *windlass.Saved and a server, as any because this package cannot import that one.
var Run func(handler, job, saved, server any) ([]byte, error)

// Child is a child as the server describes it on a page.
type Child struct {
	Ordinal uint32
	ID      string
	Queue   string
	// A windlass.ChildState.
	State uint8
	// The last error; may be empty.
	Error string
	// Nil when there is none, or when it is too large for a page.
	Result      []byte
	ResultBytes uint64
}

// Typed makes a handler of bytes out of a handler of Go values, with JSON in between.
func Typed[Context, In, Out any](
	handle func(Context, In) (Out, error), payload func(Context) []byte, fatal func(error) error,
) func(Context) ([]byte, error) {
	return func(ctx Context) ([]byte, error) {
		var in In
		// The same bytes would not parse in the next attempt either.
		if err := json.Unmarshal(payload(ctx), &in); err != nil {
			return nil, fatal(fmt.Errorf("the payload is not what this handler takes: %w", err))
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, err
		}
		result, err := json.Marshal(out)
		if err != nil {
			return nil, fatal(fmt.Errorf("the result cannot be written as JSON: %w", err))
		}
		return result, nil
	}
}
