package nethttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"windlass.dev/go/whttp/nethttp"
)

func TestTheClientGoesThroughTheTransport(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			http.Redirect(w, r, "/here?n=1", http.StatusFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	}))
	defer server.Close()
	response, err := nethttp.Client.Post(server.URL+"/there", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); string(body) != "GET /here?n=1 " {
		t.Fatal(string(body))
	}
}

func TestNothingIsSentWithAContextThatHasEnded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	defer server.Close()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	request, err := http.NewRequestWithContext(ended, "GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (nethttp.Transport{}).RoundTrip(request); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
