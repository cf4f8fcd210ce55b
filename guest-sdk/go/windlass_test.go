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

func TestALaterAttemptResumes(t *testing.T) {
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

func TestAPayloadThatDoesNotFitIsFatal(t *testing.T) {
	if _, err := windlasstest.Run(windlasstest.New(), total, []int{}); !windlass.IsFatal(err) {
		t.Fatal(err)
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

// doubleAll doubles each number in a child of its own, and adds up their results.
func doubleAll(ctx *windlass.Context, numbers []int) (int, error) {
	if _, joined := ctx.Joined(); !joined {
		for _, number := range numbers {
			if _, err := ctx.Spawn(windlass.Child{Queue: "double", Payload: number}); err != nil {
				return 0, err
			}
		}
		return 0, ctx.WaitForChildren(windlass.OnFailureContinue, len(numbers))
	}
	var spawned, sum int
	if _, err := ctx.State(&spawned); err != nil || spawned != len(numbers) {
		return 0, errors.New("the state that the wait saved is not there")
	}
	for child, err := range ctx.Children() {
		if err != nil {
			return 0, err
		}
		if child.State != windlass.ChildCompleted {
			continue
		}
		var doubled int
		if err := child.Result(&doubled); err != nil {
			return 0, err
		}
		sum += doubled
	}
	return sum, nil
}

func TestAParentWaitsForItsChildrenAndReadsTheirResults(t *testing.T) {
	fake := windlasstest.New()
	numbers := []int{1, 2, 3}
	if _, err := windlasstest.Run(fake, doubleAll, numbers); !errors.Is(err, windlass.ErrWaiting) || len(fake.Children) != 3 {
		t.Fatal(err, fake.Children)
	}
	if _, err := windlasstest.Run(fake, doubleAll, numbers); err == nil || !strings.Contains(err.Error(), "child 0 has not ended") {
		t.Fatal(err)
	}
	for ordinal, number := range numbers {
		if err := fake.ChildCompleted(uint32(ordinal), 2*number); err != nil {
			t.Fatal(err)
		}
	}
	if sum, err := windlasstest.Run(fake, doubleAll, numbers); err != nil || sum != 12 {
		t.Fatal(sum, err)
	}
}

func TestAChildThatDiedIsSeenOrTakesItsParentAlong(t *testing.T) {
	fake := windlasstest.New()
	if _, err := windlasstest.Run(fake, doubleAll, []int{1, 2}); !errors.Is(err, windlass.ErrWaiting) {
		t.Fatal(err)
	}
	if err := fake.ChildCompleted(0, 2); err != nil {
		t.Fatal(err)
	}
	fake.ChildDied(1, "boom")
	if sum, err := windlasstest.Run(fake, doubleAll, []int{1, 2}); err != nil || sum != 2 {
		t.Fatal(sum, err)
	}

	strict := func(ctx *windlass.Context, _ any) (int, error) {
		if _, err := ctx.Spawn(windlass.Child{Queue: "double", Payload: 1}); err != nil {
			return 0, err
		}
		return 0, ctx.WaitForChildren(windlass.OnFailureFail, nil)
	}
	fake = windlasstest.New()
	if _, err := windlasstest.Run(fake, strict, nil); !errors.Is(err, windlass.ErrWaiting) {
		t.Fatal(err)
	}
	fake.ChildDied(0, "boom")
	if _, err := windlasstest.Run(fake, strict, nil); err == nil || err.Error() != "a child failed" {
		t.Fatal(err)
	}
}

func TestAnErrorAfterAWaitCountsAndNothingWaits(t *testing.T) {
	fake := windlasstest.New()
	torn := func(ctx *windlass.Context, _ any) (int, error) {
		if _, err := ctx.Spawn(windlass.Child{Queue: "double", Payload: 1}); err != nil {
			return 0, err
		}
		if err := ctx.WaitForChildren(windlass.OnFailureFail, 1); !errors.Is(err, windlass.ErrWaiting) {
			return 0, err
		}
		return 0, errors.New("no after all")
	}
	_, err := windlasstest.Run(fake, torn, nil)
	if err == nil || errors.Is(err, windlass.ErrWaiting) || len(fake.Children) != 0 || fake.Saved != nil {
		t.Fatal(err, fake.Children, fake.Saved)
	}
}

func TestALargeResultIsReadByItself(t *testing.T) {
	fake := windlasstest.New()
	length := func(ctx *windlass.Context, _ any) (int, error) {
		if _, joined := ctx.Joined(); !joined {
			if _, err := ctx.Spawn(windlass.Child{Queue: "large", Payload: 1}); err != nil {
				return 0, err
			}
			return 0, ctx.WaitForChildren(windlass.OnFailureFail, nil)
		}
		var text string
		for child, err := range ctx.Children() {
			if err != nil {
				return 0, err
			}
			if err := child.Result(&text); err != nil {
				return 0, err
			}
		}
		return len(text), nil
	}
	if _, err := windlasstest.Run(fake, length, nil); !errors.Is(err, windlass.ErrWaiting) {
		t.Fatal(err)
	}
	if err := fake.ChildCompleted(0, strings.Repeat("x", 100_000)); err != nil {
		t.Fatal(err)
	}
	if got, err := windlasstest.Run(fake, length, nil); err != nil || got != 100_000 {
		t.Fatal(got, err)
	}
}

func TestRecordsCommitWithACheckpointOrTheResultAndOthersReadAndMarkThem(t *testing.T) {
	compare := func(ctx *windlass.Context, fail bool) (bool, error) {
		if err := ctx.PutRecord("a/b", ctx.Job.Attempt); err != nil {
			return false, err
		}
		var theirs int
		found, err := ctx.GetRecord("src", "a/b", &theirs)
		if err != nil {
			return false, err
		}
		if err := ctx.Mark("src", "a/b", "newer"); err != nil {
			return false, err
		}
		if fail || found == nil {
			return false, errors.New("crash")
		}
		return theirs == 7 && ctx.Job.Round != nil && *ctx.Job.Round == 3, nil
	}
	fake := windlasstest.New()
	round := uint32(3)
	fake.Job.Queue, fake.Job.Round = "dst", &round
	ours, theirs := windlasstest.Place{Queue: "dst", Key: "a/b"}, windlasstest.Place{Queue: "src", Key: "a/b"}
	if _, err := windlasstest.Run(fake, compare, false); err == nil {
		t.Fatal("there is nothing to compare with")
	}
	fake.Records[theirs] = windlass.Recorded{Value: []byte("7")}
	if _, err := windlasstest.Run(fake, compare, true); err == nil || fake.Records[ours].Value != nil {
		t.Fatal(err, fake.Records)
	}
	same, err := windlasstest.Run(fake, compare, false)
	if err != nil || !same || string(fake.Records[ours].Value) != "3" || fake.Records[theirs].Mark != "newer" {
		t.Fatal(same, err, fake.Records)
	}
}
