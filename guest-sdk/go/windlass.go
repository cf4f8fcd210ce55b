// Package windlass is for writing handlers for the Windlass job server in Go.
//
// A handler is a function from a payload to a result. [Handle] says which queue it serves; [Context] is how it talks to the
// server; the package windlasstest stands in for the server in a test.
//
//	type Order struct {
//		Items []int `json:"items"`
//	}
//
//	func total(ctx *windlass.Context, order Order) (int, error) {
//		sum := 0
//		for n, price := range order.Items {
//			if err := ctx.CheckCancelled(); err != nil {
//				return 0, err
//			}
//			sum += price
//			ctx.Progress(uint64(n+1), uint64(len(order.Items)), "adding up")
//		}
//		return sum, nil
//	}
//
//	func init() { windlass.Handle("orders.total", total) }
//
//	func main() {}
//
// Handlers are registered in an init function: the server never calls main.
package windlass

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
)

// Handler does a job's work: bytes in, in the context's job, and bytes out.
type Handler func(ctx *Context) ([]byte, error)

// Any is the queue name that takes what no other handler does.
const Any = "*"

var handlers = map[string]Handler{}

// Handle says that jobs of this queue go to this function. Payload and result are JSON.
func Handle[In, Out any](queue string, handle func(ctx *Context, in In) (Out, error)) {
	HandleRaw(queue, Typed(handle))
}

// HandleRaw says that jobs of this queue go to a function of bytes. The payload is in ctx.Job.
func HandleRaw(queue string, handle Handler) {
	if _, taken := handlers[queue]; taken {
		panic(fmt.Sprintf("windlass: two handlers for the queue %q", queue))
	}
	handlers[queue] = handle
}

// Typed makes a handler of bytes out of one of Go values, with JSON in between.
func Typed[In, Out any](handle func(ctx *Context, in In) (Out, error)) Handler {
	return func(ctx *Context) ([]byte, error) {
		var in In
		// The same bytes will not parse next time either.
		if err := json.Unmarshal(ctx.Job.Payload, &in); err != nil {
			return nil, Fatal(fmt.Errorf("the payload is not what this handler takes: %w", err))
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, err
		}
		result, err := json.Marshal(out)
		if err != nil {
			return nil, Fatal(fmt.Errorf("the result cannot be written as JSON: %w", err))
		}
		return result, nil
	}
}

// Dispatch runs the handler of the job's queue. A panic becomes an error with its stack. For the component and for tests.
func Dispatch(ctx *Context) ([]byte, error) {
	handle, found := handlers[ctx.Job.Queue]
	if !found {
		handle, found = handlers[Any]
	}
	if !found {
		return nil, Fatal(fmt.Errorf("this plugin has no handler for the queue %q", ctx.Job.Queue))
	}
	return Guard(handle, ctx)
}

// Guard runs a handler and turns its panic into an error.
func Guard(handle Handler, ctx *Context) (result []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			result, err = nil, &Panic{Value: value, Stack: string(debug.Stack())}
		}
	}()
	return handle(ctx)
}
