// Package nethttp is net/http's client for handlers. The plugin must be granted HTTP.
//
//	response, err := nethttp.Client.Get("https://api.example.com/")
package nethttp

import (
	"fmt"
	"net/http"
	"strconv"

	"windlass.dev/go/whttp"
)

// Client is a client with default settings. It follows redirects; each is a request of its own, which must be granted.
var Client = &http.Client{Transport: Transport{}}

// Transport is for clients with other settings.
type Transport struct{}

// RoundTrip sends one request.
func (Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	header := request.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if request.ContentLength > 0 {
		header.Set("Content-Length", strconv.FormatInt(request.ContentLength, 10))
	}
	out := whttp.Request{Method: request.Method, URL: request.URL.String(), Header: header}
	if request.Body != nil {
		defer request.Body.Close()
		out.Body = request.Body
	}
	// A request on its way cannot be interrupted; one that has not been sent is not.
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	answer, err := whttp.Do(out)
	if err != nil {
		return nil, err
	}
	response := &http.Response{
		Status:     fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status)),
		StatusCode: answer.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.Header, ContentLength: -1, Request: request, Body: answer.Body,
	}
	if length, err := strconv.ParseInt(response.Header.Get("Content-Length"), 10, 64); err == nil {
		response.ContentLength = length
	}
	return response, nil
}
