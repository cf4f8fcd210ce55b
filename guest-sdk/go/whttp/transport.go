// Package whttp sends HTTP requests from a handler, where the plugin is granted them. [Client] is a net/http client like any other:
//
//	response, err := whttp.Client.Get("https://api.example.com/")
//
// In a component it goes through the server that runs it, natively through the network, so that tests can use httptest. It is a
// package of its own because net/http makes a component two megabytes larger.
package whttp

import "net/http"

// Client is for those who need nothing special.
var Client = &http.Client{Transport: Transport}

// Transport is for those who make a client of their own.
var Transport http.RoundTripper = transport()
