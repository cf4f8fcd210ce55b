package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// entry is one request of a log.
type entry struct {
	client string
	at     time.Time
	path   string
	status string
	bytes  int64
}

// parse reads a line of the common or combined format, or a JSON object.
func parse(line string) (entry, bool) {
	if strings.HasPrefix(line, "{") {
		return parseJSON(line)
	}
	return parseCommon(line)
}

// host ident user [day/month/year:hour:minute:second zone] "method path protocol" status bytes …
func parseCommon(line string) (entry, bool) {
	head, rest, found := strings.Cut(line, " [")
	if !found {
		return entry{}, false
	}
	when, rest, found := strings.Cut(rest, "] \"")
	if !found {
		return entry{}, false
	}
	request, rest, found := strings.Cut(rest, "\" ")
	if !found {
		return entry{}, false
	}
	client, _, _ := strings.Cut(head, " ")
	at, err := time.Parse("02/Jan/2006:15:04:05 -0700", when)
	fields := strings.Fields(rest)
	words := strings.Fields(request)
	if err != nil || len(fields) < 2 || len(words) < 2 || !isStatus(fields[0]) {
		return entry{}, false
	}
	size, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || size < 0 {
		// A dash is an answer without a body.
		if fields[1] != "-" {
			return entry{}, false
		}
		size = 0
	}
	return entry{client: client, at: at, path: page(words[1]), status: fields[0], bytes: size}, true
}

func parseJSON(line string) (entry, bool) {
	var object struct {
		Client     string      `json:"client"`
		RemoteAddr string      `json:"remote_addr"`
		Time       string      `json:"time"`
		TS         string      `json:"ts"`
		Path       string      `json:"path"`
		URI        string      `json:"uri"`
		Status     json.Number `json:"status"`
		Bytes      int64       `json:"bytes"`
	}
	if json.Unmarshal([]byte(line), &object) != nil || !isStatus(object.Status.String()) {
		return entry{}, false
	}
	path := first(object.Path, object.URI)
	if path == "" || object.Bytes < 0 {
		return entry{}, false
	}
	// A time that cannot be read is left out of the hours; the rest counts.
	at, _ := time.Parse(time.RFC3339, first(object.Time, object.TS))
	return entry{client: first(object.Client, object.RemoteAddr), at: at, path: page(path), status: object.Status.String(), bytes: object.Bytes}, true
}

func isStatus(text string) bool {
	return len(text) == 3 && text[0] >= '1' && text[0] <= '5' && strings.Trim(text, "0123456789") == ""
}

// page is a path without its query, which would make every request a page of its own.
func page(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path[:min(len(path), 200)]
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
