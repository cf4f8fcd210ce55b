//go:build wasip1

package windlass

import (
	"bytes"
	"errors"
	"sort"
	"strings"
	"time"

	"windlass.dev/go/internal/attempt"
	"windlass.dev/go/internal/wit/exports/export_windlass_job_run"
	_ "windlass.dev/go/internal/wit/exports/wit_exports"
	"windlass.dev/go/internal/wit/imports/windlass_job_cancel"
	"windlass.dev/go/internal/wit/imports/windlass_job_checkpoint"
	"windlass.dev/go/internal/wit/imports/windlass_job_children"
	"windlass.dev/go/internal/wit/imports/windlass_job_config"
	"windlass.dev/go/internal/wit/imports/windlass_job_log"
	"windlass.dev/go/internal/wit/imports/windlass_job_progress"
	"windlass.dev/go/internal/wit/imports/windlass_job_records"
	"windlass.dev/go/internal/wit/imports/windlass_job_run"
	"windlass.dev/go/internal/wit/imports/windlass_job_secrets"
	"windlass.dev/go/internal/wit/imports/windlass_job_spawn"
	"windlass.dev/go/internal/wit/imports/windlass_job_types"
	"windlass.dev/go/internal/witruntime"
	witTypes "windlass.dev/go/internal/wittypes"
)

func init() { export_windlass_job_run.Attempt = run }

// run runs one attempt.
func run(wit windlass_job_types.Job) witTypes.Result[[]uint8, windlass_job_run.Failure] {
	// Whatever comes from the server is copied, because the next call lies where this one did.
	job := Job{
		ID: strings.Clone(wit.Id), Queue: strings.Clone(wit.Queue), Payload: bytes.Clone(wit.Payload),
		Attempt: wit.Attempt, MaxAttempts: wit.MaxAttempts, Tags: map[string]string{},
		Scope: strings.Clone(wit.Scope.SomeOr("")), CreatedAt: time.UnixMilli(int64(wit.CreatedAtMs)),
	}
	for _, tag := range wit.Tags {
		job.Tags[strings.Clone(tag.F0)] = strings.Clone(tag.F1)
	}
	if wit.Round.IsSome() {
		round := wit.Round.Some()
		job.Round = &round
	}
	if deadline := wit.DeadlineMs; deadline.IsSome() {
		job.Deadline = time.UnixMilli(int64(deadline.Some()))
	}
	var saved *Saved
	if state := wit.Checkpoint; state.IsSome() {
		saved = &Saved{Schema: state.Some().Schema, State: bytes.Clone(state.Some().State)}
	}
	witruntime.Release()
	result, err := dispatch(newContext(job, saved, imports{}))
	if errors.Is(err, ErrWaiting) {
		// The server knows that the job waits, and ignores its result.
		return witTypes.Ok[[]uint8, windlass_job_run.Failure](nil)
	}
	if err != nil {
		return witTypes.Err[[]uint8, windlass_job_run.Failure](wire(failed(err)))
	}
	return witTypes.Ok[[]uint8, windlass_job_run.Failure](result)
}

func wire(failed failure) windlass_job_run.Failure {
	retry := windlass_job_run.MakeRetryBackoff()
	switch {
	case failed.never:
		retry = windlass_job_run.MakeRetryNever()
	case failed.after > 0:
		retry = windlass_job_run.MakeRetryAfterMs(uint64(failed.after.Milliseconds()))
	}
	return windlass_job_run.Failure{Message: failed.message, Detail: some(failed.detail), Retry: retry}
}

// imports is the real server.
type imports struct{}

func (imports) Progress(p Progress) {
	event := windlass_job_progress.Event{
		Phase: some(p.Phase), Message: some(p.Message), Level: uint8(p.Level), Detail: some(p.Detail),
	}
	switch {
	case p.Current != 0 || p.Total != 0:
		event.Amount = witTypes.Some(windlass_job_progress.MakeAmountCount(windlass_job_progress.Count{
			Current: p.Current, Total: some(p.Total), Unit: some(p.Unit), Weight: some(p.Weight),
		}))
	case p.Percent != 0:
		event.Amount = witTypes.Some(windlass_job_progress.MakeAmountPercent(p.Percent))
	default:
		event.Amount = witTypes.None[windlass_job_progress.Amount]()
	}
	windlass_job_progress.Report(event)
}

