//go:build !wasip1

package whttp

import "net/http"

func transport() http.RoundTripper { return http.DefaultTransport }
