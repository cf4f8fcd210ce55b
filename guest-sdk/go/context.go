package windlass

import (
	"encoding/json"
	"fmt"
	"time"

	"windlass.dev/go/internal/attempt"
)

// Context is how a handler talks to the server, and a [context.Context] that ends when the server asks the attempt to stop. It
// belongs to one attempt.
type Context struct {
	// Job is the job this attempt is for.
	Job Job

	saved    *Saved
	schema   uint32
	lastSave time.Time
	server   server
	stop     stopping
}

// Saved is state that an earlier attempt saved.
type Saved struct {
	Schema uint32
	State  []byte
}

// server is whoever runs a handler: the real one in a component, a fake in a test. One method per function of the interface.
type server interface {
	Progress(Progress)
	Checkpoint(schema uint32, state []byte) error
	Cancelled() (Cancel, bool)
	Log(Level, string)
	Spawn(child Child, payload []byte) (uint32, error)
	Joined() (ChildCounts, bool)
	// Children returns a page of the children from this ordinal on, where the next page starts, and whether this is the last.
	Children(start uint32) (page []attempt.Child, next uint32, last bool, err error)
	ChildResult(ordinal uint32) ([]byte, error)
	// Wait saves the state, unless it is nil.
	Wait(onFailure OnFailure, state *Saved) error
	PutRecord(key string, value []byte) error
	// GetRecord returns nil when there is no such record.
	GetRecord(queue, key string) (*Recorded, error)
	// Mark removes the mark when it is empty.
	Mark(queue, key, mark string) error
	Config(name string) (string, bool)
	Secret(name string) (string, error)
}

func newContext(job Job, saved *Saved, to server) *Context {
	return &Context{
		Job: job, saved: saved, schema: 1, lastSave: time.Now(), server: to, stop: stopping{done: make(chan struct{})},
	}
}

// Progress reports how far the work has come: current of total.
func (c *Context) Progress(current, total uint64, message string) {
	c.Report(Progress{Message: message, Current: current, Total: total, Level: Info})
}

// Report reports a progress event in its full form.
func (c *Context) Report(progress Progress) { c.server.Progress(progress) }

// Checkpoint saves state, as JSON, for the next attempt. When it returns nil, the state is on disk, together with the children
// spawned before. That takes about half a millisecond.
func (c *Context) Checkpoint(state any) error {
	bytes, err := json.Marshal(state)
	if err != nil {
		return Fatalf("the state cannot be written as JSON: %w", err)
	}
	return c.CheckpointRaw(bytes)
}

// CheckpointEvery saves state if the last save was at least this long ago, and returns whether it did. For loops whose steps
// are short.
func (c *Context) CheckpointEvery(period time.Duration, state any) (bool, error) {
	if time.Since(c.lastSave) < period {
		return false, nil
	}
	return true, c.Checkpoint(state)
}

// CheckpointRaw saves state that is not JSON.
func (c *Context) CheckpointRaw(state []byte) error {
	if err := c.server.Checkpoint(c.schema, state); err != nil {
		return err
	}
	c.lastSave = time.Now()
	return nil
}

// State reads the state that an earlier attempt saved, and returns whether there was any. State of another schema is an error.
func (c *Context) State(into any) (bool, error) {
	if c.saved == nil {
		return false, nil
	}
	if c.saved.Schema != c.schema {
		return false, fmt.Errorf("the saved state has schema %d, and this handler reads %d", c.saved.Schema, c.schema)
	}
	if err := json.Unmarshal(c.saved.State, into); err != nil {
		return false, fmt.Errorf("the saved state cannot be read: %w", err)
	}
	return true, nil
}

// StateRaw returns the bytes of the saved state and their schema, to migrate them by hand, or nil if there is none.
func (c *Context) StateRaw() *Saved { return c.saved }

// SetSchema sets the version of your state format, which is 1 unless set. Raise it when you change what you save.
func (c *Context) SetSchema(schema uint32) { c.schema = schema }

// Spawn starts another job, atomically with the next checkpoint or the result; if the attempt fails before then, the job is
// never started. It returns the child's ordinal among the children of this job.
func (c *Context) Spawn(child Child) (uint32, error) {
	payload, raw := child.Payload.([]byte)
	if !raw {
		var err error
		if payload, err = json.Marshal(child.Payload); err != nil {
			return 0, Fatalf("the payload of the child cannot be written as JSON: %w", err)
		}
	}
	return c.server.Spawn(child, payload)
}

// Log writes to the job's log. Standard output and standard error are logged too.
func (c *Context) Log(level Level, format string, args ...any) {
	c.server.Log(level, fmt.Sprintf(format, args...))
}

// Config returns a setting of the plugin, and whether it is set.
func (c *Context) Config(name string) (string, bool) { return c.server.Config(name) }

// Secret returns a secret that the plugin was granted. If it was not, the error says what to grant.
func (c *Context) Secret(name string) (string, error) { return c.server.Secret(name) }
