package openid

import (
	"io"
	"net/http"
)

// maxAnswer is far above the size of real responses, which are a few kilobytes.
const maxAnswer = 1 << 20 // maximum bytes of one response from the provider

// bounded truncates response bodies, because go-oidc reads them whole.
type bounded struct{ next http.RoundTripper }

// RoundTrip sends a request.
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
