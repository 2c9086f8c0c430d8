package openid

import (
	"io"
	"net/http"
)

// maxAnswer is the maximum size of a response from the provider. Real responses are a few kilobytes
// long.
const maxAnswer = 1 << 20 // maximum bytes of one response from the provider

// bounded is a transport that truncates long response bodies, because go-oidc reads bodies
// completely.
type bounded struct{ next http.RoundTripper }

// RoundTrip sends a request and limits the body of the response.
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
