package windlass_test

import (
	"context"
	"errors"
	"testing"
	"time"

	windlass "windlass.dev/go"
	"windlass.dev/go/windlasstest"
)

// run runs a handler that takes and returns nothing but an error.
func run(fake *windlasstest.Fake, handle func(ctx *windlass.Context) error) error {
	_, err := windlasstest.Run(fake, func(ctx *windlass.Context, _ any) (any, error) { return nil, handle(ctx) }, nil)
	return err
}

func TestAContextEndsForTheReasonItIsAskedToStop(t *testing.T) {
	for reason, want := range map[windlass.Reason]error{
		windlass.User: context.Canceled, windlass.Timeout: context.DeadlineExceeded,
		windlass.Shutdown: context.Canceled, windlass.Swap: context.Canceled,
	} {
		fake := windlasstest.New()
		fake.CancelAfter(1, reason)
		err := run(fake, func(ctx *windlass.Context) error {
			if err := ctx.Err(); err != nil {
				t.Error("it ended before anybody asked it to", err)
			}
			return ctx.Err()
		})
		if !errors.Is(err, want) {
			t.Error(reason, err)
		}
	}
}

func TestAHandlerThatWaitsForDoneLearnsOfTheRequest(t *testing.T) {
	fake := windlasstest.New()
	fake.CancelAfter(3, windlass.Shutdown) // nobody but the context asks
	err := run(fake, func(ctx *windlass.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestACallThatLearnsOfTheRequestClosesDone(t *testing.T) {
	fake := windlasstest.New()
	fake.CancelAfter(1, windlass.User)
	err := run(fake, func(ctx *windlass.Context) error {
		done := ctx.Done()
		err := ctx.CheckCancelled()
		<-done
		return err
	})
	if !errors.Is(err, windlass.ErrCancelled) {
		t.Fatal(err)
	}
}

func TestADerivedContextEndsWithItsParent(t *testing.T) {
	type key struct{}
	fake := windlasstest.New()
	fake.CancelAfter(2, windlass.Timeout)
	err := run(fake, func(ctx *windlass.Context) error {
		derived, cancel := context.WithCancel(context.WithValue(ctx, key{}, "carried"))
		defer cancel()
		if derived.Value(key{}) != "carried" || ctx.Value(key{}) != nil {
			t.Error("a value is where it was put")
		}
		<-derived.Done()
		return derived.Err()
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestTheDeadlineIsTheJobs(t *testing.T) {
	fake := windlasstest.New()
	deadline := func() (at time.Time, has bool) {
		if err := run(fake, func(ctx *windlass.Context) error { at, has = ctx.Deadline(); return nil }); err != nil {
			t.Fatal(err)
		}
		return at, has
	}
	if at, has := deadline(); has {
		t.Fatal(at)
	}
	fake.Job.Deadline = time.Now().Add(time.Hour)
	if at, has := deadline(); !has || !at.Equal(fake.Job.Deadline) {
		t.Fatal(at, has)
	}
}

func TestAContextEndsWhenTheHandlerReturnsAndAsksNoMore(t *testing.T) {
	fake := windlasstest.New()
	var kept *windlass.Context
	err := run(fake, func(ctx *windlass.Context) error {
		kept = ctx
		ctx.Done()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-kept.Done()
	if kept.Err() != context.Canceled {
		t.Fatal(kept.Err())
	}
	fake.CancelAfter(0, windlass.User)
	if _, asked := kept.Cancelled(); asked {
		t.Fatal("the attempt is over")
	}
}
