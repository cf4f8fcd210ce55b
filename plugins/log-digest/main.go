// Reads a web server's log and tells what is in it: how many requests, which answers, which pages, which hours, how slow.
//
// It takes the common and combined formats and JSON lines, mixed as they come. The work is done in blocks of lines; a checkpoint
// holds the counts and the place in the text, so that a later attempt reads no line twice.
package main

import (
	"sort"
	"strconv"
	"strings"
	"time"

	windlass "windlass.dev/go"
)

// Order is what to read.
type Order struct {
	// The log itself, line by line.
	Text string `json:"text"`
	// How many pages and clients to name; 10 when absent.
	Top int `json:"top"`
	// How many lines to a step; 1,000 when absent.
	Block int `json:"block"`
}

// Outcome is what came out.
type Outcome struct {
	Lines int `json:"lines"`
	// Lines that are no request.
	Unread   int            `json:"unread"`
	Bytes    int64          `json:"bytes"`
	Statuses map[string]int `json:"statuses"`
	// Requests per hour, as 2026-11-17T02.
	Hours   map[string]int `json:"hours"`
	Pages   []Count        `json:"pages"`
	Clients []Count        `json:"clients"`
	// The first lines that could not be read, to see why.
	Samples []string `json:"samples"`
}

// Count is a name and how often it came.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Standing is what a checkpoint holds.
type Standing struct {
	Offset   int            `json:"offset"`
	Lines    int            `json:"lines"`
	Unread   int            `json:"unread"`
	Bytes    int64          `json:"bytes"`
	Statuses map[string]int `json:"statuses"`
	Hours    map[string]int `json:"hours"`
	Pages    map[string]int `json:"pages"`
	Clients  map[string]int `json:"clients"`
	Samples  []string       `json:"samples"`
}

const (
	maxNames    = 50_000 // different pages or clients that are counted; the rest is "(other)"
	maxSamples  = 5
	other       = "(other)"
	checkpoints = time.Second
)

func digest(ctx *windlass.Context, order Order) (Outcome, error) {
	if order.Text == "" {
		return Outcome{}, windlass.Fatalf("there is nothing to read: give the log as `text`")
	}
	top, block := orElse(order.Top, 10), orElse(order.Block, 1000)
	if top < 0 || top > 1000 || block < 0 {
		return Outcome{}, windlass.Fatalf("`top` may be from 1 to 1000, and `block` at least 1")
	}
	at := Standing{Statuses: map[string]int{}, Hours: map[string]int{}, Pages: map[string]int{}, Clients: map[string]int{}}
	if _, err := ctx.State(&at); err != nil {
		return Outcome{}, err
	}
	pause, err := pause(ctx)
	if err != nil {
		return Outcome{}, err
	}
	for at.Offset < len(order.Text) {
		if err := ctx.CheckCancelled(); err != nil {
			// The last lines are not lost.
			if saved := ctx.Checkpoint(at); saved != nil {
				return Outcome{}, saved
			}
			return Outcome{}, err
		}
		for n := 0; n < block && at.Offset < len(order.Text); n++ {
			line, _, _ := strings.Cut(order.Text[at.Offset:], "\n")
			at.Offset += len(line) + 1
			at.add(strings.TrimRight(line, "\r"))
		}
		ctx.Report(windlass.Progress{
			Phase: "read", Message: "reading", Level: windlass.Info, Unit: "bytes",
			Current: uint64(min(at.Offset, len(order.Text))), Total: uint64(len(order.Text)),
		})
		if _, err := ctx.CheckpointEvery(checkpoints, at); err != nil {
			return Outcome{}, err
		}
		time.Sleep(pause)
	}
	return Outcome{
		Lines: at.Lines, Unread: at.Unread, Bytes: at.Bytes, Statuses: at.Statuses, Hours: at.Hours,
		Pages: most(at.Pages, top), Clients: most(at.Clients, top), Samples: append([]string{}, at.Samples...),
	}, nil
}

// pause is the plugin's setting `pause_ms`: how long it rests after each block, on a machine that has other things to do.
func pause(ctx *windlass.Context) (time.Duration, error) {
	text, set := ctx.Config("pause_ms")
	if !set {
		return 0, nil
	}
	ms, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, windlass.Fatalf("the setting `pause_ms` is %q, which is no number of milliseconds", text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func (s *Standing) add(line string) {
	if line == "" {
		return
	}
	s.Lines++
	entry, ok := parse(line)
	if !ok {
		s.Unread++
		if len(s.Samples) < maxSamples {
			s.Samples = append(s.Samples, line[:min(len(line), 200)])
		}
		return
	}
	s.Bytes += entry.bytes
	s.Statuses[entry.status]++
	if !entry.at.IsZero() {
		s.Hours[entry.at.UTC().Format("2006-01-02T15")]++
	}
	count(s.Pages, entry.path)
	count(s.Clients, entry.client)
}

// count keeps the number of names within bounds, whatever the log holds.
func count(counts map[string]int, name string) {
	if _, known := counts[name]; !known && len(counts) >= maxNames {
		name = other
	}
	counts[name]++
}

// most gives the most frequent names, the same ones for the same log.
func most(counts map[string]int, top int) []Count {
	list := make([]Count, 0, len(counts))
	for name, count := range counts {
		list = append(list, Count{name, count})
	}
	sort.Slice(list, func(a, b int) bool {
		if list[a].Count != list[b].Count {
			return list[a].Count > list[b].Count
		}
		return list[a].Name < list[b].Name
	})
	return list[:min(top, len(list))]
}

func orElse(value, standard int) int {
	if value == 0 {
		return standard
	}
	return value
}

func init() { windlass.Handle(windlass.Any, digest) }

func main() {}
