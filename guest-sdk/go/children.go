package windlass

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// ErrWaiting is what a handler returns whose job waits for its children. It is not a failure.
var ErrWaiting = errors.New("waits for its children")

// OnFailure is what happens to a waiting job when one of its children is dead or cancelled.
type OnFailure uint8

const (
	// OnFailureFail: the job is dead at once, and its other children are cancelled.
	OnFailureFail OnFailure = iota
	// OnFailureCancel: the other children are cancelled, and the job runs again when all of them have ended.
	OnFailureCancel
	// OnFailureContinue: the job runs again when all of its children have ended, in whatever state.
	OnFailureContinue
)

// ChildCounts is how many children a job has had across all attempts, by the state in which they ended.
type ChildCounts struct {
	Total, Completed, Dead, Cancelled uint64
}

// ChildState is the state of a child.
type ChildState uint8

const (
	// ChildOpen: it has not ended; the job has not waited for it.
	ChildOpen ChildState = iota
	ChildCompleted
	ChildDead
	ChildCancelled
)

func (s ChildState) String() string {
	return [...]string{"open", "completed", "dead", "cancelled"}[s]
}

// ChildJob is a job that this one has started.
type ChildJob struct {
	// As returned by Spawn.
	Ordinal uint32
	ID      string
	Queue   string
	State   ChildState
	// Its last error; empty if it had none.
	Error string
	// The size of its result in bytes.
	ResultBytes uint64

	result []byte
	server server
}

// Result reads the child's result as JSON. For a child that did not complete it returns an error that says why.
func (c *ChildJob) Result(into any) error {
	bytes, err := c.ResultRaw()
	if err != nil {
		return err
	}
	if len(bytes) == 0 {
		// No result is read as null.
		bytes = []byte("null")
	}
	if err := json.Unmarshal(bytes, into); err != nil {
		return Fatalf("the result of child %d is not what was expected: %w", c.Ordinal, err)
	}
	return nil
}

// ResultRaw returns the bytes of the child's result, if it has one. A large result is read from the server at each call.
func (c *ChildJob) ResultRaw() ([]byte, error) {
	if c.State != ChildCompleted {
		why := ""
		if c.Error != "" {
			why = ": " + c.Error
		}
		return nil, fmt.Errorf("child %d has no result, it is %s%s", c.Ordinal, c.State, why)
	}
	if c.result == nil && c.ResultBytes > 0 {
		return c.server.ChildResult(c.Ordinal)
	}
	return c.result, nil
}

// WaitForChildren ends this attempt: the job runs again, from this state, when all of its children have ended. With nil, the
// last checkpoint remains. Children, state and wait are committed atomically; a waiting job occupies neither memory nor a slot.
// It returns the error that the handler must return, which is [ErrWaiting] on success:
//
//	return 0, ctx.WaitForChildren(windlass.OnFailureFail, state)
func (c *Context) WaitForChildren(onFailure OnFailure, state any) error {
	var saved *Saved
	if state != nil {
		bytes, err := json.Marshal(state)
		if err != nil {
			return Fatalf("the state cannot be written as JSON: %w", err)
		}
		saved = &Saved{Schema: c.schema, State: bytes}
	}
	if err := c.server.Wait(onFailure, saved); err != nil {
		return err
	}
	return ErrWaiting
}

// Joined returns how the children ended, and whether this attempt follows a wait for them.
func (c *Context) Joined() (ChildCounts, bool) { return c.server.Joined() }

// Children iterates over the children in the order they were spawned. It reads them from the server a page at a time:
//
//	for child, err := range ctx.Children() {
func (c *Context) Children() iter.Seq2[*ChildJob, error] {
	return func(yield func(*ChildJob, error) bool) {
		for start, more := uint32(0), true; more; {
			page, next, last, err := c.server.Children(start)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, found := range page {
				child := &ChildJob{
					Ordinal: found.Ordinal, ID: found.ID, Queue: found.Queue, State: ChildState(found.State), Error: found.Error,
					ResultBytes: found.ResultBytes, result: found.Result, server: c.server,
				}
				if !yield(child, nil) {
					return
				}
			}
			start, more = next, !last
		}
	}
}
