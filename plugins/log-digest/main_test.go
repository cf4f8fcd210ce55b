package main

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	windlass "windlass.dev/go"
	"windlass.dev/go/windlasstest"
)

const log = `10.0.0.1 - - [17/Nov/2026:02:03:04 +0000] "GET /a?x=1 HTTP/1.1" 200 512
10.0.0.2 - bob [17/Nov/2026:04:03:04 +0200] "POST /b HTTP/1.1" 503 - "http://ref" "agent [x]"
{"client":"10.0.0.1","time":"2026-11-17T03:00:00Z","path":"/a","status":200,"bytes":88}

nonsense
10.0.0.9 - - [never] "GET / HTTP/1.1" 200 1
`

func TestEveryFormatIsReadAndTheRestIsCounted(t *testing.T) {
	got, err := windlasstest.Run(windlasstest.New(), digest, Order{Text: log})
	if err != nil {
		t.Fatal(err)
	}
	want := Outcome{
		Lines: 5, Unread: 2, Bytes: 600, Statuses: map[string]int{"200": 2, "503": 1},
		Hours:   map[string]int{"2026-11-17T02": 2, "2026-11-17T03": 1},
		Pages:   []Count{{"/a", 2}, {"/b", 1}},
		Clients: []Count{{"10.0.0.1", 2}, {"10.0.0.2", 1}},
		Samples: []string{"nonsense", `10.0.0.9 - - [never] "GET / HTTP/1.1" 200 1`},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v", got)
	}
}

func TestALaterAttemptReadsNoLineTwice(t *testing.T) {
	var text strings.Builder
	for n := range 100 {
		fmt.Fprintf(&text, "h - - [17/Nov/2026:02:03:04 +0000] \"GET /%d HTTP/1.1\" 200 1\n", n%7)
	}
	order := Order{Text: text.String(), Block: 10, Top: 3}
	whole, err := windlasstest.Run(windlasstest.New(), digest, order)
	if err != nil || whole.Lines != 100 {
		t.Fatal(whole, err)
	}
	fake := windlasstest.New()
	fake.CancelAfter(4, windlass.Shutdown)
	if _, err := windlasstest.Run(fake, digest, order); !errors.Is(err, windlass.ErrCancelled) {
		t.Fatal(err)
	}
	fake.Resume()
	resumed, err := windlasstest.Run(fake, digest, order)
	if err != nil || !reflect.DeepEqual(resumed, whole) {
		t.Fatal(resumed, err)
	}
	if reports := len(fake.Progress); reports != 4+6 {
		t.Fatalf("%d reports", reports)
	}
}

func TestAnOrderThatMakesNoSenseIsFatal(t *testing.T) {
	for _, order := range []Order{{}, {Text: "x", Top: -1}, {Text: "x", Block: -1}, {Text: "x", Top: 1001}} {
		if _, err := windlasstest.Run(windlasstest.New(), digest, order); !windlass.IsFatal(err) {
			t.Error(order, err)
		}
	}
}

func FuzzNoLineMakesItPanic(f *testing.F) {
	for _, line := range strings.Split(log, "\n") {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) { parse(line) })
}
