// Package windlasstest stands in for the server, to test handlers natively, without wasm.
//
//	got, err := windlasstest.Run(windlasstest.New(), double, 21)
//
// Every Run is another attempt of the same job and starts from the state that the previous one saved. To test a crash, call
// [Fake.FailCheckpointsAfter] and Run again.
package windlasstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	windlass "windlass.dev/go"
	"windlass.dev/go/internal/attempt"
)

// Fake is a server with one job.
type Fake struct {
	// The job; set what the handler reads. Payload and attempt are set by Run.
	Job     windlass.Job
	Config  map[string]string
	Secrets map[string]string
	// What is committed under a key of a queue: by the handler, or by the test.
	Records map[Place]windlass.Recorded

	// What the handler did, over all attempts.
	Progress []windlass.Progress
	Log      []string
	Saves    int
	Saved    *windlass.Saved
	// The children that were committed, with a checkpoint, a result or a wait.
	Children []windlass.Child

	spawned     []windlass.Child
	noted       []note
	ended       map[uint32]end
	wait        *wait
	waiting     *windlass.OnFailure
	joined      bool
	cancelling  sync.Mutex // a context asks from a goroutine of its own
	cancel      bool
	checks      int
	reason      windlass.Reason
	refuseSaves bool
	savesLeft   int
}

// Place is the queue and the key of a record.
type Place struct{ Queue, Key string }

// note is a record or a mark that is not committed yet.
type note struct {
	at     Place
	value  []byte
	isMark bool
	mark   string
}

// end is how a child ended: with a result, or with an error.
type end struct {
	result []byte
	err    string
}

// wait is what a handler asked for in its attempt.
type wait struct {
	onFailure windlass.OnFailure
	state     *windlass.Saved
}

// New makes a fake server.
func New() *Fake {
	return &Fake{
		Job:    windlass.Job{ID: "job_test", Queue: "test", MaxAttempts: 3, Tags: map[string]string{}},
		Config: map[string]string{}, Secrets: map[string]string{}, ended: map[uint32]end{},
		Records: map[Place]windlass.Recorded{},
	}
}

// Run runs a handler as the next attempt.
func Run[In, Out any](fake *Fake, handle func(*windlass.Context, In) (Out, error), payload any) (Out, error) {
	var out Out
	bytes, err := json.Marshal(payload)
	if err != nil {
		return out, err
	}
	read := func(ctx *windlass.Context) []byte { return ctx.Job.Payload }
	result, err := fake.RunRaw(attempt.Typed(handle, read, windlass.Fatal), bytes)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(result, &out)
}

// RunRaw runs a handler of bytes as the next attempt.
func (f *Fake) RunRaw(handle windlass.Handler, payload []byte) ([]byte, error) {
	if err := f.join(); err != nil {
		return nil, err
	}
	f.Job.Attempt++
	f.Job.Payload = payload
	f.wait, f.noted = nil, nil
	result, err := attempt.Run(handle, f.Job, f.Saved, server{f})
	if err == nil || errors.Is(err, windlass.ErrWaiting) {
		f.Children = append(f.Children, f.spawned...)
		f.commitNotes()
		if f.wait != nil {
			f.waiting = &f.wait.onFailure
			if f.wait.state != nil {
				f.Saved = f.wait.state
			}
			result, err = nil, windlass.ErrWaiting
		}
	}
	f.spawned = nil
	return result, err
}

// join decides, as the server would, whether a waiting job runs again.
func (f *Fake) join() error {
	if f.waiting == nil {
		return nil
	}
	failed := false
	for ordinal := range f.Children {
		end, ended := f.ended[uint32(ordinal)]
		if !ended {
			return windlass.Fatalf("child %d has not ended; say how with ChildCompleted or ChildDied", ordinal)
		}
		failed = failed || end.err != ""
	}
	if failed && *f.waiting == windlass.OnFailureFail {
		return windlass.Fatalf("a child failed")
	}
	f.waiting, f.joined = nil, true
	return nil
}

func (f *Fake) commitNotes() {
	for _, note := range f.noted {
		record, found := f.Records[note.at]
		switch {
		case !note.isMark:
			f.Records[note.at] = windlass.Recorded{Value: note.value}
		case found:
			record.Mark = note.mark
			f.Records[note.at] = record
		}
	}
	f.noted = nil
}

// ChildCompleted makes a child complete with this result. Call it before the attempt that follows a wait.
func (f *Fake) ChildCompleted(ordinal uint32, result any) error {
	bytes, err := json.Marshal(result)
	f.ended[ordinal] = end{result: bytes}
	return err
}

// ChildDied makes a child dead with this error.
func (f *Fake) ChildDied(ordinal uint32, err string) { f.ended[ordinal] = end{err: err} }

// CancelAfter asks the handler to stop after it has checked this many times; 0 is at its first check. Every call of Cancelled,
// CheckCancelled, Err or Done is a check, and so are those that the context makes while the handler waits for Done.
func (f *Fake) CancelAfter(checks int, reason windlass.Reason) {
	f.cancelling.Lock()
	defer f.cancelling.Unlock()
	f.cancel, f.checks, f.reason = true, checks, reason
}

