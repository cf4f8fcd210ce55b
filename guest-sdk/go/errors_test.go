package windlass

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAnErrorSaysWhatShouldHappenNext(t *testing.T) {
	cause := errors.New("no such account")
	for _, row := range []struct {
		err   error
		never bool
		after time.Duration
	}{
		{cause, false, 0}, {Fatal(cause), true, 0}, {RetryAfter(time.Minute, cause), false, time.Minute},
	} {
		failed := failed(row.err)
		if failed.message != "no such account" || failed.never != row.never || failed.after != row.after {
			t.Error(failed)
		}
	}
}

func TestAPanicBecomesAnErrorWithItsStack(t *testing.T) {
	_, err := guard(func(*Context) ([]byte, error) { panic("oh no") }, newContext(Job{}, nil, nil))
	failed := failed(err)
	if failed.message != "panic: oh no" || !strings.Contains(failed.detail, "errors_test.go") || failed.never {
		t.Fatalf("%+v", failed)
	}
}
