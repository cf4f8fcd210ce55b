package whttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"windlass.dev/go/whttp"
)

func TestNativelyARequestGoesThroughTheNetwork(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(404)
		io.Copy(w, r.Body)
	}))
	defer server.Close()
	response, err := whttp.Post(server.URL, "text/plain", []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); string(body) != "hello" || response.Status != 404 || response.Get("x-type") != "text/plain" {
		t.Fatal(string(body), response)
	}
}

func TestAGetNeedsNoHeadersAndTheAnswersAreHTTPHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("X-Seen", r.Header.Get("X-Sent"))
		w.Header().Add("X-Seen", r.Method)
		io.WriteString(w, "hello")
	}))
	defer server.Close()
	for sent, request := range map[string]whttp.Request{
		"":    {URL: server.URL},
		"one": {URL: server.URL, Header: http.Header{"X-Sent": {"one"}}},
	} {
		response, err := whttp.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if seen := response.Header.Values("x-seen"); string(body) != "hello" || len(seen) != 2 || seen[0] != sent || seen[1] != "GET" {
			t.Fatal(string(body), response.Header)
		}
	}
	response, err := whttp.Get(server.URL)
	if err != nil || response.Status != 200 {
		t.Fatal(response, err)
	}
	response.Body.Close()
}
