// The conformance handler: the same modes in every language; see tests/guests/README.md.
package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	windlass "windlass.dev/go"
	"windlass.dev/go/whttp"
)

type order struct {
	Mode    string `json:"mode"`
	Text    string `json:"text"`
	Steps   uint64 `json:"steps"`
	PauseMs uint64 `json:"pause_ms"`
	Ms      uint64 `json:"ms"`
	Queue   string `json:"queue"`
	Count   int    `json:"count"`
	Bad     int    `json:"bad"`
	OnFail  string `json:"on_failure"`
	Name    string `json:"name"`
	URL     string `json:"url"`
}

type answer = map[string]any

func init() { windlass.Handle(windlass.Any, conform) }

func main() {}

func conform(ctx *windlass.Context, in order) (answer, error) {
	switch in.Mode {
	case "noop":
		return answer{}, nil
	case "echo":
		return answer{"text": in.Text, "bytes": len(ctx.Job.Payload)}, nil
	case "steps":
		return steps(ctx, in)
	case "spin":
		for n := uint64(0); ; n++ {
			sink = n
		}
	case "fail":
		return nil, errors.New(in.Text)
	case "fatal":
		return nil, windlass.Fatal(errors.New(in.Text))
	case "retry_after":
		return nil, windlass.RetryAfter(time.Duration(in.Ms)*time.Millisecond, errors.New(in.Text))
	case "panic":
		panic(in.Text)
	case "spawn":
		for range in.Count {
			child := windlass.Child{
				Queue: in.Queue, Payload: answer{"mode": "echo", "text": in.Text}, Priority: windlass.Low,
			}
			if _, err := ctx.Spawn(child); err != nil {
				return nil, err
			}
		}
		return answer{"spawned": in.Count}, nil
	case "join":
		return join(ctx, in)
	case "record":
		return record(ctx, in)
	case "config":
		if value, found := ctx.Config(in.Name); found {
			return answer{"value": value}, nil
		}
		return answer{"value": nil}, nil
	case "secret":
		value, err := ctx.Secret(in.Name)
		return answer{"value": value}, err
	case "fetch":
		response, err := whttp.Get(in.URL)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return answer{"status": response.Status, "body": string(body)}, err
	}
	return nil, windlass.Fatalf("there is no mode %q", in.Mode)
}

func join(ctx *windlass.Context, in order) (answer, error) {
	counts, joined := ctx.Joined()
	if !joined {
		for n := range in.Count {
			mode := "echo"
			if n < in.Bad {
				mode = "fatal"
			}
			if _, err := ctx.Spawn(windlass.Child{Queue: in.Queue, Payload: answer{"mode": mode, "text": in.Text}}); err != nil {
				return nil, err
			}
		}
		policies := map[string]windlass.OnFailure{"cancel": windlass.OnFailureCancel, "continue": windlass.OnFailureContinue}
		return nil, ctx.WaitForChildren(policies[in.OnFail], in.Count)
	}
	var spawned int
	if _, err := ctx.State(&spawned); err != nil || spawned != in.Count {
		return nil, windlass.Fatalf("the state that the wait saved is not there")
	}
	texts := []string{}
	for child, err := range ctx.Children() {
		if err != nil {
			return nil, err
		}
		if child.State != windlass.ChildCompleted {
			continue
		}
		var echo struct{ Text string }
		if err := child.Result(&echo); err != nil {
			return nil, err
		}
		texts = append(texts, echo.Text)
	}
	return answer{"total": counts.Total, "completed": counts.Completed, "dead": counts.Dead, "texts": texts}, nil
}

func record(ctx *windlass.Context, in order) (answer, error) {
	var text string
	found, err := ctx.GetRecord(in.Queue, in.Name, &text)
	if err != nil {
		return nil, err
	}
	if err := ctx.PutRecord(in.Name, in.Text); err != nil {
		return nil, err
	}
	if err := ctx.Mark(in.Queue, in.Name, "seen"); err != nil {
		return nil, err
	}
	told := answer{"found": nil, "mark": nil, "round": nil}
	if found != nil {
		told["found"] = text
	}
	if found != nil && found.Mark != "" {
		told["mark"] = found.Mark
	}
	if ctx.Job.Round != nil {
		told["round"] = *ctx.Job.Round
	}
	return told, nil
}

// Seen from outside, so that the compiler keeps the loop.
var sink uint64

func steps(ctx *windlass.Context, in order) (answer, error) {
	var from uint64
	if _, err := ctx.State(&from); err != nil {
		return nil, err
	}
	for step := from + 1; step <= in.Steps; step++ {
		if err := ctx.CheckCancelled(); err != nil {
			return nil, err
		}
		ctx.Log(windlass.Info, "step %d", step)
		if in.PauseMs > 0 {
			select {
			case <-time.After(time.Duration(in.PauseMs) * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		ctx.Progress(step, in.Steps, fmt.Sprintf("step %d", step))
		if err := ctx.Checkpoint(step); err != nil {
			return nil, err
		}
	}
	return answer{"steps": in.Steps, "ran": in.Steps - from, "from": from, "attempt": ctx.Job.Attempt}, nil
}
