package openid

import (
	"io"
	"net/http"
)

// maxAnswer is the maximum size of a response from the provider. Real responses are a few kilobytes
// long.
const maxAnswer = 1 << 20 // bytes

// bounded is an HTTP transport that truncates response bodies to maxAnswer bytes, because go-oidc
// reads bodies completely into memory.
type bounded struct{ next http.RoundTripper }

// RoundTrip sends a request and returns the response with a truncated body.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxAnswer), res.Body}
	return res, nil
}
