package nethttp_test

import (
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