func (imports) Checkpoint(schema uint32, state []byte) error {
	saved := windlass_job_checkpoint.Save(schema, state)
	if saved.IsOk() {
		return nil
	}
	switch refusal := saved.Err(); refusal.Tag() {
	case windlass_job_checkpoint.Refusal_TooLarge:
		return Fatalf("the state has %d bytes, and a checkpoint may have %d", len(state), refusal.TooLarge())
	default:
		defer witruntime.Release()
		return stringError("the checkpoint was not saved: " + refusal.Unavailable())
	}
}

func (imports) Cancelled() (Cancel, bool) {
	request := windlass_job_cancel.Cancelled()
	if !request.IsSome() {
		return Cancel{}, false
	}
	asked := request.Some()
	return Cancel{Reason: Reason(asked.Reason), TimeLeft: time.Duration(asked.TimeLeftMs) * time.Millisecond}, true
}

func (imports) Log(level Level, message string) { windlass_job_log.Write(uint8(level), message) }

func (imports) Spawn(child Child, payload []byte) (uint32, error) {
	wit := windlass_job_spawn.Child{
		Queue: child.Queue, Payload: payload, Priority: witTypes.None[uint8](), DelayMs: millis(child.Delay),
		MaxAttempts: some(child.MaxAttempts), UniqueKey: some(child.UniqueKey),
		UniquePeriodMs: millis(child.UniquePeriod), Scope: some(child.Scope),
	}
	if child.Priority != QueuePriority {
		wit.Priority = witTypes.Some(uint8(child.Priority - Critical))
	}
	for name, value := range child.Tags {
		wit.Tags = append(wit.Tags, witTypes.Tuple2[string, string]{F0: name, F1: value})
	}
	sort.Slice(wit.Tags, func(a, b int) bool { return wit.Tags[a].F0 < wit.Tags[b].F0 })
	started := windlass_job_spawn.Start(wit)
	if started.IsOk() {
		return started.Ok(), nil
	}
	switch refusal := started.Err(); refusal.Tag() {
	case windlass_job_spawn.Refusal_TooMany:
		return 0, Fatalf("more than %d children wait for a checkpoint; save one in between", refusal.TooMany())
	case windlass_job_spawn.Refusal_TooLarge:
		return 0, Fatalf("the children that wait for a checkpoint have more than %d bytes; save one in between", refusal.TooLarge())
	case windlass_job_spawn.Refusal_Denied:
		defer witruntime.Release()
		return 0, Fatal(stringError(strings.Clone(refusal.Denied())))
	default:
		defer witruntime.Release()
		return 0, Fatal(stringError(strings.Clone(refusal.Invalid())))
	}
}

func (imports) Joined() (ChildCounts, bool) {
	found := windlass_job_children.Joined()
	if !found.IsSome() {
		return ChildCounts{}, false
	}
	counts := found.Some()
	return ChildCounts{counts.Total, counts.Completed, counts.Dead, counts.Cancelled}, true
}

// How many children to ask for at once; the server returns no more.
const childrenPage = 100

func (imports) Children(start uint32) ([]attempt.Child, uint32, bool, error) {
	defer witruntime.Release()
	read := windlass_job_children.Read(start, childrenPage)
	if !read.IsOk() {
		return nil, 0, false, notRead(read.Err())
	}
	page := read.Ok()
	children := make([]attempt.Child, 0, len(page.Children))
	for _, child := range page.Children {
		found := attempt.Child{
			Ordinal: child.Ordinal, ID: strings.Clone(child.Id), Queue: strings.Clone(child.Queue),
			State: child.State, Error: strings.Clone(child.Error.SomeOr("")), ResultBytes: child.ResultBytes,
		}
		if child.Result.IsSome() {
			found.Result = bytes.Clone(child.Result.Some())
		}
		children = append(children, found)
	}
	return children, page.Next.SomeOr(0), !page.Next.IsSome(), nil
}

