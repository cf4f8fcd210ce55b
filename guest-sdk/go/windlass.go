// Package windlass is for writing handlers for the Windlass job server in Go.
//
// A handler is a function from a payload to a result. [Handle] says which queue it serves; [Context] is how it talks to the
// server, and is a [context.Context]; the package windlasstest stands in for the server in a test.
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
	"fmt"
	"runtime/debug"

	"windlass.dev/go/internal/attempt"
)

// Handler does a job's work: bytes in, in the context's job, and bytes out.
type Handler func(ctx *Context) ([]byte, error)

// Any is the queue name of the handler for all queues without one of their own.
const Any = "*"

var handlers = map[string]Handler{}

func init() {
	attempt.Run = func(handler, job, saved, to any) ([]byte, error) {
		return guard(handler.(Handler), newContext(job.(Job), saved.(*Saved), to.(server)))
	}
}

// Handle registers a function for the jobs of a queue. Payload and result are JSON.
func Handle[In, Out any](queue string, handle func(ctx *Context, in In) (Out, error)) {
	payload := func(ctx *Context) []byte { return ctx.Job.Payload }
	HandleRaw(queue, attempt.Typed(handle, payload, Fatal))
}

// HandleRaw registers a function of bytes for the jobs of a queue. The payload is in ctx.Job.
func HandleRaw(queue string, handle Handler) {
	if _, taken := handlers[queue]; taken {
		panic(fmt.Sprintf("windlass: two handlers for the queue %q", queue))
	}
	handlers[queue] = handle
}

// dispatch runs the handler of the job's queue.
func dispatch(ctx *Context) ([]byte, error) {
	handle, found := handlers[ctx.Job.Queue]
	if !found {
		handle, found = handlers[Any]
	}
	if !found {
		return nil, Fatal(fmt.Errorf("this plugin has no handler for the queue %q", ctx.Job.Queue))
	}
	return guard(handle, ctx)
}

// guard runs a handler and turns its panic into an error with its stack. The context ends with it.
func guard(handle Handler, ctx *Context) (result []byte, err error) {
	defer ctx.finish()
	defer func() {
		if value := recover(); value != nil {
			result, err = nil, &panicError{value: value, stack: string(debug.Stack())}
		}
	}()
	return handle(ctx)
}
