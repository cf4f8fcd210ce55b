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