func (imports) ChildResult(ordinal uint32) ([]byte, error) {
	defer witruntime.Release()
	read := windlass_job_children.Result(ordinal)
	if !read.IsOk() {
		return nil, notRead(read.Err())
	}
	return bytes.Clone(read.Ok().SomeOr(nil)), nil
}

func (imports) Wait(onFailure OnFailure, state *Saved) error {
	saved := witTypes.None[windlass_job_types.SavedState]()
	if state != nil {
		saved = witTypes.Some(windlass_job_types.SavedState{Schema: state.Schema, State: state.State})
	}
	noted := windlass_job_children.Wait(uint8(onFailure), saved)
	if noted.IsOk() {
		return nil
	}
	if refusal := noted.Err(); refusal.Tag() == windlass_job_children.Refusal_TooLarge {
		return Fatalf("the state has %d bytes, and a checkpoint may have %d", len(state.State), refusal.TooLarge())
	}
	defer witruntime.Release()
	return notRead(noted.Err())
}

func notRead(refusal windlass_job_children.Refusal) error {
	switch refusal.Tag() {
	case windlass_job_children.Refusal_Invalid:
		return Fatal(stringError(strings.Clone(refusal.Invalid())))
	case windlass_job_children.Refusal_TooLarge:
		return Fatalf("it has more than %d bytes", refusal.TooLarge())
	default:
		return stringError("the children were not read: " + refusal.Unavailable())
	}
}

func (imports) PutRecord(key string, value []byte) error {
	defer witruntime.Release()
	if put := windlass_job_records.Put(key, value); !put.IsOk() {
		return notRecorded(put.Err())
	}
	return nil
}

func (imports) GetRecord(queue, key string) (*Recorded, error) {
	defer witruntime.Release()
	read := windlass_job_records.Get(queue, key)
	if !read.IsOk() {
		return nil, notRecorded(read.Err())
	}
	found := read.Ok()
	if !found.IsSome() {
		return nil, nil
	}
	entry := found.Some()
	return &Recorded{Value: bytes.Clone(entry.Value), Mark: strings.Clone(entry.Mark.SomeOr(""))}, nil
}

func (imports) Mark(queue, key, mark string) error {
	defer witruntime.Release()
	if marked := windlass_job_records.Mark(queue, key, some(mark)); !marked.IsOk() {
		return notRecorded(marked.Err())
	}
	return nil
}

func notRecorded(refusal windlass_job_records.Refusal) error {
	switch refusal.Tag() {
	case windlass_job_records.Refusal_TooMany:
		return Fatalf("more than %d records wait for a checkpoint; save one in between", refusal.TooMany())
	case windlass_job_records.Refusal_TooLarge:
		return Fatalf("the record has more than %d bytes, alone or with those that wait for a checkpoint", refusal.TooLarge())
	case windlass_job_records.Refusal_Invalid:
		return Fatal(stringError(strings.Clone(refusal.Invalid())))
	case windlass_job_records.Refusal_Denied:
		return Fatal(stringError(strings.Clone(refusal.Denied())))
	default:
		return stringError("the record was not read: " + refusal.Unavailable())
	}
}

func (imports) Config(name string) (string, bool) {
	defer witruntime.Release()
	value := windlass_job_config.Get(name)
	return strings.Clone(value.SomeOr("")), value.IsSome()
}

func (imports) Secret(name string) (string, error) {
	defer witruntime.Release()
	secret := windlass_job_secrets.Get(name)
	if secret.IsOk() {
		return strings.Clone(secret.Ok()), nil
	}
	switch refusal := secret.Err(); refusal.Tag() {
	case windlass_job_secrets.Refusal_Denied:
		return "", Fatal(stringError(strings.Clone(refusal.Denied())))
	default:
		return "", Fatal(stringError(strings.Clone(refusal.Missing())))
	}
}

type stringError string

func (e stringError) Error() string { return string(e) }

// some is none for the zero value.
func some[T comparable](value T) witTypes.Option[T] {
	var zero T
	if value == zero {
		return witTypes.None[T]()
	}
	return witTypes.Some(value)
}

func millis(time time.Duration) witTypes.Option[uint64] { return some(uint64(time.Milliseconds())) }
