package windlass

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Context can be passed to whatever takes a context.Context.
var _ context.Context = (*Context)(nil)

// How often the server is asked whether to stop, once somebody waits for Done.
const pollInterval = 50 * time.Millisecond

// stopping is how a context ends. Its channel is closed, and its error set, by whoever first learns of a request to stop: any
// call of the handler that asks the server, or the goroutine that asks while the handler waits.
type stopping struct {
	mu      sync.Mutex
	done    chan struct{}
	err     error
	watched bool
	// The attempt is over: the server is asked no more.
	over bool
}

// end is called with the lock held.
func (s *stopping) end(err error) {
	if s.err == nil {
		s.err = err
		close(s.done)
	}
}

// Cancelled returns the server's request to stop, if there is one. The call is cheap: make it between any two steps.
func (c *Context) Cancelled() (Cancel, bool) {
	c.stop.mu.Lock()
	defer c.stop.mu.Unlock()
	if c.stop.over {
		return Cancel{}, false
	}
	cancel, asked := c.server.Cancelled()
	if asked && cancel.Reason == Timeout {
		c.stop.end(context.DeadlineExceeded)
	} else if asked {
		c.stop.end(context.Canceled)
	}
	return cancel, asked
}

// CheckCancelled returns the error to stop with, if the server has asked the attempt to stop.
func (c *Context) CheckCancelled() error {
	if cancel, asked := c.Cancelled(); asked {
		return fmt.Errorf("%w: %s", ErrCancelled, cancel.Reason)
	}
	return nil
}

// Deadline returns the time at which the attempt times out, and whether it has a time limit. It is part of [context.Context].
func (c *Context) Deadline() (time.Time, bool) { return c.Job.Deadline, !c.Job.Deadline.IsZero() }

// Done returns a channel that is closed when the server asks the attempt to stop, and at the latest when the handler returns.
// It is part of [context.Context].
//
// A component has one thread. While the handler waits for the channel, a goroutine asks the server twenty times a second; while
// the handler computes without giving way to other goroutines, each call of Done, Err and Cancelled asks.
func (c *Context) Done() <-chan struct{} {
	ended := c.Err() != nil
	c.stop.mu.Lock()
	defer c.stop.mu.Unlock()
	if !ended && !c.stop.watched {
		c.stop.watched = true
		go c.watch()
	}
	return c.stop.done
}

// Err returns nil while the attempt may continue, [context.DeadlineExceeded] once it has been asked to stop because it timed
// out, and [context.Canceled] once it has been asked to stop for another reason or the handler has returned. It is part of
// [context.Context].
func (c *Context) Err() error {
	if err := c.ended(); err != nil {
		return err
	}
	c.Cancelled()
	return c.ended()
}

// Value returns nil: the context carries no values. It is part of [context.Context].
func (c *Context) Value(any) any { return nil }

func (c *Context) ended() error {
	c.stop.mu.Lock()
	defer c.stop.mu.Unlock()
	return c.stop.err
}

// watch asks the server until the context ends.
func (c *Context) watch() {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.stop.done:
			return
		case <-ticker.C:
			c.Cancelled()
		}
	}
}

// finish ends the context when the handler has returned, so that nothing waits for it any more.
func (c *Context) finish() {
	c.stop.mu.Lock()
	defer c.stop.mu.Unlock()
	c.stop.over = true
	c.stop.end(context.Canceled)
}
