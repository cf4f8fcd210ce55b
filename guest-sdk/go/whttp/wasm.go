//go:build wasip1

package whttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	handler "windlass.dev/go/internal/wit/imports/wasi_http_outgoing_handler"
	types "windlass.dev/go/internal/wit/imports/wasi_http_types"
	streams "windlass.dev/go/internal/wit/imports/wasi_io_streams"
	"windlass.dev/go/internal/witruntime"
	wit "windlass.dev/go/internal/wittypes"
)

func do(request Request) (*Response, error) {
	out, err := convert(request)
	if err != nil {
		return nil, err
	}
	// The body is taken before the request is given away, and filled after.
	taken := out.Body()
	if !taken.IsOk() {
		return nil, errors.New("whttp: the request has no body to fill")
	}
	sent := handler.Handle(out, wit.None[*types.RequestOptions]())
	if !sent.IsOk() {
		return nil, failed(request.URL, sent.Err())
	}
	future := sent.Ok()
	defer future.Drop()
	if err := fill(taken.Ok(), request); err != nil {
		return nil, err
	}
	ready := future.Subscribe()
	ready.Block()
	ready.Drop()
	got := future.Get()
	if !got.IsSome() || !got.Some().IsOk() {
		return nil, errors.New(request.URL + ": no answer came")
	}
	answered := got.Some().Ok()
	if !answered.IsOk() {
		return nil, failed(request.URL, answered.Err())
	}
	return response(answered.Ok())
}

func convert(request Request) (*types.OutgoingRequest, error) {
	wrong := fmt.Errorf("%q is no http:// or https:// address", request.URL)
	scheme := types.MakeSchemeHttps()
	rest, secure := strings.CutPrefix(request.URL, "https://")
	if !secure {
		var plain bool
		if rest, plain = strings.CutPrefix(request.URL, "http://"); !plain {
			return nil, wrong
		}
		scheme = types.MakeSchemeHttp()
	}
	rest, _, _ = strings.Cut(rest, "#")
	host, path := rest, "/"
	if at := strings.IndexAny(rest, "/?"); at >= 0 {
		host, path = rest[:at], rest[at:]
		if path[0] == '?' {
			path = "/" + path
		}
	}
	var headers []wit.Tuple2[string, []uint8]
	for name, values := range request.Header {
		for _, value := range values {
			headers = append(headers, wit.Tuple2[string, []uint8]{F0: name, F1: []byte(value)})
		}
	}
	fields := types.FieldsFromList(headers)
	if !fields.IsOk() {
		return nil, errors.New("whttp: a header of the request cannot be sent")
	}
	out := types.MakeOutgoingRequest(fields.Ok())
	good := out.SetMethod(method(request.Method)).IsOk() && out.SetScheme(wit.Some(scheme)).IsOk() &&
		out.SetAuthority(wit.Some(host)).IsOk() && out.SetPathWithQuery(wit.Some(path)).IsOk()
	if !good {
		return nil, wrong
	}
	return out, nil
}

func method(name string) types.Method {
	switch name {
	case "", "GET":
		return types.MakeMethodGet()
	case "HEAD":
		return types.MakeMethodHead()
	case "POST":
		return types.MakeMethodPost()
	case "PUT":
		return types.MakeMethodPut()
	case "DELETE":
		return types.MakeMethodDelete()
	case "OPTIONS":
		return types.MakeMethodOptions()
	case "PATCH":
		return types.MakeMethodPatch()
	}
	return types.MakeMethodOther(name)
}

// fill sends the body. What one call may write is bounded by the interface.
func fill(out *types.OutgoingBody, request Request) error {
	if body := request.Body; body != nil {
		opened := out.Write()
		if !opened.IsOk() {
			return errors.New("whttp: the body cannot be written")
		}
		stream := opened.Ok()
		part := make([]byte, 4096)
		for {
			n, err := body.Read(part)
			if n > 0 {
				if written := stream.BlockingWriteAndFlush(part[:n]); !written.IsOk() {
					stream.Drop()
					return errors.New("whttp: the request could not be sent whole")
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				stream.Drop()
				return err
			}
		}
		stream.Drop()
	}
	if finished := types.OutgoingBodyFinish(out, wit.None[*types.Fields]()); !finished.IsOk() {
		return failed(request.URL, finished.Err())
	}
	return nil
}

func response(answer *types.IncomingResponse) (*Response, error) {
	header := http.Header{}
	fields := answer.Headers()
	for _, field := range fields.Entries() {
		header.Add(strings.Clone(field.F0), string(field.F1))
	}
	fields.Drop()
	witruntime.Release()
	status := int(answer.Status())
	consumed := answer.Consume()
	if !consumed.IsOk() {
		return nil, errors.New("whttp: the answer has no body")
	}
	body := consumed.Ok()
	opened := body.Stream()
	if !opened.IsOk() {
		return nil, errors.New("whttp: the answer's body cannot be read")
	}
	return &Response{Status: status, Header: header, Body: &reader{stream: opened.Ok(), body: body, answer: answer}}, nil
}

// reader reads the body of an answer.
type reader struct {
	stream *streams.InputStream
	body   *types.IncomingBody
	answer *types.IncomingResponse
	rest   []byte
	err    error
}

func (r *reader) Read(into []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		read := r.stream.BlockingRead(64 << 10)
		if read.IsOk() {
			r.rest = bytes.Clone(read.Ok())
			witruntime.Release()
		} else if read.Err().Tag() == streams.StreamError_Closed {
			r.err = io.EOF
		} else {
			r.err = io.ErrUnexpectedEOF
		}
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(into, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close gives everything back, the stream before the body it comes from.
func (r *reader) Close() error {
	r.stream.Drop()
	r.body.Drop()
	r.answer.Drop()
	if r.err == nil {
		r.err = errors.New("whttp: read after close")
	}
	return nil
}

func failed(url string, code types.ErrorCode) error {
	defer witruntime.Release()
	why := fmt.Sprintf("the request failed: error %d of wasi:http", code.Tag())
	switch code.Tag() {
	case types.ErrorCode_HttpRequestDenied:
		why = "the request was denied; the plugin needs a grant for this host"
	case types.ErrorCode_DnsError, types.ErrorCode_DnsTimeout, types.ErrorCode_DestinationNotFound:
		why = "the host was not found"
	case types.ErrorCode_DestinationIpProhibited:
		why = "the host's address is not allowed"
	case types.ErrorCode_ConnectionRefused:
		why = "the connection was refused"
	case types.ErrorCode_InternalError:
		why = code.InternalError().SomeOr(why)
	}
	return errors.New(url + ": " + why)
}
