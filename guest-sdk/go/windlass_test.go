package windlass_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	windlass "windlass.dev/go"
	"windlass.dev/go/windlasstest"
)

type order struct {
	Items []int `json:"items"`
}

func total(ctx *windlass.Context, in order) (int, error) {
	var at struct{ Done, Sum int }
	if _, err := ctx.State(&at); err != nil {
		return 0, err
	}
	for at.Done < len(in.Items) {
		if err := ctx.CheckCancelled(); err != nil {
			return 0, err
		}
		at.Sum += in.Items[at.Done]
		at.Done++
		ctx.Progress(uint64(at.Done), uint64(len(in.Items)), "adding up")
		if err := ctx.Checkpoint(at); err != nil {
			return 0, err
		}
	}
	return at.Sum, nil
}

func TestAHandlerTakesAndGivesGoValues(t *testing.T) {
	fake := windlasstest.New()
	sum, err := windlasstest.Run(fake, total, order{[]int{1, 2, 3}})
	if err != nil || sum != 6 || fake.Saves != 3 || len(fake.Progress) != 3 {
		t.Fatal(sum, err, fake.Saves, fake.Progress)
	}
}

func TestALaterAttemptGoesOn(t *testing.T) {
	fake := windlasstest.New()
	fake.FailCheckpointsAfter(2)
	if _, err := windlasstest.Run(fake, total, order{[]int{1, 2, 3}}); err == nil || windlass.IsFatal(err) {
		t.Fatal(err)
	}
	fake.Resume()
	sum, err := windlasstest.Run(fake, total, order{[]int{1, 2, 3}})
	if err != nil || sum != 6 || fake.Job.Attempt != 2 {
		t.Fatal(sum, err)
	}
}

func TestAnErrorSaysWhatShouldHappenNext(t *testing.T) {
	cause := errors.New("no such account")
	for _, row := range []struct {
		err   error
		never bool
		after time.Duration
	}{
		{cause, false, 0}, {windlass.Fatal(cause), true, 0}, {windlass.RetryAfter(time.Minute, cause), false, time.Minute},
	} {
		failed := windlass.Failed(row.err)
		if failed.Message != "no such account" || failed.Never != row.never || failed.After != row.after {
			t.Error(failed)
		}
	}
}

func TestAPayloadThatDoesNotFitIsFatal(t *testing.T) {
	if _, err := windlasstest.New().RunRaw(windlass.Typed(total), []byte(`[]`)); !windlass.IsFatal(err) {
		t.Fatal(err)
	}
}

func TestAPanicBecomesAnErrorWithItsStack(t *testing.T) {
	_, err := windlasstest.New().RunRaw(func(*windlass.Context) ([]byte, error) { panic("oh no") }, nil)
	failed := windlass.Failed(err)
	if failed.Message != "panic: oh no" || !strings.Contains(failed.Detail, "windlass_test.go") || failed.Never {
		t.Fatalf("%+v", failed)
	}
}

func TestAHandlerStopsWhenAsked(t *testing.T) {
	fake := windlasstest.New()
	fake.CancelAfter(1, windlass.Swap)
	_, err := windlasstest.Run(fake, total, order{[]int{1, 2, 3}})
	if !errors.Is(err, windlass.ErrCancelled) || !strings.HasSuffix(err.Error(), "swap") || fake.Saves != 1 {
		t.Fatal(err, fake.Saves)
	}
}

func TestChildrenStartWithTheResultOrNotAtAll(t *testing.T) {
	fail := true
	spawn := func(ctx *windlass.Context, _ any) (any, error) {
		if _, err := ctx.Spawn(windlass.Child{Queue: "q", Payload: map[string]int{"n": 1}}); err != nil {
			return nil, err
		}
		if fail {
			return nil, errors.New("too bad")
		}
		return nil, nil
	}
	fake := windlasstest.New()
	if _, err := windlasstest.Run(fake, spawn, nil); err == nil || len(fake.Children) != 0 {
		t.Fatal(err, fake.Children)
	}
	fail = false
	if _, err := windlasstest.Run(fake, spawn, nil); err != nil || len(fake.Children) != 1 {
		t.Fatal(err, fake.Children)
	}
	if payload := fake.Children[0].Payload.([]byte); !json.Valid(payload) || string(payload) != `{"n":1}` {
		t.Fatal(string(payload))
	}
}

func TestStateOfAnotherSchemaIsAnErrorAndCanBeReadByHand(t *testing.T) {
	fake := windlasstest.New()
	fake.Saved = &windlass.Saved{Schema: 1, State: []byte(`7`)}
	_, err := windlasstest.Run(fake, func(ctx *windlass.Context, _ any) (int, error) {
		ctx.SetSchema(2)
		var at int
		if _, err := ctx.State(&at); err == nil || !strings.Contains(err.Error(), "schema 1") {
			t.Error(err)
		}
		return 0, json.Unmarshal(ctx.StateRaw().State, &at)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func TestOftenIsNotMoreOftenThanAsked(t *testing.T) {
	fake := windlasstest.New()
	windlasstest.Run(fake, func(ctx *windlass.Context, _ any) (any, error) {
		for n := range 1000 {
			if _, err := ctx.CheckpointEvery(time.Hour, n); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}, nil)
	if fake.Saves != 0 {
		t.Fatal(fake.Saves)
	}
}

func TestConfigAndSecrets(t *testing.T) {
	fake := windlasstest.New()
	fake.Config["name"], fake.Secrets["token"] = "value", "s3cret"
	_, err := windlasstest.Run(fake, func(ctx *windlass.Context, _ any) (any, error) {
		if value, found := ctx.Config("name"); value != "value" || !found {
			t.Error(value)
		}
		if value, err := ctx.Secret("token"); value != "s3cret" || err != nil {
			t.Error(err)
		}
		_, err := ctx.Secret("other")
		return nil, err
	}, nil)
	if !windlass.IsFatal(err) {
		t.Fatal(err)
	}
}
