package windlass

import (
	"errors"
	"fmt"
	"time"
)

// ErrCancelled is what a handler returns that stopped because it was asked to.
var ErrCancelled = errors.New("stopped on request")

// Error says what should happen after an error. An error that is none is tried again, with the job's backoff.
type Error struct {
	Err error
	// Never tried again.
	Fatal bool
	// If not zero: tried again after this time.
	After time.Duration
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Fatal says that the job would fail again: it is dead at once.
func Fatal(err error) error { return &Error{Err: err, Fatal: true} }

// Fatalf is [Fatal] of a formatted message.
func Fatalf(format string, args ...any) error { return Fatal(fmt.Errorf(format, args...)) }

// RetryAfter says that the job should be tried again after this time.
func RetryAfter(after time.Duration, err error) error { return &Error{Err: err, After: after} }

// IsFatal says whether trying again is of no use.
func IsFatal(err error) bool {
	var next *Error
	return errors.As(err, &next) && next.Fatal
}

// Panic is the error that a panic of a handler becomes.
type Panic struct {
	Value any
	Stack string
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Failure is an error as the server takes it.
type Failure struct {
	Message string
	// A stack or a chain of causes; may be empty.
	Detail string
	Never  bool
	After  time.Duration
}

// Failed reads an error.
func Failed(err error) Failure {
	failure := Failure{Message: err.Error()}
	var next *Error
	if errors.As(err, &next) {
		failure.Never, failure.After = next.Fatal, next.After
	}
	var panicked *Panic
	if errors.As(err, &panicked) {
		failure.Detail = panicked.Stack
		return failure
	}
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
		if text := cause.Error(); text != failure.Message {
			if failure.Detail != "" {
				failure.Detail += "\n"
			}
			failure.Detail += "caused by: " + text
		}
	}
	return failure
}
