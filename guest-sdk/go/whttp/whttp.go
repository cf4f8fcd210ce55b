// Package whttp sends HTTP requests from a handler. The plugin must be granted the hosts.
//
//	response, err := whttp.Get("https://api.example.com/")
//	if err != nil {
//		return nil, err
//	}
//	defer response.Body.Close()
//	if response.Status != 200 {
//		return nil, fmt.Errorf("the answer is %d", response.Status)
//	}
//	body, err := io.ReadAll(response.Body)
//
// It is small. For net/http's own client there is the package nethttp, which makes a component 7 MB larger. Redirects
// are not followed here. Natively a request goes through the network, so that tests can use httptest.
package whttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Request is a request. The zero value is a GET without a body.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   io.Reader
}

// Response is a response. Its body is a stream, and must be closed.
type Response struct {
	Status int
	Header http.Header
	Body   io.ReadCloser
}

// Get sends a GET request.
func Get(url string) (*Response, error) { return Do(Request{URL: url}) }

// Post sends a POST request with a body.
func Post(url, contentType string, body []byte) (*Response, error) {
	header := http.Header{"Content-Type": {contentType}, "Content-Length": {fmt.Sprint(len(body))}}
	return Do(Request{Method: "POST", URL: url, Header: header, Body: bytes.NewReader(body)})
}

// Do sends a request. A response of any status, such as 404 or 500, is not an error.
func Do(request Request) (*Response, error) { return do(request) }

// Get returns the first header of this name, in any case.
func (r *Response) Get(name string) string {
	return r.Header.Get(name)
}
