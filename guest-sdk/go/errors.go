package windlass

import (
	"errors"
	"fmt"
	"time"
)

// ErrCancelled is what a handler returns that stopped because it was asked to.
var ErrCancelled = errors.New("stopped on request")

// Error is an error that says whether and when the job is retried. Any other error is retried with the job's backoff.
type Error struct {
	Err error
	// The job is never retried.
	Fatal bool
	// If not zero, the job is retried after this time.
	After time.Duration
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Fatal is for errors that would recur in every attempt: the job is dead at once.
func Fatal(err error) error { return &Error{Err: err, Fatal: true} }

// Fatalf is [Fatal] of a formatted message.
func Fatalf(format string, args ...any) error { return Fatal(fmt.Errorf(format, args...)) }

// RetryAfter says that the job should be retried after this time.
func RetryAfter(after time.Duration, err error) error { return &Error{Err: err, After: after} }

// IsFatal returns whether the job is not retried after this error.
func IsFatal(err error) bool {
	var next *Error
	return errors.As(err, &next) && next.Fatal
}

// panicError is the error that a panic of a handler becomes.
type panicError struct {
	value any
	stack string
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// failure is an error in the form that the server takes.
type failure struct {
	message string
	// A stack or a chain of causes; may be empty.
	detail string
	never  bool
	after  time.Duration
}

func failed(err error) failure {
	failure := failure{message: err.Error()}
	var next *Error
	if errors.As(err, &next) {
		failure.never, failure.after = next.Fatal, next.After
	}
	var panicked *panicError
	if errors.As(err, &panicked) {
		failure.detail = panicked.stack
		return failure
	}
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
		if text := cause.Error(); text != failure.message {
			if failure.detail != "" {
				failure.detail += "\n"
			}
			failure.detail += "caused by: " + text
		}
	}
	return failure
}
