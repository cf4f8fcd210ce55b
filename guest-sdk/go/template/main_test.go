package main

import (
	"testing"

	"windlass.dev/go/windlasstest"
)

func TestItCounts(t *testing.T) {
	got, err := windlasstest.Run(windlasstest.New(), count, Order{Steps: 4})
	if err != nil || got.Sum != 10 {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestASecondAttemptResumesWhereTheFirstStopped(t *testing.T) {
	fake := windlasstest.New()
	fake.FailCheckpointsAfter(2)
	if _, err := windlasstest.Run(fake, count, Order{Steps: 4}); err == nil {
		t.Fatal("the third checkpoint should fail")
	}
	fake.Resume()
	got, err := windlasstest.Run(fake, count, Order{Steps: 4})
	if err != nil || got.Sum != 10 || len(fake.Progress) != 3+2 {
		t.Fatalf("got %v, %v after %d reports", got, err, len(fake.Progress))
	}
}