// FailCheckpointsAfter lets this many checkpoints succeed and refuses all later ones, to simulate a crash.
func (f *Fake) FailCheckpointsAfter(checkpoints int) { f.refuseSaves, f.savesLeft = true, checkpoints }

// Resume undoes CancelAfter and FailCheckpointsAfter, for the next attempt.
func (f *Fake) Resume() {
	f.cancelling.Lock()
	defer f.cancelling.Unlock()
	f.cancel, f.refuseSaves = false, false
}

// State reads the last saved state.
func (f *Fake) State(into any) error {
	if f.Saved == nil {
		return errors.New("no state was saved")
	}
	return json.Unmarshal(f.Saved.State, into)
}

type server struct{ *Fake }

func (s server) Progress(progress windlass.Progress) {
	s.Fake.Progress = append(s.Fake.Progress, progress)
}

func (s server) Checkpoint(schema uint32, state []byte) error {
	if s.refuseSaves {
		if s.savesLeft == 0 {
			return errors.New("the checkpoint was not saved: the test said so")
		}
		s.savesLeft--
	}
	s.Saves++
	s.Saved = &windlass.Saved{Schema: schema, State: append([]byte(nil), state...)}
	s.Fake.Children = append(s.Fake.Children, s.spawned...)
	s.spawned = nil
	s.commitNotes()
	return nil
}

func (s server) Cancelled() (windlass.Cancel, bool) {
	s.cancelling.Lock()
	defer s.cancelling.Unlock()
	if !s.cancel {
		return windlass.Cancel{}, false
	}
	if s.checks > 0 {
		s.checks--
		return windlass.Cancel{}, false
	}
	return windlass.Cancel{Reason: s.reason, TimeLeft: 10 * time.Second}, true
}

func (s server) Log(_ windlass.Level, message string) { s.Fake.Log = append(s.Fake.Log, message) }

func (s server) Spawn(child windlass.Child, payload []byte) (uint32, error) {
	child.Payload = payload
	s.spawned = append(s.spawned, child)
	return uint32(len(s.Fake.Children) + len(s.spawned) - 1), nil
}

func (s server) Joined() (windlass.ChildCounts, bool) {
	counts := windlass.ChildCounts{Total: uint64(len(s.Fake.Children))}
	for _, end := range s.ended {
		if end.err != "" {
			counts.Dead++
		}
	}
	counts.Completed = counts.Total - counts.Dead
	return counts, s.joined
}

func (s server) Children(start uint32) ([]attempt.Child, uint32, bool, error) {
	// Two at a time, so that a test of three sees more than one page.
	next := min(start+2, uint32(len(s.Fake.Children)))
	var page []attempt.Child
	for ordinal := start; ordinal < next; ordinal++ {
		page = append(page, s.child(ordinal))
	}
	return page, next, int(next) == len(s.Fake.Children), nil
}

func (s server) child(ordinal uint32) attempt.Child {
	end, ended := s.ended[ordinal]
	child := attempt.Child{
		Ordinal: ordinal, ID: fmt.Sprintf("job_test_%d", ordinal), Queue: s.Fake.Children[ordinal].Queue,
		Error: end.err, ResultBytes: uint64(len(end.result)),
	}
	switch {
	case ended && end.err != "":
		child.State = uint8(windlass.ChildDead)
	case ended:
		child.State = uint8(windlass.ChildCompleted)
	}
	// As on the server, a large one is not on the page.
	if len(end.result) <= 64<<10 {
		child.Result = end.result
	}
	return child
}

func (s server) ChildResult(ordinal uint32) ([]byte, error) { return s.ended[ordinal].result, nil }

func (s server) Wait(onFailure windlass.OnFailure, state *windlass.Saved) error {
	s.Fake.wait = &wait{onFailure, state}
	return nil
}

func (s server) PutRecord(key string, value []byte) error {
	if len(key) < 1 || len(key) > 1024 || len(value) > 64<<10 {
		return windlass.Fatalf("a key has 1 to 1024 bytes, and a value at most 64 KiB")
	}
	s.noted = append(s.noted, note{at: Place{s.Job.Queue, key}, value: append([]byte(nil), value...)})
	return nil
}

func (s server) GetRecord(queue, key string) (*windlass.Recorded, error) {
	if record, found := s.Records[Place{queue, key}]; found {
		return &record, nil
	}
	return nil, nil
}

func (s server) Mark(queue, key, mark string) error {
	s.noted = append(s.noted, note{at: Place{queue, key}, isMark: true, mark: mark})
	return nil
}

func (s server) Config(name string) (string, bool) {
	value, found := s.Fake.Config[name]
	return value, found
}

func (s server) Secret(name string) (string, error) {
	if value, found := s.Secrets[name]; found {
		return value, nil
	}
	return "", windlass.Fatal(fmt.Errorf("this plugin may not read the secret %q", name))
}
