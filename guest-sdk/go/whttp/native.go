//go:build !wasip1

package whttp

import "net/http"

func do(request Request) (*Response, error) {
	out, err := http.NewRequest(request.Method, request.URL, request.Body)
	if err != nil {
		return nil, err
	}
	// A request of net/http without headers has an empty map of them, never none.
	if request.Header != nil {
		out.Header = request.Header.Clone()
	}
	answer, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	return &Response{Status: answer.StatusCode, Header: answer.Header, Body: answer.Body}, nil
}
