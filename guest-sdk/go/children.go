package windlass

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// ErrWaiting is what a handler returns whose job waits for its children. It is no failure.
var ErrWaiting = errors.New("waits for its children")

// OnFailure is what becomes of a job that waits when one of its children dies or is cancelled.
type OnFailure uint8

const (
	// OnFailureFail: the job is dead at once, and its other children are cancelled.
	OnFailureFail OnFailure = iota
	// OnFailureCancel: the other children are cancelled; the job goes on when all have ended.
	OnFailureCancel
	// OnFailureContinue: the job goes on when all have ended, however they did.
	OnFailureContinue
)

// ChildCounts is how many children a job has had, over all attempts, and how they ended.
type ChildCounts struct {
	Total, Completed, Dead, Cancelled uint64
}

// ChildState is where a child stands.
type ChildState uint8

const (
	// ChildOpen: it has not ended; nobody has waited for it.
	ChildOpen ChildState = iota
	ChildCompleted
	ChildDead
	ChildCancelled
)

func (s ChildState) String() string {
	return [...]string{"open", "completed", "dead", "cancelled"}[s]
}

// ChildTold is a child as the server tells of it on a page.
type ChildTold struct {
	Ordinal uint32
	ID      string
	Queue   string
	State   ChildState
	// The last error; may be empty.
	Error string
	// Nil when there is none, or when it is too large for a page.
	Result      []byte
	ResultBytes uint64
}

// ChildJob is a job that this one has started.
type ChildJob struct {
	// As Spawn gave it.
	Ordinal uint32
	ID      string
	Queue   string
	State   ChildState
	// Its last error; empty if it had none.
	Error string
	// How many bytes it gave back.
	ResultBytes uint64

	result []byte
	server Server
}

// Result reads what the child gave back, as JSON. A child that did not complete is an error that says why.
func (c *ChildJob) Result(into any) error {
	bytes, err := c.ResultRaw()
	if err != nil {
		return err
	}
	if len(bytes) == 0 {
		// Nothing given back reads as null does.
		bytes = []byte("null")
	}
	if err := json.Unmarshal(bytes, into); err != nil {
		return Fatalf("the result of child %d is not what was expected: %w", c.Ordinal, err)
	}
	return nil
}

// ResultRaw gives the bytes that the child gave back, if any. Large ones are read from the server now, and not kept.
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

// WaitForChildren ends this attempt: the job goes on, from this state, when all its children have ended. With nil the last
// checkpoint stays. Children, state and wait are committed in one step; while it waits the job holds no memory and no place,
// and is charged for nothing. It returns the error to return, [ErrWaiting] if all is well:
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

// Joined says how the children ended, and whether this attempt follows a wait for them at all.
func (c *Context) Joined() (ChildCounts, bool) { return c.server.Joined() }

// Children are the children in the order they were spawned. They are read as the loop goes on, a page at a time:
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
			for _, told := range page {
				child := &ChildJob{
					Ordinal: told.Ordinal, ID: told.ID, Queue: told.Queue, State: told.State, Error: told.Error,
					ResultBytes: told.ResultBytes, result: told.Result, server: c.server,
				}
				if !yield(child, nil) {
					return
				}
			}
			start, more = next, !last
		}
	}
}
