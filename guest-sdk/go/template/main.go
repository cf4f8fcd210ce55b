// Counts to a number, in steps that survive a crash. Replace the sum with your own work.
package main

import windlass "windlass.dev/go"

type Order struct {
	Steps uint64 `json:"steps"`
}

// Standing is what a checkpoint holds.
type Standing struct {
	Done uint64 `json:"done"`
	Sum  uint64 `json:"sum"`
}

type Outcome struct {
	Sum uint64 `json:"sum"`
}

func count(ctx *windlass.Context, order Order) (Outcome, error) {
	var at Standing
	if _, err := ctx.State(&at); err != nil {
		return Outcome{}, err
	}
	for at.Done < order.Steps {
		if err := ctx.CheckCancelled(); err != nil {
			return Outcome{}, err
		}
		at.Done++
		at.Sum += at.Done
		ctx.Progress(at.Done, order.Steps, "counting")
		if err := ctx.Checkpoint(at); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{Sum: at.Sum}, nil
}

// The server calls handlers and never main.
func init() { windlass.Handle("{{name}}", count) }

func main() {}
